"""The pipeline as data: every stage of a run, what it depends on, and where its artifact goes. Nothing runs here.

    explore -> discover -> (scout) -> measure -> place -> learn          with method "edl"
    learn                                                                 with a baseline

`scout` is a short exploration for runs whose states came without experience (from an oracle or a file) but whose
learner measures walking distance. `measure` estimates that distance from experience, and `place` moves the goals of
skills that discovery, which knows nothing of walls, put behind one.

Run, resume, sweep, load, the dry run and the report iterate over `STAGES`. To add a stage, add an entry.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree, UInt32

import edl
from edl import baselines, discover, explore, learn
from edl.artifacts import States
from edl.config import ConfigError
from edl.envs import Env
from edl.explore.dataset import dataset
from edl.explore.region import inside
from edl.learn.walking import walking_distance
from edl.program import Method, Program, one_shot
from edl.runs.config import RunConfig, all_settings
from edl.runs.driver import Builder, Outline, Work, outline
from edl.runs.presets import default_methods
from edl.runs.resolve import Context
from edl.runtime.effort import Effort, quick_jit
from edl.types import Keys

EVALUATE_KEY = 5
"""The number that evaluation folds into the key of a seed."""


class Inputs(NamedTuple):
    """What a stage is built from, besides its settings: the env, a dataset's states, and artifacts by stage name."""

    env: Env
    samples: Any
    artifacts: Mapping[str, Any]


class Stage(NamedTuple):
    """One stage of a run.

    ``key``            folded into the key of each seed. It must never change: it decides the random numbers.
    ``takes``          the stages whose artifacts it uses, where they run.
    ``when``           whether a run has this stage.
    ``method``         the name of the method that a run uses for it.
    ``registry``       the methods to choose from, if there is a choice.
    ``settings``       the part of the config that it depends on; its floats may differ between points of a sweep.
    ``build``          (build function of the method, inputs, settings) -> program.
    ``file``           where its artifact is stored.
    ``field``          the field of `Run` that its artifact becomes, if any.
    ``temporary``      whether the file is deleted at the end of the run, because it only serves later stages.
    ``finite``         whether its artifact may hold no infinity (a distance may: where there is no path).
    ``optional``       fields of its artifact that folders of older versions lack; they are None there.
    ``check_inputs``   raises a `ConfigError` if it cannot run on these artifacts.
    ``check_artifact`` raises a `ConfigError` if its artifact is unusable.
    """

    name: str
    key: int
    takes: tuple[str, ...]
    when: Callable[[RunConfig], bool]
    method: Callable[[RunConfig], str]
    settings: Callable[[RunConfig], Any]
    build: Callable[[Builder | None, Inputs, Any], Program]
    file: str
    field: str | None = None
    registry: Mapping[str, Method] | None = None
    temporary: bool = False
    finite: bool = True
    optional: tuple[str, ...] = ()
    effort: Effort = Effort.FULL
    check_inputs: Callable[[RunConfig, Mapping[str, Any]], None] = lambda config, artifacts: None
    check_artifact: Callable[[RunConfig, Any], None] = lambda config, artifact: None


def is_edl(config: RunConfig) -> bool:
    return config.method == "edl"


def build_explorer(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    return dataset(inputs.samples) if method is None else method(inputs.env, settings)


def check_explored(config: RunConfig, states: States) -> None:
    """Reject states outside the region, which an explorer returns if it never entered the region."""
    if config.region is None:
        return
    for seed, samples in enumerate(np.asarray(states.samples), config.seed):
        if not inside(config.region, samples).all():
            raise ConfigError(
                f"seed {seed} of explore={config.explore} never entered the region {config.region!s}. "
                "Explore longer, or widen the region."
            )


def build_discoverer(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    """Stage 2 sees the samples of p(s) and no experience."""
    assert method is not None
    return method(States(inputs.artifacts["explore"].samples), settings)


def check_states(config: RunConfig, artifacts: Mapping[str, Any]) -> None:
    discover.check_states(config.discoverer, np.asarray(artifacts["explore"].samples))


def has_scout(config: RunConfig) -> bool:
    return measures_distance(config) and config.scout is not None


def measures_distance(config: RunConfig) -> bool:
    return is_edl(config) and config.learner.distance == "walking"


def build_distance(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    experience = inputs.artifacts.get("scout", inputs.artifacts["explore"]).experience
    if experience is None:
        raise ConfigError(
            "walking distance is measured from experience, and the explorer returned none. "
            "Use another explorer, or --learner.distance euclidean."
        )
    return one_shot(lambda key: walking_distance(key, experience, settings))


def places_goals(config: RunConfig) -> bool:
    return measures_distance(config) and config.learner.place_goals


def build_placement(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    artifacts = inputs.artifacts
    skills, samples, distance = artifacts["discover"], artifacts["explore"].samples, artifacts["measure"]
    return one_shot(lambda key: learn.place(skills, samples, distance))


def build_learner(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    skills = inputs.artifacts.get("place", inputs.artifacts["discover"])
    distance = learn.distance_for(settings, skills, inputs.artifacts.get("measure"))
    return learn.learn(inputs.env, skills, distance, settings)


def build_baseline(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    assert method is not None
    return method(inputs.env, settings)


STAGES: tuple[Stage, ...] = (
    Stage(
        name="explore",
        key=0,
        takes=(),
        when=is_edl,
        method=lambda config: config.explore,
        settings=lambda config: config.explorer,
        build=build_explorer,
        registry=explore.METHODS,
        file="states.safetensors",
        field="states",
        effort=Effort.LESS,
        check_artifact=check_explored,
    ),
    Stage(
        name="discover",
        key=1,
        takes=("explore",),
        when=is_edl,
        method=lambda config: config.discover,
        settings=lambda config: config.discoverer,
        build=build_discoverer,
        registry=discover.METHODS,
        file="skills.safetensors",
        field="skills",
        effort=Effort.LESS,
        check_inputs=check_states,
    ),
    Stage(
        name="scout",
        key=2,
        takes=(),
        when=has_scout,
        method=lambda config: default_methods(config)["scout"],
        settings=lambda config: config.scout,
        build=build_explorer,
        registry=explore.METHODS,
        file="checkpoint/scout.safetensors",
        temporary=True,
        finite=False,
        effort=Effort.LESS,
    ),
    Stage(
        name="measure",
        key=3,
        takes=("explore", "scout"),
        when=measures_distance,
        method=lambda config: "walking",
        settings=lambda config: config.learner.walking,
        build=build_distance,
        file="checkpoint/distance.safetensors",
        temporary=True,
        finite=False,
    ),
    Stage(
        name="place",
        key=6,
        takes=("explore", "discover", "measure"),
        when=places_goals,
        method=lambda config: "walking",
        settings=lambda config: None,
        build=build_placement,
        file="placed_skills.safetensors",
        field="skills",
    ),
    Stage(
        name="learn",
        key=4,
        takes=("discover", "measure", "place"),
        when=is_edl,
        method=lambda config: config.method,
        settings=lambda config: config.learner,
        build=build_learner,
        file="policy.safetensors",
        field="policy",
    ),
    Stage(
        name="learn",
        key=4,
        takes=(),
        when=lambda config: not is_edl(config),
        method=lambda config: config.method,
        settings=lambda config: config.baseline,
        registry=baselines.METHODS,
        build=build_baseline,
        file="policy.safetensors",
        field="policy",
        optional=("pick",),
    ),
)


def plan(config: RunConfig, until: str | None = None) -> list[Stage]:
    """The stages of a run, in order; with ``until``, those up to that stage."""
    stages = [stage for stage in STAGES if stage.when(config)]
    names = [stage.name for stage in stages]
    if until is None:
        return stages
    if until not in names:
        raise ConfigError(f"until must be one of {', '.join(names)} (got {until!r}).")
    return stages[: names.index(until) + 1]


def inputs_of(stage: Stage, artifacts: Mapping[str, Any]) -> dict[str, Any]:
    """The artifacts that a stage takes, of those that there are."""
    return {name: artifacts[name] for name in stage.takes if name in artifacts}


@dataclasses.dataclass(frozen=True)
class StageBuilder:
    """Builds the program of a stage for one lane. Equal builders share one compiled program."""

    build: Callable[[Builder | None, Inputs, Any], Program]
    method: Builder | None

    def __call__(self, env: Env, samples: Any, artifacts: Mapping[str, Any], settings: Any) -> Program:
        return self.build(self.method, Inputs(env, samples, artifacts), settings)


def work_of(stage: Stage, config: RunConfig, context: Context, artifacts: Mapping[str, Any]) -> Work:
    """A stage as work for the driver. Artifacts have a leading axis of lanes; env and settings are shared."""
    samples = context.samples if stage.name == "explore" else None
    inputs = (context.env, samples, inputs_of(stage, artifacts), stage.settings(config))
    chosen = (stage.registry or {}).get(stage.method(config))
    builder = StageBuilder(stage.build, None if chosen is None else chosen.build)
    return Work(builder, inputs, (False, False, True, False), stage.effort)


def outlines(
    config: RunConfig, context: Context, known: Mapping[str, Any] | None = None, until: str | None = None
) -> dict[str, Outline]:
    """All stages traced without running, from the shapes of their inputs: the dry run that rejects bad input.

    ``known`` are artifacts (or shapes) of stages that need no tracing.
    """
    found: dict[str, Outline] = {}
    artifacts: dict[str, PyTree] = dict(known or {})
    for stage in plan(config, until):
        if stage.name not in artifacts:
            found[stage.name] = outline(work_of(stage, config, context, artifacts), config.num_seeds)
            artifacts[stage.name] = found[stage.name].artifact
    return found


def stage_keys(config: RunConfig, name: str) -> Keys:
    """One key per seed. It depends on the seed and the stage alone, so a seed gives the same result in any run."""
    number = EVALUATE_KEY if name == "evaluate" else next(stage.key for stage in STAGES if stage.name == name)
    seeds = np.arange(config.seed, config.seed + config.num_seeds, dtype=np.uint32)
    return quick_jit(_fold_in)(seeds, np.uint32(number))


def _fold_in(seeds: UInt32[Array, " n"], number: UInt32[Array, ""]) -> Keys:
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), number))(seeds)


def identity(stage: Stage, config: RunConfig) -> str:
    """A hash of everything that the artifact of a stage depends on.

    That is its method and settings, the env and region, the seeds, the identities of the stages it takes artifacts
    from, and the version of the code. Two points of a sweep with the same identity share the artifact; an artifact on
    disk with the same identity is not computed again.
    """
    ancestors = {each.name: identity(each, config) for each in plan(config) if each.name in stage.takes}
    env = [config.env, config.maze, config.horizon, all_settings(config.features), all_settings(config.region)]
    settings = all_settings(stage.settings(config))
    seeds = [config.seed, config.num_seeds]
    return _hash([stage.name, stage.method(config), settings, env, seeds, ancestors, edl.__version__])


def run_identity(config: RunConfig) -> str:
    """A hash of everything that the result of a run depends on."""
    return _hash([identity(stage, config) for stage in plan(config)])


@functools.lru_cache(maxsize=4096)
def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _hash(parts: list) -> str:
    return _hash_text(json.dumps(parts, sort_keys=True))
