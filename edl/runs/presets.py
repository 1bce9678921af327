"""Presets: a value for every setting. ``fast`` is ours, tuned for time to quality; ``paper`` is the paper's recipe.

The defaults of every method's config are those of ``fast``. `PAPER` lists what differs in ``paper``, method by method.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from edl import baselines, discover, explore, learn
from edl.discover.gaussian_vae import GaussianVAEConfig
from edl.discover.kmeans import KMeansConfig
from edl.discover.vqvae import VQVAEConfig
from edl.config import check_name
from edl.runs.config import DATASET, RunConfig
from edl.explore.knn import KNNConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.interop.env_names import is_host_id
from edl.rl.ppo import PPOConfig

DEFAULTS: dict[str, dict[str, str]] = {
    "fast": {"explore": "frontier", "discover": "vqvae", "scout": "frontier"},
    "paper": {"explore": "oracle", "discover": "vqvae", "scout": "random_walk"},
}
"""The methods that a run takes if it names none; ``scout`` collects the experience that an oracle or a file has not."""
WITHOUT_EXPERIENCE = ("oracle", DATASET)

PAPER: dict[str, Callable[[], Any]] = {
    "vqvae": VQVAEConfig.paper,
    "kmeans": KMeansConfig.paper,
    "gaussian_vae": GaussianVAEConfig.paper,
    "learn": learn.paper,
}
"""The paper's recipe for each method (and for ``learn``) that has one of its own."""

HOST_DEFAULTS = {"explore": "drift", "discover": "vqvae", "scout": "random_walk"}
HOST_PPO: dict[str, Any] = {"iterations": 100, "rollouts": 64, "normalise": True, "minibatches": 16}
HOST_LEARNERS: dict[str, dict[str, Any]] = {"ppo": HOST_PPO, "sac": {"normalise": True}}
"""What differs in the learner of a baseline."""
HOST: dict[str, Callable[[], Any]] = {
    "random_walk": lambda: RandomWalkConfig(iterations=20, rollouts=64),
    "knn": lambda: KNNConfig(iterations=40, rollouts=64),
    "learn": lambda: learn.LearnConfig(
        reward="visits",
        distance="normalised",
        ppo=PPOConfig(**HOST_PPO),
    ),
}
"""Worlds on the host step slowly and have no common unit of length: what differs there, whatever the preset."""

RECIPES: dict[str, Mapping[str, Callable[[], Any]]] = {"fast": {}, "paper": PAPER}


def complete(config: RunConfig) -> RunConfig:
    """Fill what a run leaves open with its preset: the names of its stages, and their configs."""
    check_name(config.preset, RECIPES, "preset", "Change --preset.")
    host = is_host_id(config.env)
    recipes: dict[str, Callable[[], Any]] = {**RECIPES[config.preset], **(HOST if host else {})}

    def settings(name: str, methods: Mapping[str, Any], what: str) -> Any:
        check_name(name, methods, what, "`edl list` tells what each does.")
        return (recipes.get(name) or methods[name].config)()

    if config.method != "edl":
        chosen = config.baseline
        if chosen is None:
            chosen = settings(config.method, baselines.METHODS, "method")
            chosen = _for_host(chosen) if host else chosen
        return dataclasses.replace(config, baseline=_derive(chosen, config))
    stages = HOST_DEFAULTS if host else DEFAULTS[config.preset]
    explorer, discoverer = config.explore or stages["explore"], config.discover or stages["discover"]
    filled: dict[str, Any] = {"explore": explorer, "discover": discoverer}
    if config.explorer is None and not explorer.startswith(DATASET):
        filled["explorer"] = settings(explorer, explore.METHODS, "explorer")
    if config.discoverer is None:
        filled["discoverer"] = settings(discoverer, discover.METHODS, "discoverer")
    learner = recipes.get("learn", learn.LearnConfig)() if config.learner is None else config.learner
    filled["learner"] = learner
    if config.scout is None and learner.distance == "walking" and explorer.startswith(WITHOUT_EXPERIENCE):
        filled["scout"] = settings(stages["scout"], explore.METHODS, "explorer")
    config = dataclasses.replace(config, **filled)
    nested = {name: _derive(getattr(config, name), config) for name in ("explorer", "discoverer")}
    return dataclasses.replace(config, **nested)


def _for_host(baseline: Any) -> Any:
    """The config of a baseline whose learner is set up for a world on the host."""
    names = {field.name for field in dataclasses.fields(baseline)}
    learners = {name: changes for name, changes in HOST_LEARNERS.items() if name in names}
    changed = {name: dataclasses.replace(getattr(baseline, name), **changes) for name, changes in learners.items()}
    return dataclasses.replace(baseline, **changed)


def _derive(nested: Any, config: RunConfig) -> Any:
    """Set what a method's config has in common with the run's: the number of skills, and the region."""
    if nested is None:
        return None
    shared = {"num_skills": config.num_skills, "region": config.region}
    names = {field.name for field in dataclasses.fields(nested)}
    return dataclasses.replace(nested, **{name: value for name, value in shared.items() if name in names})
