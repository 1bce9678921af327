"""What a run gives back, and how to load it: `Run` and `load`."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from edl.artifacts import Experience, SkillModel, SkillPolicy, States
from edl.config import ConfigError
from edl.envs import Env, Layout
from edl.runs import stages, store, tensors
from edl.runs.driver import outline
from edl.runs.presets import complete
from edl.runs.session import FILES, progress_of
from edl.runs.config import NESTED, RunConfig, amended
from edl.runs.store import Folder
from edl.interop.numpy_policy import to_numpy
from edl.interop.numpy_skills import NumpySkills
from edl.interop.env_names import name_world, remember


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run. Every array of ``states``, ``skills`` and ``policy`` has a leading axis of seeds; `seed` takes one.

    A stage that the run did not take, or has not taken yet, left None.
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
        """The same run with the arrays of one seed only, without the leading axis: what `SkillPolicy.act` wants."""
        if not 0 <= index < self.config.num_seeds:
            raise ConfigError(f"seed number {index}: this run has {self.config.num_seeds}, counted from 0.")

        def pick(tree: PyTree) -> PyTree:
            return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[index], tree))  # no program for each shape

        return dataclasses.replace(self, states=pick(self.states), skills=pick(self.skills), policy=pick(self.policy))

    def numpy_policy(self, index: int = 0) -> NumpySkills:
        """The policy of one seed in plain NumPy: it acts with skills by number and with any code."""
        policy = self.seed(index).policy
        if policy is None:
            raise ConfigError(f"{str(self.path)!r} has no policy: learn one first, with `edl learn`.")
        return to_numpy(policy)


def load(path: str | Path, *, env: str | Callable[[], Any] | None = None, features: Any = None) -> Run:
    """Load a run from its folder. Nothing in the folder is executed.

    A world that has to be imported from a module (``"module:name"``) has to be named again, and one that was given as a
    Python object to be given again, like such ``features``.
    """
    folder = store.open_run(path)
    config = config_of(folder)
    if isinstance(env, str):
        name_world(env)
    elif env is not None:
        remember(env, config.env)
    if features is not None:
        config = dataclasses.replace(config, features=features)
    world, finished = stages.make_world(config), progress_of(folder)
    states = load_states(folder, config, world.env) if "explore" in finished else None
    skills = policy = None
    if "discover" in finished and states is not None:
        skeleton = outline(stages.discover_work(config, states), config.num_seeds).artifact
        skills = folder.load(FILES["discover"], skeleton)
    if "learn" in finished:
        policy = folder.load(FILES["learn"], stages.policy_skeleton(config, world, skills))
    return Run(
        config=config,
        env=world.env,
        layout=world.layout,
        states=states,
        skills=skills,
        policy=policy,
        metrics=folder.read_json(store.METRICS) if folder.has(store.METRICS) else None,
        log=folder.read_log(),
        path=folder.path,
    )


def load_states(folder: Folder, config: RunConfig, env: Env) -> States:
    """The states of a run. They are their own skeleton, so that a dataset can be gone."""
    whose = str(folder.place(FILES["explore"]))
    arrays = tensors.arrays_of(folder.read(FILES["explore"]), whose)
    tensors.check_finite(arrays, whose)
    samples, parts = arrays.get("samples"), ("paths", "actions", "lengths")
    fits = samples is not None and samples.ndim == 3 and samples.shape[::2] == (config.num_seeds, env.feature_size)
    if not fits or arrays.keys() - {"samples", *(f"experience.{part}" for part in parts)}:
        raise ConfigError(f"{whose} does not belong to this run's config. Restore both, or run again.")
    found = [arrays[f"experience.{part}"] for part in parts if f"experience.{part}" in arrays]
    experience = Experience(*map(jnp.asarray, found)) if len(found) == len(parts) else None
    return States(jnp.asarray(samples), experience)


def config_of(folder: Folder) -> RunConfig:
    """The config that a run was saved with."""
    return from_json(folder.read_json(store.CONFIG), str(folder.place(store.CONFIG)))


def from_json(saved: Any, whose: str, **overrides: Any) -> RunConfig:
    """A complete config from JSON. ``overrides`` come last; naming another method drops the settings of the old one."""
    if not isinstance(saved, dict):
        raise ConfigError(f"{whose} is not a run's config: an object of settings is wanted. Give a saved config.json.")
    plain = {name: value for name, value in saved.items() if name not in (*NESTED, "region")}
    base = amended(RunConfig(), plain, Path(whose).name)
    if "env" in overrides and overrides["env"] != base.env:
        base = dataclasses.replace(base, maze=None)
    base, merged = complete(base), complete(dataclasses.replace(base, **overrides))
    named = {"explorer": "explore", "scout": "explore", "discoverer": "discover"}
    nested = {}
    for name in NESTED:
        current, changes = getattr(merged, name), saved.get(name)
        same = all(getattr(merged, each) == getattr(base, each) for each in (named.get(name, "method"), "preset"))
        if current is not None and changes is not None and same and name not in overrides:
            nested[name] = amended(current, changes, name)
    region = overrides.get("region", saved.get("region"))
    return dataclasses.replace(merged, **nested, region=region or None)


def as_numpy(tree: PyTree) -> PyTree:
    """Arrays on the host, for pictures."""
    return jax.tree.map(np.asarray, tree)
