"""Seeds that fail: the others are kept, and the failed ones are marked with the place where they failed.

A seed fails in a stage if its artifact has NaN or infinity, or if the stage rejects it (`Stage.check_artifact`). The
artifacts of a failed seed are NaN from that stage on, so that nobody can use them by mistake. Later stages and the
evaluation compute with a copy of the first good seed in its place, and the result is dropped.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError
from edl.runs import tensors
from edl.runs.config import RunConfig
from edl.runs.pipeline import Stage

FAILED = "failed"
"""The entry of a stage in progress.json that says why seeds failed, by seed; and that of a seed in metrics.json."""
Failed = dict[int, str]
"""Why seeds failed, by their index."""


def failed_seeds(
    stage: Stage, config: RunConfig, artifact: PyTree, rows: Sequence[Mapping[str, Any]], known: Iterable[int] = ()
) -> Failed:
    """The seeds that fail in this stage; ``known`` have failed before. A `ConfigError` if no seed is left.

    ``rows`` of the log tell the iteration at which a seed diverged.
    """
    found, known = {}, set(known)
    if stage.finite:
        for index, name in tensors.not_finite(artifact, config.num_seeds).items():
            since = _diverged_at(rows, stage.name, index)
            at = "" if since is None else f", after iteration {since}"
            found[index] = f"stage {stage.name!r}: NaN or infinity in {name!r}{at}"
    for index in set(range(config.num_seeds)) - known - found.keys():
        alone = dataclasses.replace(config, seed=config.seed + index, num_seeds=1)
        try:
            stage.check_artifact(alone, jax.tree.map(lambda leaf, i=index: leaf[i : i + 1], artifact))
        except ConfigError as error:
            found[index] = f"stage {stage.name!r}: {error}"
    found = {index: reason for index, reason in sorted(found.items()) if index not in known}
    if len(known) + len(found) == config.num_seeds:
        if stage.finite:
            tensors.check_finite(artifact, f"the result of stage {stage.name!r}")
        stage.check_artifact(config, artifact)
        raise ConfigError(f"all seeds failed. Seed {config.seed + next(iter(found or known))}: {found or known}")
    return found


def _diverged_at(rows: Sequence[Mapping[str, Any]], stage: str, index: int) -> int | None:
    """The last iteration of the log before a metric of the seed was not finite; None if all of them are."""
    last = 0
    for row in rows:
        if row.get("stage") != stage:
            continue
        values = [each[index] for each in row.values() if isinstance(each, list) and len(each) > index]
        if not all(isinstance(value, int | float) and np.isfinite(value) for value in values):
            return last
        last = row.get("iteration", last)
    return None


def to_facts(failed: Failed, config: RunConfig) -> dict[str, Any]:
    """Failed seeds as an entry of progress.json, by the number of the seed; nothing if no seed failed."""
    return {FAILED: {str(config.seed + index): reason for index, reason in failed.items()}} if failed else {}


def from_facts(finished: Mapping[str, Mapping[str, Any]], config: RunConfig) -> Failed:
    """The seeds that failed in any of the finished stages, with the first reason."""
    failed: Failed = {}
    for facts in finished.values():
        for seed, reason in facts.get(FAILED, {}).items():
            if 0 <= int(seed) - config.seed < config.num_seeds:
                failed.setdefault(int(seed) - config.seed, reason)
    return dict(sorted(failed.items()))


def blanked(artifact: PyTree, failed: Iterable[int]) -> PyTree:
    """The artifact with NaN for failed seeds, in every array that can hold it."""
    chosen = list(failed)
    if not chosen:
        return artifact

    def blank(leaf: Any) -> Any:
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
            return leaf
        return np.asarray(leaf) * np.where(np.isin(np.arange(len(leaf)), chosen), np.nan, 1.0).astype(
            leaf.dtype
        ).reshape(-1, *[1] * (leaf.ndim - 1))

    return jax.tree.map(blank, artifact)


def repaired(artifact: PyTree, failed: Iterable[int], lanes: int) -> PyTree:
    """The artifact with a copy of the first good seed in the place of every failed one."""
    chosen = set(failed)
    if not chosen:
        return artifact
    good = next(index for index in range(lanes) if index not in chosen)
    order = np.array([good if index in chosen else index for index in range(lanes)])
    return jax.tree.map(lambda leaf: leaf[order], artifact)


def marked(per_seed: Sequence[Mapping[str, Any]], failed: Failed) -> list[dict[str, Any]]:
    """The metrics of each seed; those of failed seeds are None, and ``failed`` says why."""
    return [
        {**{name: value if name == "seed" else None for name, value in metrics.items()}, FAILED: failed[index]}
        if index in failed
        else dict(metrics)
        for index, metrics in enumerate(per_seed)
    ]


def failed_seeds_note(metrics: Mapping[str, Any]) -> str | None:
    """A sentence about the seeds that failed, for the summary; None if there are none."""
    seeds = metrics.get("per_seed") or []
    failed = [f"seed {each.get('seed')}: {each[FAILED]}" for each in seeds if each.get(FAILED)]
    if not failed:
        return None
    return f"{len(failed)} of {len(seeds)} seeds failed and are left out of the metrics. {'; '.join(failed)}."
