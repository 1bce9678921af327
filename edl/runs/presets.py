"""Presets: a value for every setting. ``fast`` is ours, tuned for time to quality; ``paper`` is the paper's recipe.

The defaults of every method's config are those of ``fast`` in a maze, except for the methods in `FAST`. Other envs have
recipes of their own, in one dict per kind of env: `JAX` for envs in JAX, such as robots on MJX, and `HOST` for envs
outside of JAX. Recipes for envs in JAX also depend on the device, because an accelerator steps thousands of envs at
once. The choice is made here and only here: config.json has plain numbers, and a run that is resumed elsewhere keeps
them.

`PAPER` lists the methods that have a recipe in ``paper``:
those that the paper runs, and the discoverers that can take the place of its VQ-VAE. All other methods reject the
preset, and so do envs that are not mazes. docs/paper_to_code.md compares the settings.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from edl import baselines, discover, explore, learn
from edl.baselines.apt import APTConfig
from edl.baselines.cic import CICConfig
from edl.baselines.csd import CSDConfig
from edl.baselines.csf import CSFConfig
from edl.baselines.diayn import DIAYNConfig
from edl.baselines.forward_mi import ForwardMIConfig
from edl.baselines.lsd import LSDConfig
from edl.baselines.metra import METRAConfig
from edl.baselines.reverse_mi import ReverseMIConfig
from edl.baselines.robot_recipes import robot_directions, robot_entropy
from edl.config import ConfigError, check, check_name
from edl.discover.gaussian_vae import GaussianVAEConfig
from edl.discover.kmeans import KMeansConfig
from edl.discover.vqvae import VQVAEConfig
from edl.envs.base import Env
from edl.envs.host import DEFAULT_HORIZON
from edl.envs.mjx.env import MjxEnv
from edl.envs.mjx.robots import STEPS_PER_CELL
from edl.envs.success import success_of
from edl.explore.beyond import BeyondConfig
from edl.explore.hindsight import HindsightConfig
from edl.explore.knn import KNNConfig
from edl.explore.oracle import OracleConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.smm import SMMConfig
from edl.interop.env_names import is_gymnasium_id, is_maze, make_env, names_robot, runs_on_host
from edl.learn.walking import WalkingConfig
from edl.program import Method
from edl.rl.deadlines import deadline_sac
from edl.rl.ppo import PPOConfig
from edl.rl.sac import SACConfig
from edl.runs.config import DATASET, GIVEN, NESTED, RunConfig, plain_settings, with_changes
from edl.runtime.devices import on_accelerator

DEFAULTS: dict[str, dict[str, str]] = {
    "fast": {"explore": "frontier", "discover": "vqvae", "scout": "frontier"},
    "paper": {"explore": "oracle", "discover": "vqvae", "scout": "random_walk"},
}
"""The methods of a run that names none; ``scout`` collects experience if the states came without any."""
WITHOUT_EXPERIENCE = ("oracle", DATASET)
CONTINUOUS = ("gaussian_vae",)
"""Discoverers with a continuous prior, whose codes are not goals."""

PAPER: dict[str, Callable[[str], Any]] = {
    "reverse_mi": ReverseMIConfig.paper,
    "forward_mi": ForwardMIConfig.paper,
    "oracle": lambda env: OracleConfig(),
    "smm": SMMConfig.paper,
    "vqvae": lambda env: VQVAEConfig.paper(),
    "kmeans": lambda env: KMeansConfig.paper(),
    "gaussian_vae": lambda env: GaussianVAEConfig.paper(),
    "learn": learn.paper,
}
"""The paper's recipe for each method (and for ``learn``) that has one, as a function of the name of the env."""
BEYOND_SMALL: dict[str, Any] = {
    "rollouts": 20,
    "margin": 0.2,
    "hidden": (128, 128),
    "learning_rate": 3e-3,
    "entropy_weight": 0.01,
}
"""Settings of `beyond` where the steps are few: many iterations of few episodes. The defaults of its config are for
robots, thousands of which step at once: 100,000 steps in a maze would be one iteration. Chosen in square and tree
(docs/explorers.md)."""
FAST: dict[str, Callable[[str], Any]] = {
    # It records all episodes of a million steps.
    "beyond": lambda env: BeyondConfig(iterations=100, minibatches=8, episodes=32_768, **BEYOND_SMALL),
}
"""Recipes for mazes of methods whose defaults are for other envs."""
LEARN = Method(learn.LearnConfig, learn.learn)
"""Stage 3, which has one method."""


class Facts(NamedTuple):
    """What the recipes for an env that is not a maze depend on: the env, the device, and the methods of the run."""

    env: Env
    accelerator: bool
    config: RunConfig

    @property
    def unroll(self) -> int:
        return unroll_of(self.env.horizon)


HOST_DEFAULTS = {"explore": "hindsight", "discover": "vqvae", "scout": "random_walk"}
HOST_PPO: dict[str, Any] = {"iterations": 100, "rollouts": 64, "normalise": True, "minibatches": 16}
HOST_LEARNERS: dict[str, dict[str, Any]] = {"ppo": HOST_PPO, "sac": {"normalise": True}}
"""Changes to the learner of a baseline."""
HOST: dict[str, Callable[[RunConfig], Any]] = {
    "random_walk": lambda config: RandomWalkConfig(iterations=20, rollouts=64),
    "knn": lambda config: KNNConfig(iterations=40, rollouts=64),
    "hindsight": lambda config: HindsightConfig(sac=host_sac(config, iterations=60)),
    # Whole episodes: the envs of a host are not part of a checkpoint, so no other process could go on with a part.
    "beyond": lambda config: BeyondConfig(iterations=120, minibatches=32, **BEYOND_SMALL),
    "learn": lambda config: host_learner(config),
}
"""Recipes for envs outside of JAX (Gymnasium): they step slowly and their features have no common unit."""

JAX_DEFAULTS = {"explore": "beyond", "discover": "vqvae", "scout": "beyond"}
JAX_LEARNERS = {True: HOST_LEARNERS | {"ppo": HOST_PPO | {"rollouts": 1024, "minibatches": 32}}, False: HOST_LEARNERS}
"""Changes to the learner of a baseline, on an accelerator and on a CPU."""
JAX: dict[str, Callable[[Facts], Any]] = {
    "random_walk": lambda facts: whole_episodes("random_walk", facts),
    "knn": lambda facts: whole_episodes("knn", facts),
    "beyond": lambda facts: jax_explorer(facts),
    "learn": lambda facts: jax_learner(facts),
    "metra": lambda facts: METRAConfig.robot(continuous=facts.env.feature_size >= 2, **jax_sac(facts)),
    "lsd": lambda facts: LSDConfig(**jax_directions(facts)),
    "csd": lambda facts: CSDConfig(**jax_directions(facts)),
    "csf": lambda facts: CSFConfig.robot(**jax_sac(facts)),
    "apt": lambda facts: APTConfig(**robot_entropy(facts.env.horizon, **jax_sac(facts))),
    "cic": lambda facts: CICConfig(**robot_entropy(facts.env.horizon, **jax_sac(facts))),
    "diayn": lambda facts: DIAYNConfig.robot(**jax_sac(facts)),
}
"""Recipes for envs in JAX that are not mazes: robots on MJX, Brax-style envs, and a user's own. Their dynamics must be
learned before anything can be reached. An accelerator steps thousands of them at once; a CPU only makes a few thousand
steps of a robot per second, so there the numbers are small: a run ends after minutes, and does not get far."""
JAX_PARTS: dict[bool, dict[str, Any]] = {
    True: {"rollouts": 4096, "minibatches": 32},
    False: {"rollouts": 32, "minibatches": 2},
}
"""Envs at the same time and minibatches of PPO, on an accelerator and on a CPU. Physics takes nine tenths of the time,
so many gradient steps (4 x ``minibatches`` per iteration) cost little."""
JAX_WHOLE: dict[str, dict[str, Any]] = {
    "random_walk": {"iterations": 2, "rollouts": JAX_PARTS[True]["rollouts"]},
    "knn": {"rollouts": 1024},
}
"""Changes on an accelerator to the recipes of `HOST` for explorers that play and record whole episodes: 1.6 and 8.2
million steps in episodes of 200. Those of kNN are fewer at a time, because it compares every state with 2048 others,
which takes 1.7 GB per seed."""
FAR_GOALS, FAR_ON_FLOOR = 0.2, 0.4
"""Share of the explorer's goals that are far, for robots in the open: in general, and on an empty floor, where the
policy does not see its place (`BeyondConfig.inputs`), so that what far goals teach serves all goals."""
UNROLLS = range(10, 26)
"""Steps of each env per iteration of PPO, of which the smallest that divides the horizon is used."""


def host_sac(config: RunConfig, **changes: Any) -> SACConfig:
    """SAC for goals with a deadline, with about a thousand gradient steps per iteration, however long episodes are."""
    try:
        horizon = config.horizon or env_of(config).horizon
    except ConfigError:  # see `kind_of`
        horizon = DEFAULT_HORIZON
    sac = deadline_sac(**changes)
    return dataclasses.replace(sac, update_every=max(sac.rollouts * horizon // 1000, 1))


def host_learner(config: RunConfig) -> learn.LearnConfig:
    """Stage 3: goals with a deadline, from the policy of the explorer if it has one for such goals.

    The codes of a continuous prior are not goals. PPO is then rewarded for visits.
    """
    common: dict[str, Any] = {"reward": "visits", "distance": "normalised", "ppo": PPOConfig(**HOST_PPO)}
    if config.discover in CONTINUOUS:
        return learn.LearnConfig(**common)
    explorer = config.explorer
    if isinstance(explorer, HindsightConfig):
        sac = dataclasses.replace(explorer.sac, iterations=20)
        return learn.LearnConfig(algorithm="sac", start="explorer", sac=sac, **common)
    return learn.LearnConfig(algorithm="sac", sac=host_sac(config, iterations=80), **common)


def unroll_of(horizon: int) -> int:
    """Steps of each env per iteration; 0, i.e. whole episodes, if they are short or none of `UNROLLS` divides them."""
    return next((steps for steps in UNROLLS if horizon % steps == 0 and horizon > steps), 0)


def jax_explorer(facts: Facts) -> BeyondConfig:
    """41 million steps on an accelerator, and 320,000 on a CPU. An empty floor is large: 82 million steps."""
    unbounded = success_of(facts.env).unit == "units"
    on_floor = isinstance(facts.env, MjxEnv) and facts.env.features_are_place_on_floor
    return BeyondConfig(
        iterations=in_parts(2000 if on_floor and facts.accelerator else 1000, facts),
        unroll=facts.unroll,
        far=(FAR_ON_FLOOR if on_floor else FAR_GOALS) if unbounded else 0.0,
        inputs="egocentric" if on_floor else "world",
        # Only walking distance in mazes needs many.
        episodes=1024 if on_floor and facts.accelerator else BeyondConfig().episodes,
        hidden=(256, 256) if facts.accelerator else (128, 128),
        **JAX_PARTS[facts.accelerator],
    )


def whole_episodes(name: str, facts: Facts) -> Any:
    """The recipe of `HOST`; on an accelerator with about a thousand envs or more at the same time."""
    return dataclasses.replace(HOST[name](facts.config), **(JAX_WHOLE[name] if facts.accelerator else {}))


def in_parts(iterations: int, facts: Facts) -> int:
    """The number of iterations for the steps of ``iterations`` parts of ten steps."""
    return max(iterations * UNROLLS[0] // (facts.unroll or facts.env.horizon), 1)


def jax_learner(facts: Facts) -> learn.LearnConfig:
    """Stage 3: progress to the goals, from the policy of the explorer if it has one.

    Features that are a place share a unit, so distance is Euclidean (in a maze: walking distance). Other features have
    no common unit. From scratch, learning takes about as many steps as exploring.
    """
    explorer = facts.config.explorer
    continues = isinstance(explorer, BeyondConfig) and facts.config.discover not in CONTINUOUS
    iterations = in_parts(200 if continues else 1000, facts)
    ppo = PPOConfig(
        iterations=iterations,
        unroll=facts.unroll,
        hidden=explorer.hidden if isinstance(explorer, BeyondConfig) else BeyondConfig().hidden,
        normalise_codes=True,
        learning_rate=3e-4 if continues else 6e-4,
        last_learning_rate=1e-4,
        max_gradient_norm=1.0,
        **JAX_PARTS[facts.accelerator],
    )
    unit = success_of(facts.env).unit
    distances = {"cells": "walking", "units": "euclidean", "standard deviations": "normalised"}
    return learn.LearnConfig(
        start="explorer" if continues else "scratch",
        distance=distances[unit],  # type: ignore[arg-type]
        walking=WalkingConfig(stride=max(STEPS_PER_CELL // 2, 1) if unit == "cells" else 1),
        bonus=0.5,
        scale_rewards=unit != "standard deviations",
        entropy_boost=0.0,
        ppo=ppo,
    )


def jax_sac(facts: Facts) -> dict[str, Any]:
    """Changes to the recipe of METRA's authors, which has 10 million steps: on a CPU their 8 envs, and few steps."""
    return {} if facts.accelerator else {"iterations": 40, "rollouts": 8, "capacity": 100_000, "random_episodes": 32}


def jax_directions(facts: Facts) -> dict[str, Any]:
    """METRA's recipe for LSD and CSD."""
    return robot_directions(facts.env.feature_size >= 2, **jax_sac(facts))


RECIPES: dict[str, Mapping[str, Callable[[str], Any]]] = {"fast": FAST, "paper": PAPER}
"""The presets. In ``fast``, most methods have the defaults of their configs."""
METHOD_OF = {"explorer": "explore", "scout": "explore", "discoverer": "discover"}
"""The setting that names the method of a nested config (``method`` for the others)."""


def kind_of(config: RunConfig) -> Literal["maze", "jax", "host"]:
    """The kind of env that decides on the recipes: a point maze, another env in JAX, or one outside of JAX."""
    if is_maze(config.env):
        return "maze"
    if names_robot(config.env):
        return "jax"
    if is_gymnasium_id(config.env):
        return "host"
    try:
        return "host" if runs_on_host(env_of(config)) else "jax"
    except ConfigError:  # the env of a saved run may be gone; it is made, and the error raised, when it is needed
        return "host"


def env_of(config: RunConfig) -> Env:
    return make_env(
        config.env, features=config.features, horizon=config.horizon, maze=config.maze, timed=bool(config.timed)
    )


def default_methods(config: RunConfig) -> dict[str, str]:
    """The methods of the stages that a run does not name."""
    kind = kind_of(config)
    return DEFAULTS[config.preset] if kind == "maze" else JAX_DEFAULTS if kind == "jax" else HOST_DEFAULTS


def complete(config: RunConfig, saved: Collection[str] = ()) -> RunConfig:
    """Fill the settings that a run leaves open: the names of its methods, and their configs.

    A method without a recipe in the preset is rejected if the preset has to provide its settings. ``saved`` are nested
    configs that the caller will replace by those of a saved run: they get default settings instead.
    """
    return with_time(_with_methods(config, saved))


def _with_methods(config: RunConfig, saved: Collection[str]) -> RunConfig:
    """`complete`, without the settings that depend on the methods."""
    check_name(config.preset, RECIPES, "preset")

    def settings(nested: str, name: str, methods: Mapping[str, Method], what: str) -> Any:
        check_name(name, methods, what, "`edl list` describes them.")
        given = getattr(config, nested)
        if given is not None:
            return given
        if nested not in saved:
            check_recipe(config, name, methods, what)
        return settings_of(config, name, methods[name].config)

    if config.method != "edl":
        chosen = settings("baseline", config.method, baselines.METHODS, "method")
        config = dataclasses.replace(config, baseline=_with_derived(chosen, config))
        if not baselines.METHODS[config.method].offline:
            return config
        name = config.explore or default_methods(config)["explore"]
        if name.startswith(DATASET):
            return dataclasses.replace(config, explore=name)
        explorer = settings("explorer", name, explore.METHODS, "explorer")
        return dataclasses.replace(config, explore=name, explorer=_with_derived(explorer, config))
    defaults = default_methods(config)
    explorer, discoverer = config.explore or defaults["explore"], config.discover or defaults["discover"]
    filled: dict[str, Any] = {"explore": explorer, "discover": discoverer}
    if not explorer.startswith((DATASET, GIVEN)):
        filled["explorer"] = settings("explorer", explorer, explore.METHODS, "explorer")
    config = dataclasses.replace(config, **filled)  # the recipe of the learner depends on the explorer
    if not discoverer.startswith(GIVEN):
        filled["discoverer"] = settings("discoverer", discoverer, discover.METHODS, "discoverer")
    filled["learner"] = learner = settings("learner", "learn", {"learn": LEARN}, "stage")
    if config.scout is None and learner.distance == "walking" and explorer.startswith(WITHOUT_EXPERIENCE):
        # Only walking distance needs a scout. It is ours, so the scout has our settings in every preset.
        filled["scout"] = settings_of(config, defaults["scout"], explore.METHODS[defaults["scout"]].config)
    config = dataclasses.replace(config, **filled)
    nested = {name: _with_derived(getattr(config, name), config) for name in ("explorer", "discoverer")}
    return dataclasses.replace(config, **nested)


def with_time(config: RunConfig) -> RunConfig:
    """Decide whether the policy sees the time left, if the user has not: if the explorer or the learner need it."""
    if config.timed is not None:
        return config
    needs = config.explore == "hindsight" or (config.learner is not None and config.learner.algorithm == "sac")
    if needs and (is_maze(config.env) or names_robot(config.env)):
        what = "explorer 'hindsight'" if config.explore == "hindsight" else "learner.algorithm 'sac'"
        instead = f"--explore {default_methods(config)['explore']}" if "explorer" in what else "--learner.algorithm ppo"
        raise ConfigError(
            f"{what} needs an env that shows the time left, such as a Gymnasium env (got {config.env!r}, which is a "
            f"{'maze' if is_maze(config.env) else 'robot'}). Use {instead}."
        )
    return dataclasses.replace(config, timed=needs)


def check_recipe(config: RunConfig, name: str, methods: Mapping[str, Method], what: str) -> None:
    """Raise a `ConfigError` if the preset has no recipe for this method or for this env."""
    recipes = RECIPES[config.preset]
    if config.preset == "fast":
        return
    check(
        is_maze(config.env),
        f"the preset {config.preset!r} needs a maze (got env {config.env!r}), because the paper has recipes for mazes "
        "only. Use the preset 'fast'.",
    )
    available = [method for method in methods if method in recipes]
    check(
        name in recipes,
        f"the preset {config.preset!r} has no recipe for the {what} {name!r}. It has recipes for "
        f"{', '.join(available)}. Use one of these, or the preset 'fast'.",
    )


def settings_of(config: RunConfig, name: str, default: Callable[[], Any]) -> Any:
    """The preset's settings of a method in the env of the run: its recipe, if it has one, or the method's defaults."""
    if is_maze(config.env):
        recipe = RECIPES[config.preset].get(name)
        return default() if recipe is None else recipe(config.env)
    if kind_of(config) == "host":
        return HOST[name](config) if name in HOST else _with_learners(default(), HOST_LEARNERS)
    facts = Facts(env_of(config), on_accelerator(), config)
    return JAX[name](facts) if name in JAX else _with_learners(default(), JAX_LEARNERS[facts.accelerator])


def _with_learners(settings: Any, learners: Mapping[str, dict[str, Any]]) -> Any:
    """A method's config with the learner settings for an env that is not a maze."""
    names = {field.name for field in dataclasses.fields(settings)}
    learners = {name: changes for name, changes in learners.items() if name in names}
    changed = {name: dataclasses.replace(getattr(settings, name), **changes) for name, changes in learners.items()}
    return dataclasses.replace(settings, **changed)


def _with_derived(nested: Any, config: RunConfig) -> Any:
    """Copy the settings that a method shares with the run: the number of skills and the region."""
    if nested is None:
        return None
    shared = {"num_skills": config.num_skills, "region": config.region}
    names = {field.name for field in dataclasses.fields(nested)}
    return dataclasses.replace(nested, **{name: value for name, value in shared.items() if name in names})


def from_json(saved: Any, whose: str, **overrides: Any) -> RunConfig:
    """A complete config from JSON. ``overrides`` win; naming another method drops the settings of the saved one."""
    base = plain_settings(saved, whose)
    # The config.json of a run has the settings of all its methods. A file by a user may leave some to the preset.
    of_run = NESTED if all(name in saved for name in NESTED) else ()
    if "env" in overrides and overrides["env"] != base.env:
        base = dataclasses.replace(base, maze=None)
    changed = dataclasses.replace(base, **overrides)
    kept = [name for name in of_run if _same_method(base, changed, name) and base.env == changed.env]
    base, merged = complete(base, of_run), complete(changed, kept)
    nested = {}
    for name in NESTED:
        current, changes = getattr(merged, name), saved.get(name)
        if current is not None and changes is not None and _same_method(base, merged, name) and name not in overrides:
            is_old = isinstance(changes, Mapping) and "algorithm" not in changes  # a run of edl 0.2
            if name == "learner" and of_run and is_old:
                current = dataclasses.replace(current, algorithm="ppo", start="scratch")
            nested[name] = with_changes(current, changes, name)
    region = overrides.get("region", saved.get("region"))
    config = dataclasses.replace(merged, **nested, region=region or None)
    if config.learner is not None and config.learner.distance != "walking" and saved.get("scout") is None:
        config = dataclasses.replace(config, scout=None)  # the preset's learner, which needs a scout, was replaced
    return with_time(dataclasses.replace(config, timed=changed.timed))


def _same_method(one: RunConfig, other: RunConfig, nested: str) -> bool:
    """Whether two runs have the same method for a nested config, and the same preset."""
    return all(getattr(one, name) == getattr(other, name) for name in (METHOD_OF.get(nested, "method"), "preset"))
