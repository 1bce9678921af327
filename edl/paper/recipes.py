"""The runs that the paper's figures are made of. Figures that want the same run share it.

Two presets: ``paper`` learns as the paper did, ``fast`` with our settings. What a figure is about (the oracle, Sibling
Rivalry, a start, a prior) is the same in both.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from edl.baselines import METHODS
from edl.runs.config import RunConfig, to_json
from edl.runs.stages import settle
from edl.learn import LearnConfig, paper
from edl.rl.ppo import PPOConfig
from edl.rl.ppo_config import paper as ppo_paper


class Grid(NamedTuple):
    """What all runs of a reproduction have in common. ``adjust`` may change each config, e.g. to try a tiny one."""

    preset: str = "fast"
    num_seeds: int = 10
    seed: int = 0
    adjust: Callable[[RunConfig], RunConfig] = lambda config: config

    def recipe(self, title: str, env: str, source: "Recipe | None" = None, **settings: Any) -> "Recipe":
        """A run in ``env``; ``settings`` are further fields of `RunConfig`."""
        common = {"preset": self.preset, "num_seeds": self.num_seeds, "seed": self.seed}
        config = settle(RunConfig(env=env, **common, **settings))
        return Recipe(title, settle(self.adjust(config)), source)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A run: its config, and perhaps the run (in another corridor) whose states and skills it takes over."""

    title: str
    config: RunConfig
    source: "Recipe | None" = None

    @property
    def key(self) -> str:
        """A hash of all that decides the result; the title does not."""
        parts = [to_json(self.config), None if self.source is None else self.source.key]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def folder(self) -> str:
        """The name of the run's folder."""
        return f"{self.config.env}-{self.config.method}-{self.key}"


def baseline(grid: Grid, env: str, method: str) -> Recipe:
    """Forward or reverse MI."""
    return grid.recipe(f"{method} in {env}", env, method=method)


def untrained(grid: Grid, env: str) -> Recipe:
    """The paper's random policy: the architecture of the baselines with random weights, which descend by nothing."""
    still = PPOConfig(iterations=1, rollouts=10, epochs=1, minibatches=1, learning_rate=0.0, last_learning_rate=0.0)
    config = METHODS["reverse_mi"].config(ppo=still)
    return grid.recipe(f"untrained policy in {env}", env, method="reverse_mi", baseline=config)


def edl(grid: Grid, env: str, explore: str, learner: LearnConfig | None = None, **settings: Any) -> Recipe:
    """All three stages. Without a ``learner`` the preset's: walking distance, or Sibling Rivalry in the paper's."""
    how = "" if learner is None else f", {learner.distance}{' with siblings' if learner.rivalry else ''}"
    return grid.recipe(f"EDL ({explore}{how}) in {env}", env, explore=explore, learner=learner, **settings)


def with_siblings(grid: Grid) -> LearnConfig:
    """Euclidean distance with Sibling Rivalry: the paper's learner.

    In ``fast``, half the iterations of the others: siblings come in twos, so as many steps are taken.
    """
    if grid.preset == "paper":
        return paper()
    return LearnConfig(reward="shipped", distance="euclidean", rivalry=True, ppo=PPOConfig(gamma=1.0, bootstrap=False))


def straight(grid: Grid) -> LearnConfig:
    """Euclidean distance without siblings."""
    if grid.preset == "paper":
        return paper(rivalry=False, ppo=ppo_paper())
    return LearnConfig(distance="euclidean")


def on_foot(grid: Grid) -> LearnConfig:
    """Walking distance, with our settings whatever the preset: the paper has none."""
    return LearnConfig()


def of_form(grid: Grid, reward: str) -> LearnConfig:
    """The reward log q(s|z) of the forward form or q(z|s) of the reverse one, for equally many steps, undisturbed."""
    ppo = ppo_paper() if grid.preset == "paper" else PPOConfig()
    return LearnConfig(reward=reward, distance="euclidean", rivalry=False, stop_at=2.0, ppo=ppo)  # type: ignore[arg-type]
