"""Presets: a value for every setting. ``fast`` is ours, tuned for time to quality; ``paper`` is the paper's recipe.

The defaults of every method's config are those of ``fast``. `PAPER` lists the methods whose recipe differs in
``paper``.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from edl import baselines, discover, explore, learn
from edl.config import check_name
from edl.discover.gaussian_vae import GaussianVAEConfig
from edl.discover.kmeans import KMeansConfig
from edl.discover.vqvae import VQVAEConfig
from edl.explore.knn import KNNConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.interop.env_names import is_maze
from edl.rl.ppo import PPOConfig
from edl.runs.config import DATASET, NESTED, RunConfig, plain_settings, with_changes

DEFAULTS: dict[str, dict[str, str]] = {
    "fast": {"explore": "frontier", "discover": "vqvae", "scout": "frontier"},
    "paper": {"explore": "oracle", "discover": "vqvae", "scout": "random_walk"},
}
"""The methods of a run that names none; ``scout`` collects experience if the states came without any."""
WITHOUT_EXPERIENCE = ("oracle", DATASET)

PAPER: dict[str, Callable[[], Any]] = {
    "vqvae": VQVAEConfig.paper,
    "kmeans": KMeansConfig.paper,
    "gaussian_vae": GaussianVAEConfig.paper,
    "learn": learn.paper,
}
"""The paper's recipe for each method (and for ``learn``) that has one."""

FOREIGN_DEFAULTS = {"explore": "drift", "discover": "vqvae", "scout": "random_walk"}
FOREIGN_PPO: dict[str, Any] = {"iterations": 100, "rollouts": 64, "normalise": True, "minibatches": 16}
FOREIGN_LEARNERS: dict[str, dict[str, Any]] = {"ppo": FOREIGN_PPO, "sac": {"normalise": True}}
"""Changes to the learner of a baseline."""
FOREIGN: dict[str, Callable[[], Any]] = {
    "random_walk": lambda: RandomWalkConfig(iterations=20, rollouts=64),
    "knn": lambda: KNNConfig(iterations=40, rollouts=64),
    "learn": lambda: learn.LearnConfig(reward="visits", distance="normalised", ppo=PPOConfig(**FOREIGN_PPO)),
}
"""Recipes for envs that are not mazes, whatever the preset: they step slowly and their features have no common unit."""

RECIPES: dict[str, Mapping[str, Callable[[], Any]]] = {"fast": {}, "paper": PAPER}
METHOD_OF = {"explorer": "explore", "scout": "explore", "discoverer": "discover"}
"""The setting that names the method of a nested config (``method`` for the others)."""


def default_methods(config: RunConfig) -> dict[str, str]:
    """The methods of the stages that a run does not name."""
    return DEFAULTS[config.preset] if is_maze(config.env) else FOREIGN_DEFAULTS


def complete(config: RunConfig) -> RunConfig:
    """Fill the settings that a run leaves open: the names of its methods, and their configs."""
    check_name(config.preset, RECIPES, "preset")
    foreign = not is_maze(config.env)
    recipes: dict[str, Callable[[], Any]] = {**RECIPES[config.preset], **(FOREIGN if foreign else {})}

    def settings(name: str, methods: Mapping[str, Any], what: str) -> Any:
        check_name(name, methods, what, "`edl list` describes them.")
        return (recipes.get(name) or methods[name].config)()

    if config.method != "edl":
        chosen = settings(config.method, baselines.METHODS, "method")
        chosen = _for_foreign_env(chosen) if foreign else chosen
        chosen = chosen if config.baseline is None else config.baseline
        return dataclasses.replace(config, baseline=_with_derived(chosen, config))
    defaults = default_methods(config)
    explorer, discoverer = config.explore or defaults["explore"], config.discover or defaults["discover"]
    filled: dict[str, Any] = {"explore": explorer, "discover": discoverer}
    if not explorer.startswith(DATASET):
        default = settings(explorer, explore.METHODS, "explorer")
        filled["explorer"] = default if config.explorer is None else config.explorer
    default = settings(discoverer, discover.METHODS, "discoverer")
    filled["discoverer"] = default if config.discoverer is None else config.discoverer
    learner = recipes.get("learn", learn.LearnConfig)() if config.learner is None else config.learner
    filled["learner"] = learner
    if config.scout is None and learner.distance == "walking" and explorer.startswith(WITHOUT_EXPERIENCE):
        filled["scout"] = settings(defaults["scout"], explore.METHODS, "explorer")
    config = dataclasses.replace(config, **filled)
    nested = {name: _with_derived(getattr(config, name), config) for name in ("explorer", "discoverer")}
    return dataclasses.replace(config, **nested)


def _for_foreign_env(baseline: Any) -> Any:
    """The config of a baseline with the learner settings for an env that is not a maze."""
    names = {field.name for field in dataclasses.fields(baseline)}
    learners = {name: changes for name, changes in FOREIGN_LEARNERS.items() if name in names}
    changed = {name: dataclasses.replace(getattr(baseline, name), **changes) for name, changes in learners.items()}
    return dataclasses.replace(baseline, **changed)


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
    if "env" in overrides and overrides["env"] != base.env:
        base = dataclasses.replace(base, maze=None)
    base, merged = complete(base), complete(dataclasses.replace(base, **overrides))
    nested = {}
    for name in NESTED:
        current, changes = getattr(merged, name), saved.get(name)
        same = all(getattr(merged, each) == getattr(base, each) for each in (METHOD_OF.get(name, "method"), "preset"))
        if current is not None and changes is not None and same and name not in overrides:
            nested[name] = with_changes(current, changes, name)
    region = overrides.get("region", saved.get("region"))
    config = dataclasses.replace(merged, **nested, region=region or None)
    if config.learner is not None and config.learner.distance != "walking" and saved.get("scout") is None:
        config = dataclasses.replace(config, scout=None)  # the preset's learner, which needs a scout, was replaced
    return config
