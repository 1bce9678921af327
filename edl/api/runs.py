"""`Run`, the result of a run for use in Python, and the functions `run` and `load` that return one."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from edl.api.display import show_progress
from edl.api.log import Log
from edl.api.messages import python_messages
from edl.api.settings import build_config
from edl.artifacts import SkillModel, SkillPolicy, States, goals_of, pick_rule_of
from edl.config import ConfigError, check
from edl.envs import Env, Layout
from edl.envs.host import HostEnv, check_hosts
from edl.envs.maze import Maze, MazeState
from edl.envs.rollout import Episode, Skill, no_memory, rollout_with_memory, without_memory
from edl.evaluate.picking import pick_by_practice
from edl.evaluate.skill_rollouts import NUM_ROLLOUTS, last_states, rollouts
from edl.evaluate.statistics import aggregate
from edl.interop.env_names import allow_import, remember_factory
from edl.interop.numpy_policy import to_numpy
from edl.interop.numpy_skills import NumpySkills
from edl.runs import result, store
from edl.runs.config import RunConfig
from edl.runs.controllers import Controllers, load_controllers
from edl.runs.evaluation import draw_run, evaluator_of
from edl.runs.loggers import LogTarget, log_to
from edl.runs.progress import Progress
from edl.runs.resolve import Given
from edl.runs.run import execute_run

PRACTICE_KEY = 7


class Run:
    """The result of a run. Artifacts of stages that did not run are None.

    ``states``, ``skills`` and ``policy`` are those of the run's seed. If the run has several seeds, their arrays have a
    leading axis of seeds, ``metrics`` are means over seeds, and ``seeds[i]`` is the complete run of one seed.
    """

    def __init__(self, all_seeds: result.Run, index: int | None = None):
        self._all = all_seeds
        self._index = index
        self._one_seed = index is not None or all_seeds.config.num_seeds == 1

    @functools.cached_property
    def config(self) -> RunConfig:
        """All settings of the run."""
        if self._index is None:
            return self._all.config
        return dataclasses.replace(self._all.config, seed=self._all.config.seed + self._index, num_seeds=1)

    @property
    def env(self) -> Env:
        return self._all.env

    @property
    def layout(self) -> Layout | None:
        """The maze, if the env is one."""
        return self._all.layout

    @property
    def path(self) -> Path | None:
        """The folder of the run, if it has one."""
        return self._all.path

    @property
    def failed(self) -> dict[int, str]:
        """Why seeds have failed, by their index. The arrays of a failed seed are NaN, and its metrics are None."""
        return self._all.failed

    @functools.cached_property
    def states(self) -> States | None:
        """Stage 1: samples of p(s)."""
        return self._artifact(self._all.states)

    @functools.cached_property
    def skills(self) -> SkillModel | None:
        """Stage 2: codes, q(z|s), q(s|z) and goals."""
        return self._artifact(self._all.skills)

    @functools.cached_property
    def policy(self) -> SkillPolicy | None:
        """Stage 3: pi(a|s,z)."""
        return self._artifact(self._all.policy)

    @functools.cached_property
    def metrics(self) -> dict[str, Any] | None:
        """The contents of metrics.json, and each metric by its name: ``run.metrics["goal_success"]``.

        A metric is the value of the run's seed. With several seeds it is the mean, and ``metrics["aggregate"]`` has the
        intervals.
        """
        found = self._all.metrics
        if found is None:
            return None
        if self._index is not None:
            mine = [found["per_seed"][self._index]]
            found = {**found, "num_seeds": 1, "per_seed": mine, "aggregate": store.plain(aggregate(mine))}
        if self._one_seed:
            return {**(found["per_seed"] or [{}])[0], **found}
        means = {name: None if each is None else each["mean"] for name, each in found.get("aggregate", {}).items()}
        return {**means, **found}

    @functools.cached_property
    def log(self) -> Log:
        """The rows of log.jsonl, a list of dicts: ``pandas.DataFrame(run.log)`` is a table."""
        index = 0 if self._one_seed and self._index is None else self._index
        return Log.of_seed(self._all.log, index)

    @functools.cached_property
    def seeds(self) -> Sequence["Run"]:
        """One complete run per seed: artifacts without the axis of seeds, metrics and log of that seed."""
        if self._one_seed:
            return (self,)
        return tuple(Run(self._all, index) for index in range(self._all.config.num_seeds))

    def seed(self, index: int = 0) -> "Run":
        """The same as ``run.seeds[index]``."""
        count = len(self.seeds)
        check(0 <= index < count, f"the index of a seed must be between 0 and {count - 1} (got {index}).")
        self._all.check_seed(index if self._index is None else self._index)
        return self.seeds[index]

    def numpy_policy(self, index: int = 0) -> NumpySkills:
        """The policy of one seed in plain NumPy. It takes the number of a skill or any code."""
        one = self.seed(index)
        return to_numpy(one._learned("numpy_policy"), one.skills)

    def controllers(self) -> Controllers:
        """The controllers that `edl downstream` trained over the skills of this run and saved in its folder."""
        with python_messages():
            return load_controllers(self._all)

    def act(self, observation: Any, skill: Any, key: Array | int | None = None, *, time: int = 0) -> Array:
        """The action of a skill: the mean of pi(a|s,z), or with a ``key`` (or a seed) a sample.

        ``observation`` and ``skill`` may be lists, arrays or batches; a skill is a number or a code. In a Gymnasium
        env, ``time`` is the number of steps since the skill began: it is at its goal at the end of the horizon.
        """
        policy = self._learned("act")
        observation = policy.at_time(observation, time)
        if key is None:
            return policy.mode(observation, skill)
        return policy.act(jax.random.key(key) if isinstance(key, int) else key, observation, skill)

    def rollout(self, skill: Any = None, start: Any = None, n: int = NUM_ROLLOUTS, key: Array | int = 0) -> Episode:
        """Play ``n`` episodes of a skill: an `Episode` whose arrays have a leading axis of n.

        ``skill`` is the number of a skill or a code. A list of skills adds an axis in front, and None plays all skills.
        ``start`` is a position in a maze, or a state of the env; the default is a reset. The features of the episodes
        are ``episodes.features``, and ``episodes.valid`` is False after the end of an episode.
        """
        policy = self._learned("rollout")
        check(n >= 1, f"n must be at least 1 (got {n}).")
        codes = policy.codes if skill is None else policy.code_of(_checked_skill(skill, policy))
        many = codes if codes.ndim == 2 else codes[None]
        goals = self._goals_for(skill, len(many))
        key = jax.random.key(key) if isinstance(key, int) else key
        if start is None:
            episodes = rollouts(key, self.env, policy, many, goals, n)
        else:
            episodes = _rollouts_from(key, self.env, policy, (many, goals), self._state(start), n)
        check_hosts(self.env)
        return episodes if codes.ndim == 2 else jax.tree.map(lambda leaf: leaf[0], episodes)

    def pick(self, state: Any) -> Any:
        """The skill for reaching a state, by the rule of the method: its number, or a code if the rule picks codes.

        ``state`` is one state or a batch, in the features that skills are about. No skill is tried out.
        """
        policy, targets = self._learned("pick"), jnp.asarray(state, jnp.float32)
        size = self.env.feature_size
        check(
            targets.ndim >= 1 and targets.shape[-1] == size,
            f"a state must have {size} features in this env (got shape {targets.shape}).",
        )
        flat = targets.reshape(-1, size)
        rule = pick_rule_of(policy, self.skills)
        picked = self._pick_by_practice(np.asarray(flat)) if rule is None else np.asarray(jax.vmap(rule)(flat))
        picked = picked.reshape(targets.shape[:-1] + picked.shape[1:])
        return int(picked) if picked.ndim == 0 else picked

    def blend(self, first: int, second: int, share: float = 0.5) -> Float[Array, " z"]:
        """The code between two skills: ``share`` 0 is the first, 1 the second. `rollout` and `act` accept it."""
        codes = self._learned("blend").code_of(_checked_skill([first, second], self._learned("blend")))
        return (1 - share) * codes[0] + share * codes[1]

    def plot(self, name: str | None = None) -> Any:
        """A matplotlib figure: the skills, or else the codes or the states. ``name`` is one of the report's figures.

        In a notebook, the figure of the last line of a cell is shown. ``run.plot().savefig("skills.pdf")`` saves it.
        """
        from edl.figures import to_png  # importing matplotlib takes half a second

        drawn = draw_run(self._of_one_seed())
        wanted = name or next(each for each in ("skills", "assignments", "states", *drawn) if each in drawn)
        check(wanted in drawn, f"this run has no figure {wanted!r}. Available: {', '.join(drawn)}.")
        figure = drawn[wanted]
        figure._repr_png_ = lambda: to_png(figure)  # IPython shows it, with or without matplotlib's inline backend
        return figure

    def __repr__(self) -> str:
        config = self.config
        lines = [f"Run: {self._title()}"]
        shown = ("goal_success", "skill_coverage", "best_skill_distance", "data_coverage")
        found = {name: (self.metrics or {}).get(name) for name in shown}
        numbers = ", ".join(f"{name} {value:.3f}" for name, value in found.items() if isinstance(value, int | float))
        if numbers:
            lines.append(f"  {numbers}{' (means over seeds)' if not self._one_seed else ''}")
        artifacts = [name for name in ("states", "skills", "policy") if getattr(self._all, name) is not None]
        seeds = "" if config.num_seeds == 1 else f", seeds[0] to seeds[{config.num_seeds - 1}]"
        lines.append(f"  {', '.join(artifacts)}, metrics, log, config{seeds}")
        if self.path is not None:
            lines.append(f"  {self.path / store.REPORT}")
        return "\n".join(lines)

    def _title(self) -> str:
        config = self.config
        seeds = f", {config.num_seeds} seeds" if config.num_seeds > 1 else f", seed {config.seed}"
        env = config.env if self.layout is None else self.layout.name
        if self._all.skills is None and self._all.policy is None:
            return f"states of {env} by {config.explore}{seeds}"
        how = config.method if config.method != "edl" else f"{config.explore} + {config.discover}"
        return f"{config.num_skills} skills in {env} by {how}{seeds}"

    def _artifact(self, stacked: PyTree) -> Any:
        if not self._one_seed:
            return stacked
        index = self._index or 0
        # Indexing on the host compiles nothing.
        return jax.device_put(jax.tree.map(lambda leaf: np.asarray(leaf)[index], stacked))

    def _of_one_seed(self) -> result.Run:
        """This run in the form of `edl.runs`, with an axis of one seed."""
        check(self._one_seed, "this run has several seeds. Choose one: run.seeds[0].")
        if self._index is None:
            return self._all
        self._all.check_seed(self._index)
        one = slice(self._index, self._index + 1)
        states, skills, policy = jax.tree.map(
            lambda leaf: leaf[one], (self._all.states, self._all.skills, self._all.policy)
        )
        return dataclasses.replace(
            self._all, config=self.config, states=states, skills=skills, policy=policy, failed={}
        )

    def _learned(self, what: str) -> SkillPolicy:
        """The policy of the run's only seed."""
        check(self._one_seed, f"this run has several seeds. Choose one: run.seeds[0].{what}(...).")
        if self.policy is None:
            raise ConfigError(f"{what} needs a policy, and this run has none. Learn one with edl.learn or edl.run.")
        return self.policy

    def _goals_for(self, skill: Any, count: int) -> Float[Array, "k s"] | None:
        """The goals of skills that are given by number; decoded ones for codes; None for methods without goals."""
        goals = goals_of(self._learned("rollout"), self.skills)
        if goals is None or skill is None:
            return goals
        given = jnp.asarray(skill)
        if jnp.issubdtype(given.dtype, jnp.integer):
            return goals[jnp.atleast_1d(given)]
        if self.skills is None or given.shape[-1] != self.skills.codes.shape[-1]:
            return None  # a policy whose codes are goals has codes of its own
        return jax.vmap(self.skills.decode)(jnp.atleast_2d(given).astype(jnp.float32))

    def _state(self, start: Any) -> Any:
        """A state of the env from a position in a maze, or a state itself."""
        check(
            not isinstance(self.env, HostEnv),
            f"env {self.config.env!r} cannot start in a given state. Leave out start.",
        )
        if not isinstance(self.env, Maze) or isinstance(start, MazeState):
            return start
        position = np.asarray(start, np.float32)
        check(position.shape == (2,), f"start must be a position (x, y) (got shape {position.shape}).")
        assert self.layout is not None
        inside = np.any(np.all(np.abs(np.asarray(self.layout.cells) - position) <= 0.5, axis=1))
        check(bool(inside), f"start must be a position in the maze (got {position.tolist()}).")
        return MazeState(jnp.asarray(position), jnp.int32(0))

    def _pick_by_practice(self, targets: Float[np.ndarray, "m s"]) -> Int[np.ndarray, " m"]:
        return pick_by_practice(self._practice, targets, self._practice_unit)

    @functools.cached_property
    def _practice(self) -> Float[np.ndarray, "k n s"]:
        """Where practice episodes of the skills end: a method without a rule picks by them."""
        return last_states(jax.device_get(self.rollout(key=PRACTICE_KEY)))

    @functools.cached_property
    def _practice_unit(self) -> Any:
        """The unit of distances to these ends."""
        return evaluator_of(self._of_one_seed(), self._practice.reshape(-1, self.env.feature_size)).unit


def _checked_skill(skill: Any, policy: SkillPolicy) -> Any:
    """Reject numbers of skills that do not exist, and codes of another size."""
    given, codes = np.asarray(skill), policy.codes
    if given.dtype.kind in "iu":
        bad = (given < 0) | (given >= len(codes))
        check(not bad.any(), f"a skill must be between 0 and {len(codes) - 1} (got {given.tolist()}).")
        check(given.ndim <= 1, f"skills must be a number or a list of numbers (got shape {given.shape}).")
    else:
        size = codes.shape[-1]
        right = given.dtype.kind == "f" and given.ndim in (1, 2) and given.shape[-1] == size
        check(right, f"a code must have {size} numbers in this run (got shape {given.shape} of {given.dtype}).")
    return skill


@functools.partial(jax.jit, static_argnames="n")
def _rollouts_from(key: Array, env: Env, policy: SkillPolicy, skills: tuple, state: PyTree, n: int) -> Episode:
    """`edl.evaluate.rollouts` from a given state of the env."""
    codes, goals = skills

    def play(key: Array, skill: Skill) -> Episode:
        act = without_memory(lambda key, observation, code: (policy.act(key, observation, code), jnp.zeros(0)), skill)
        return rollout_with_memory(key, env, act, skill, no_memory, start_state=state)._replace(states=None)

    keys = jax.random.split(key, (len(codes), n))
    numbers = jnp.arange(len(codes), dtype=jnp.int32)
    return jax.vmap(jax.vmap(play, in_axes=(0, None)))(keys, Skill(codes, numbers, goals))


def run(
    env: str | Callable[[], Any] = "square",
    *,
    states: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    until: str | None = None,
    progress: bool | Progress | None = None,
    log: LogTarget = "none",
    **settings: Any,
) -> Run:
    """Explore, discover and learn, in a maze, a registered env, a Gymnasium env, or an env that ``env()`` makes.

    ``settings`` are the settings of docs/settings.md: fields of `RunConfig`, and those of the methods as dicts
    (``learner={"ppo": {"iterations": 50}}``) or by dotted names. ``states``, an array with one row per state or the
    result of `edl.explore`, replace stage 1. ``until`` is the last stage to run (by default, all run).

    With ``out``, the run writes a folder. If the folder holds the same run already, the finished run is returned, and a
    stopped run is continued. Without it, nothing is written. Ctrl-C writes a checkpoint and raises `KeyboardInterrupt`.
    ``progress`` shows progress bars; by default on a terminal and in a notebook. ``log`` is tensorboard,
    wandb or csv, whose files are next to the folder of the run (``OUT-log.csv``).
    """
    options = {"out": out, "resume": resume, "until": until, "progress": progress, "log": log}
    return run_with(env, settings, Given(states=states), **options)


def run_with(
    env: str | Callable[[], Any],
    settings: Mapping[str, Any],
    given: Given,
    *,
    out: str | Path | None,
    resume: bool = False,
    until: str | None = None,
    progress: bool | Progress | None = None,
    log: LogTarget = "none",
) -> Run:
    """`run`, with what is ``given`` instead of the first stages."""
    with python_messages():
        name = allow_import(env) if isinstance(env, str) else remember_factory(env)
        config = build_config(name, settings)
        again = out is not None and (Path(out) / store.CONFIG).is_file()
        with show_progress(progress) as display, log_to(log, out, config, display) as logged:
            done = execute_run(config, out=out, resume=resume or again, until=until, progress=logged, given=given)
        return Run(done)


def load(path: str | Path, *, env: str | Callable[[], Any] | None = None, features: Any = None) -> Run:
    """Load a run from its folder. Nothing in the folder is executed.

    An env that is imported from a module (``"module:name"``) must be named again, and an env or ``features`` that were
    Python objects must be passed again.
    """
    with python_messages():
        return Run(result.load(path, env=env, features=features))
