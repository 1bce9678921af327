"""Presets: a value for every setting. ``fast`` is ours, tuned for time to quality; ``paper`` is the paper's recipe.

The defaults of every method's config are those of ``fast``. `PAPER` lists the methods that have a recipe in ``paper``:
those that the paper runs, and the discoverers that can take the place of its VQ-VAE. All other methods reject the
preset, and so do envs that are not mazes. docs/paper_to_code.md compares the settings.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from edl import baselines, discover, explore, learn
from edl.baselines.forward_mi import ForwardMIConfig
from edl.baselines.reverse_mi import ReverseMIConfig
from edl.config import check, check_name
from edl.discover.gaussian_vae import GaussianVAEConfig
from edl.discover.kmeans import KMeansConfig
from edl.discover.vqvae import VQVAEConfig
from edl.explore.knn import KNNConfig
from edl.explore.oracle import OracleConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.smm import SMMConfig
from edl.interop.env_names import is_maze
from edl.program import Method
from edl.rl.ppo import PPOConfig
from edl.runs.config import DATASET, NESTED, RunConfig, plain_settings, with_changes

DEFAULTS: dict[str, dict[str, str]] = {
    "fast": {"explore": "frontier", "discover": "vqvae", "scout": "frontier"},
    "paper": {"explore": "oracle", "discover": "vqvae", "scout": "random_walk"},
}
"""The methods of a run that names none; ``scout`` collects experience if the states came without any."""
WITHOUT_EXPERIENCE = ("oracle", DATASET)

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
LEARN = Method(learn.LearnConfig, learn.learn)
"""Stage 3, which has one method."""

FOREIGN_DEFAULTS = {"explore": "drift", "discover": "vqvae", "scout": "random_walk"}
FOREIGN_PPO: dict[str, Any] = {"iterations": 100, "rollouts": 64, "normalise": True, "minibatches": 16}
FOREIGN_LEARNERS: dict[str, dict[str, Any]] = {"ppo": FOREIGN_PPO, "sac": {"normalise": True}}
"""Changes to the learner of a baseline."""
FOREIGN: dict[str, Callable[[], Any]] = {
    "random_walk": lambda: RandomWalkConfig(iterations=20, rollouts=64),
    "knn": lambda: KNNConfig(iterations=40, rollouts=64),
    "learn": lambda: learn.LearnConfig(reward="visits", distance="normalised", ppo=PPOConfig(**FOREIGN_PPO)),
}
"""Recipes of ``fast`` for envs that are not mazes: they step slowly and their features have no common unit."""

RECIPES: dict[str, Mapping[str, Callable[[str], Any]]] = {"fast": {}, "paper": PAPER}
"""The presets. In ``fast``, methods have the defaults of their configs."""
METHOD_OF = {"explorer": "explore", "scout": "explore", "discoverer": "discover"}
"""The setting that names the method of a nested config (``method`` for the others)."""


def default_methods(config: RunConfig) -> dict[str, str]:
    """The methods of the stages that a run does not name."""
    return DEFAULTS[config.preset] if is_maze(config.env) else FOREIGN_DEFAULTS


def complete(config: RunConfig, saved: Collection[str] = ()) -> RunConfig:
    """Fill the settings that a run leaves open: the names of its methods, and their configs.

    A method without a recipe in the preset is rejected if the preset has to provide its settings. ``saved`` are nested
    configs that the caller will replace by those of a saved run: they get default settings instead.
    """
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
        return dataclasses.replace(config, baseline=_with_derived(chosen, config))
    defaults = default_methods(config)
    explorer, discoverer = config.explore or defaults["explore"], config.discover or defaults["discover"]
    filled: dict[str, Any] = {"explore": explorer, "discover": discoverer}
    if not explorer.startswith(DATASET):
        filled["explorer"] = settings("explorer", explorer, explore.METHODS, "explorer")
    filled["discoverer"] = settings("discoverer", discoverer, discover.METHODS, "discoverer")
    filled["learner"] = learner = settings("learner", "learn", {"learn": LEARN}, "stage")
    if config.scout is None and learner.distance == "walking" and explorer.startswith(WITHOUT_EXPERIENCE):
        # Only walking distance needs a scout. It is ours, so the scout has our settings in every preset.
        filled["scout"] = settings_of(config, defaults["scout"], explore.METHODS[defaults["scout"]].config)
    config = dataclasses.replace(config, **filled)
    nested = {name: _with_derived(getattr(config, name), config) for name in ("explorer", "discoverer")}
    return dataclasses.replace(config, **nested)


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
    return FOREIGN[name]() if name in FOREIGN else _for_foreign_env(default())


def _for_foreign_env(settings: Any) -> Any:
    """A method's config with the learner settings for an env that is not a maze."""
    names = {field.name for field in dataclasses.fields(settings)}
    learners = {name: changes for name, changes in FOREIGN_LEARNERS.items() if name in names}
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
            nested[name] = with_changes(current, changes, name)
    region = overrides.get("region", saved.get("region"))
    config = dataclasses.replace(merged, **nested, region=region or None)
    if config.learner is not None and config.learner.distance != "walking" and saved.get("scout") is None:
        config = dataclasses.replace(config, scout=None)  # the preset's learner, which needs a scout, was replaced
    return config


def _same_method(one: RunConfig, other: RunConfig, nested: str) -> bool:
    """Whether two runs have the same method for a nested config, and the same preset."""
    return all(getattr(one, name) == getattr(other, name) for name in (METHOD_OF.get(nested, "method"), "preset"))
