"""The result of a run, and how to load it: `Run` and `load`."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from edl.artifacts import SkillModel, SkillPolicy, States
from edl.config import ConfigError
from edl.envs import Env, Layout
from edl.interop.env_names import allow_import, remember_factory
from edl.interop.numpy_policy import to_numpy
from edl.interop.numpy_skills import NumpySkills
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.driver import outline
from edl.runs.pipeline import plan, work_of
from edl.runs.presets import from_json
from edl.runs.resolve import Context, make_context
from edl.runs.session import load_artifact, read_progress
from edl.runs.store import Folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run. Every array of ``states``, ``skills`` and ``policy`` has a leading axis of seeds; `seed` selects one.

    The artifact of a stage that did not run is None.
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

    def seed(self, index: int = 0) -> "Run":
        """The same run with the arrays of one seed, without the leading axis: the form that `SkillPolicy.act` takes."""
        if not 0 <= index < self.config.num_seeds:
            raise ConfigError(f"the index of a seed must be between 0 and {self.config.num_seeds - 1} (got {index}).")

        def pick(tree: PyTree) -> PyTree:
            # Indexing on the host compiles nothing.
            return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[index], tree))

        return dataclasses.replace(self, states=pick(self.states), skills=pick(self.skills), policy=pick(self.policy))

    def numpy_policy(self, index: int = 0) -> NumpySkills:
        """The policy of one seed in plain NumPy. It takes the index of a skill or any code."""
        policy = self.seed(index).policy
        if policy is None:
            raise ConfigError(f"{str(self.path)!r} has no policy. Learn one with `edl learn`.")
        return to_numpy(policy)


def load(path: str | Path, *, env: str | Callable[[], Any] | None = None, features: Any = None) -> Run:
    """Load a run from its folder. Nothing in the folder is executed.

    An env that is imported from a module (``"module:name"``) must be named again, and an env or ``features`` that were
    Python objects must be passed again.
    """
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
    metrics = folder.read_json(store.METRICS) if folder.has(store.METRICS) else None
    return dataclasses.replace(run, metrics=metrics, log=folder.read_log())


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
    return Run(config=config, env=context.env, layout=context.layout, path=path, **fields)


def saved_config(folder: Folder) -> RunConfig:
    """The config that a run was saved with."""
    return from_json(folder.read_json(store.CONFIG), str(folder.place(store.CONFIG)))
