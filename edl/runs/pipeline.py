"""The pipeline as data: every stage of a run, what it depends on, and where its artifact goes. Nothing runs here.

    explore -> discover -> (scout) -> measure -> place -> learn          with method "edl"
       `------------- the explorer's policy --------------^             if the learner starts from it
    learn                                                                 with a baseline
    explore -> learn                                                      with an offline baseline

`scout` is a short exploration for runs whose states came without experience (from an oracle or a file) but whose
learner measures walking distance. `measure` estimates that distance from experience, and `place` moves the goals of
skills that discovery, which does not know the walls, put behind one or close to one.

Run, resume, sweep, load, the dry run and the report iterate over `STAGES`. To add a stage, add an entry.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
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
from edl.runs.given_skills import load_skills
from edl.runs.presets import default_methods
from edl.runs.resolve import Context, is_offline
from edl.runs.saved_states import load_states
from edl.runs.store import Folder
from edl.runtime.effort import Effort, quick_jit
from edl.types import Keys

EVALUATE_KEY = 5
"""The number that evaluation folds into the key of a seed."""


class Inputs(NamedTuple):
    """What a stage is built from, besides its settings: the env, what a user gave, and artifacts by stage name.

    ``given`` are states for stage 1 (an array, or `States`) and a `SkillModel` for stage 2.
    """

    env: Env
    given: Any
    artifacts: Mapping[str, Any]


Loader = Callable[[Folder, str, int, int, Callable[[], Any]], Any]
"""(folder, file, lanes, number of features, function that returns the shapes of the artifact) -> artifact."""


class Stage(NamedTuple):
    """One stage of a run.

    ``key``            folded into the key of each seed. It must never change: it decides the random numbers.
    ``takes``          the stages whose artifacts it uses, where they run.
    ``when``           whether a run has this stage.
    ``method``         the name of the method that a run uses for it.
    ``registry``       the methods to choose from, if there is a choice.
    ``settings``       the part of the config that it depends on; its floats may differ between points of a sweep.
    ``config_paths``   the same part as paths in config.json. Its artifact is bound to these (`edl.runs.binding`).
    ``build``          (build function of the method, inputs, settings) -> program.
    ``file``           where its artifact is stored.
    ``field``          the field of `Run` that its artifact becomes, if any.
    ``temporary``      whether the file is deleted at the end of the run, because it only serves later stages.
    ``reads_dataset``  whether it gets the states of the user's dataset, which is then read before the run starts.
    ``reads_skills``   whether it gets the skills that a user gave instead of it.
    ``load``           reads its artifact from its file, if the shapes are not known from the config alone.
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
    config_paths: tuple[str, ...]
    build: Callable[[Builder | None, Inputs, Any], Program]
    file: str
    field: str | None = None
    registry: Mapping[str, Method] | None = None
    temporary: bool = False
    reads_dataset: bool = False
    reads_skills: bool = False
    load: Loader | None = None
    finite: bool = True
    optional: tuple[str, ...] = ()
    effort: Effort = Effort.FULL
    check_inputs: Callable[[RunConfig, Mapping[str, Any]], None] = lambda config, artifacts: None
    check_artifact: Callable[[RunConfig, Any], None] = lambda config, artifact: None


def is_edl(config: RunConfig) -> bool:
    return config.method == "edl"


def build_explorer(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    """The explorer, or without one the states of a file or of a user, which may come with experience."""
    if method is not None:
        return method(inputs.env, settings)
    states = inputs.given
    return one_shot(lambda key: states) if isinstance(states, States) else dataset(states)


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
    """Stage 2 sees the samples of p(s) and no experience. Without a method, the skills are a user's."""
    if method is None:
        return one_shot(lambda key: inputs.given)
    return method(States(inputs.artifacts["explore"].samples), settings)


def check_states(config: RunConfig, artifacts: Mapping[str, Any]) -> None:
    if config.discoverer is not None:
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


def starts_from_explorer(config: RunConfig) -> bool:
    return is_edl(config) and config.learner.start == "explorer"


def build_learner(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    """Stage 3. It has the explorer's policy if it starts from that."""
    skills = inputs.artifacts.get("place", inputs.artifacts["discover"])
    distance = learn.distance_for(settings, skills, inputs.artifacts.get("measure"))
    explored = inputs.artifacts.get("explore")
    return learn.learn(inputs.env, skills, distance, settings, None if explored is None else explored.policy)


def build_baseline(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    assert method is not None
    return method(inputs.env, settings)


def build_offline(method: Builder | None, inputs: Inputs, settings: Any) -> Program:
    assert method is not None
    return method(inputs.env, inputs.artifacts["explore"], settings)


STAGES: tuple[Stage, ...] = (
    Stage(
        name="explore",
        key=0,
        takes=(),
        when=lambda config: is_edl(config) or is_offline(config),
        method=lambda config: config.explore,
        settings=lambda config: config.explorer,
        config_paths=("explore", "explorer"),
        build=build_explorer,
        registry=explore.METHODS,
        file="states.safetensors",
        field="states",
        reads_dataset=True,
        load=load_states,
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
        config_paths=("discover", "discoverer", "num_skills"),
        build=build_discoverer,
        registry=discover.METHODS,
        file="skills.safetensors",
        field="skills",
        reads_skills=True,
        load=load_skills,
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
        config_paths=("scout",),
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
        config_paths=("learner.walking",),
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
        config_paths=(),
        build=build_placement,
        file="placed_skills.safetensors",
        field="skills",
    ),
    Stage(
        name="learn",
        key=4,
        takes=("discover", "measure", "place"),
        when=lambda config: is_edl(config) and not starts_from_explorer(config),
        method=lambda config: config.method,
        settings=lambda config: config.learner,
        config_paths=("learner", "baseline", "num_skills"),
        build=build_learner,
        file="policy.safetensors",
        field="policy",
    ),
    Stage(
        name="learn",
        key=4,
        takes=("explore", "discover", "measure", "place"),
        when=starts_from_explorer,
        method=lambda config: config.method,
        settings=lambda config: config.learner,
        config_paths=("learner", "baseline", "num_skills"),
        build=build_learner,
        file="policy.safetensors",
        field="policy",
    ),
    Stage(
        name="learn",
        key=4,
        takes=(),
        when=lambda config: not is_edl(config) and not is_offline(config),
        method=lambda config: config.method,
        settings=lambda config: config.baseline,
        config_paths=("learner", "baseline", "num_skills"),
        registry=baselines.METHODS,
        build=build_baseline,
        file="policy.safetensors",
        field="policy",
        optional=("pick",),
    ),
    Stage(
        name="learn",
        key=4,
        takes=("explore",),
        when=is_offline,
        method=lambda config: config.method,
        settings=lambda config: config.baseline,
        config_paths=("learner", "baseline", "num_skills"),
        registry=baselines.METHODS,
        build=build_offline,
        file="policy.safetensors",
        field="policy",
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


def has_explored(config: RunConfig, finished: Collection[str]) -> bool:
    """Whether the stage that reads a dataset is finished. Its dataset is then not needed any more and may be gone."""
    return any(stage.reads_dataset and stage.name in finished for stage in plan(config))


def inputs_of(stage: Stage, artifacts: Mapping[str, Any]) -> dict[str, Any]:
    """The artifacts that a stage takes, of those that there are."""
    return {name: artifacts[name] for name in stage.takes if name in artifacts}


@dataclasses.dataclass(frozen=True)
class StageBuilder:
    """Builds the program of a stage for one lane. Equal builders share one compiled program."""

    build: Callable[[Builder | None, Inputs, Any], Program]
    method: Builder | None

    def __call__(self, env: Env, given: Any, artifacts: Mapping[str, Any], settings: Any) -> Program:
        return self.build(self.method, Inputs(env, given, artifacts), settings)


def work_of(stage: Stage, config: RunConfig, context: Context, artifacts: Mapping[str, Any]) -> Work:
    """A stage as work for the driver. Artifacts have a leading axis of lanes; env and settings are shared."""
    given = context.samples if stage.reads_dataset else context.skills if stage.reads_skills else None
    inputs = (context.env, given, inputs_of(stage, artifacts), stage.settings(config))
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
    env += ["timed"] if config.timed else []
    settings = all_settings(stage.settings(config))
    seeds = [config.seed, config.num_seeds]
    return _hash([stage.name, stage.method(config), settings, env, seeds, ancestors, edl.__version__])


def run_identity(config: RunConfig, until: str | None = None) -> str:
    """A hash of everything that the result of a run depends on, or the result of its stages up to ``until``."""
    return _hash([identity(stage, config) for stage in plan(config, until)])


@functools.lru_cache(maxsize=4096)
def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _hash(parts: list) -> str:
    return _hash_text(json.dumps(parts, sort_keys=True))
