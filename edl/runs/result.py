"""The result of a run, and how to load it: `Run` and `load`."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from edl.artifacts import SkillModel, SkillPolicy, States
from edl.config import ConfigError, check_numbers
from edl.envs import Env, Layout
from edl.evaluate.metrics import METRICS
from edl.interop.env_names import allow_import, reads_file, remember_factory
from edl.interop.numpy_policy import to_numpy
from edl.interop.numpy_skills import NumpySkills
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.driver import outline
from edl.runs.errors import RetryableError
from edl.runs.failures import from_facts, repaired
from edl.runs.limits import check_sizes
from edl.runs.pipeline import plan, work_of
from edl.runs.presets import from_json
from edl.runs.resolve import Context, make_context
from edl.runs.session import load_artifact, read_progress
from edl.runs.store import Folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """All seeds of a run. Every array of ``states``, ``skills`` and ``policy`` has a leading axis of seeds.

    The artifact of a stage that did not run is None. Users get the same run as an `edl.api.runs.Run`, which has no axis
    of seeds if there is only one.
    """

    config: RunConfig
    env: Env
    layout: Layout | None
    states: States | None = None
    skills: SkillModel | None = None
    policy: SkillPolicy | None = None
    metrics: dict[str, Any] | None = None
    log: list[dict[str, Any]] = dataclasses.field(default_factory=list, repr=False)
    path: Path | None = None
    failed: dict[int, str] = dataclasses.field(default_factory=dict)
    """Why seeds have failed, by their index. The arrays of a failed seed are NaN."""

    def check_seed(self, index: int) -> None:
        """Reject a seed that failed."""
        if index in self.failed:
            raise ConfigError(f"seed {self.config.seed + index} failed in {self.failed[index]}. Use another seed.")

    def check_no_seed_failed(self) -> None:
        """Reject a run of which a seed failed: what needs all of its seeds cannot use it."""
        if self.failed:
            seeds = "; ".join(f"seed {self.config.seed + index}: {why}" for index, why in self.failed.items())
            raise ConfigError(f"{str(self.path)!r} has seeds that failed ({seeds}). Run it again with other seeds.")

    def seed(self, index: int = 0) -> "Run":
        """The same run with the arrays of one seed, without the leading axis: the form that `SkillPolicy.act` takes."""
        if not 0 <= index < self.config.num_seeds:
            raise ConfigError(f"the index of a seed must be between 0 and {self.config.num_seeds - 1} (got {index}).")
        self.check_seed(index)

        def pick(tree: PyTree) -> PyTree:
            # Indexing on the host compiles nothing.
            return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[index], tree))

        return dataclasses.replace(self, states=pick(self.states), skills=pick(self.skills), policy=pick(self.policy))

    def numpy_policy(self, index: int = 0) -> NumpySkills:
        """The policy of one seed in plain NumPy. It takes the index of a skill or any code."""
        one = self.seed(index)
        if one.policy is None:
            raise ConfigError(f"{str(self.path)!r} has no policy. Learn one with `edl learn`.")
        return to_numpy(one.policy, one.skills)


def load(path: str | Path, *, env: str | Callable[[], Any] | None = None, features: Any = None) -> Run:
    """Load a run from its folder. Nothing in the folder is executed.

    An env that is imported from a module (``"module:name"``) must be named again, and an env or ``features`` that were
    Python objects must be passed again.
    """
    return load_run(path, env=env, features=features)


def load_run(
    path: str | Path, *, env: str | Callable[[], Any] | None = None, features: Any = None, with_metrics: bool = True
) -> Run:
    """`load`; without metrics, which may be damaged, if they are to be computed again."""
    folder = store.open_run(path)
    config = saved_config(folder)
    if isinstance(env, str):
        allow_import(env)
    elif env is not None:
        remember_factory(env, config.env)
    if features is not None:
        config = dataclasses.replace(config, features=features)
    context = make_context(config)
    run = run_of(config, context, load_artifacts(folder, config, context), folder)
    metrics = read_metrics(folder) if with_metrics else None
    return dataclasses.replace(run, metrics=metrics, log=folder.read_log())


def read_metrics(folder: Folder, *, damaged_is_none: bool = False) -> dict[str, Any] | None:
    """The contents of metrics.json, checked; None if it is missing."""
    if not folder.has(store.METRICS):
        return None
    try:
        return check_metrics(folder.read_json(store.METRICS), str(folder.place(store.METRICS)))
    except ConfigError:
        if damaged_is_none:
            return None
        raise


def check_metrics(found: Any, whose: str) -> dict[str, Any]:
    """Reject metrics whose parts have the wrong type."""

    def number(each: Any) -> bool:
        return each is None or isinstance(each, int | float)

    def numbers(part: Any) -> bool:
        return isinstance(part, dict) and all(isinstance(each, int | float) for each in part.values())

    def seed(part: Any) -> bool:
        return isinstance(part, dict) and all(number(value) for name, value in part.items() if name in METRICS)

    def interval(part: Any) -> bool:
        return part is None or (isinstance(part, list) and len(part) == 2 and all(map(number, part)))

    def statistics(part: Any) -> bool:
        return isinstance(part, dict) and number(part.get("mean")) and interval(part.get("ci95"))

    whole = (
        isinstance(found, dict)
        and isinstance(found.get("per_seed"), list)
        and all(map(seed, found["per_seed"]))
        and isinstance(found.get("aggregate", {}), dict)
        and all(each is None or statistics(each) for each in found.get("aggregate", {}).values())
        and numbers(found.get("steps", {}))
        and numbers(found.get("seconds", {}))
    )
    if not whole:
        raise RetryableError(
            f"{whose} is damaged: it does not hold the metrics of a run. {store.remedy(store.METRICS)}"
        )
    return found


def load_artifacts(folder: Folder, config: RunConfig, context: Context) -> dict[str, Any]:
    """The artifacts of the finished stages. Stages that fill no field of `Run` contribute shapes only."""
    finished = read_progress(folder)
    stages = plan(config)
    while stages and stages[-1].name not in finished:
        stages.pop()
    artifacts: dict[str, Any] = {}
    filled: set[str] = set()
    for stage in stages:
        if stage.field is None:
            artifacts[stage.name] = outline(work_of(stage, config, context, artifacts), config.num_seeds).artifact
        elif folder.has(stage.file) or stage.field not in filled:
            artifacts[stage.name] = load_artifact(folder, stage, config, context, artifacts)
            filled.add(stage.field)
        # Folders of edl 0.1 have no file of their own for `place`: it replaced the file of `discover`.
    return artifacts


def run_of(config: RunConfig, context: Context, artifacts: Mapping[str, Any], folder: Folder | None) -> Run:
    """The artifacts of the stages as a `Run`. If two stages fill one field, the later one wins."""
    fields = {stage.field: artifacts[stage.name] for stage in plan(config) if stage.name in artifacts and stage.field}
    path = None if folder is None else folder.path
    failed = {} if folder is None else from_facts(read_progress(folder), config)
    return Run(config=config, env=context.env, layout=context.layout, path=path, failed=failed, **fields)


def with_good_seeds(run: Run) -> Run:
    """The run with a copy of the first good seed in the place of every failed one, for computing and drawing."""

    def replaced(tree: PyTree) -> PyTree:
        return repaired(tree, run.failed, run.config.num_seeds)

    if not run.failed:
        return run
    states, skills, policy = map(replaced, (run.states, run.skills, run.policy))
    return dataclasses.replace(run, states=states, skills=skills, policy=policy, failed={})


def saved_config(folder: Folder) -> RunConfig:
    """The config that a run was saved with, checked."""
    place, saved = folder.place(store.CONFIG), folder.read_json(store.CONFIG)
    _check_file_kept(saved, place)
    config = from_json(saved, str(place))
    try:
        check_numbers(config)
        check_sizes(config)
    except ConfigError as error:
        raise RetryableError(f"{place} is damaged or was changed: {error} {store.remedy(store.CONFIG)}") from error
    return config


def _check_file_kept(saved: Any, place: Path) -> None:
    """Reject the path of a maze or model without its text, before anything opens the file.

    The text that a run keeps of a model includes the files that the model includes.
    """
    env, text = (saved.get("env"), saved.get("maze")) if isinstance(saved, dict) else (None, None)
    kept = isinstance(text, str) and "<include" not in text.lower()
    if isinstance(env, str) and not kept and reads_file(env):
        raise ConfigError(
            f"{place} names the file {env!r} but lacks its text: loading a run opens no other files. "
            f"{store.remedy(store.CONFIG)}"
        )
