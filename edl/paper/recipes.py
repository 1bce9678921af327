"""The runs behind the paper's figures. Figures that need the same run share it.

There are two presets: ``paper`` trains with the paper's settings, ``fast`` with ours. The subject of a figure (the
oracle, Sibling Rivalry, a start, a prior) is the same in both.
"""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from edl.baselines import METHODS
from edl.learn import LearnConfig, paper
from edl.rl.ppo import PPOConfig, paper_ppo
from edl.runs.config import RunConfig
from edl.runs.pipeline import run_identity
from edl.runs.resolve import resolve_config


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A run to execute. ``source`` is a run in another corridor whose states and skills it imports, if any."""

    title: str
    config: RunConfig
    source: "Recipe | None" = None

    @property
    def identity(self) -> str:
        """A hash of everything that the result depends on. The title is not part of it."""
        if self.source is None:
            return run_identity(self.config)
        text = f"{run_identity(self.config)} with the skills of {self.source.identity}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        return f"{self.config.env}-{self.config.method}-{self.identity}"


class ReproductionConfig(NamedTuple):
    """Settings that all runs of a reproduction share. ``adjust`` can change each config, e.g. for a tiny test run."""

    preset: Literal["fast", "paper"] = "fast"
    num_seeds: int = 10
    seed: int = 0
    adjust: Callable[[RunConfig], RunConfig] = lambda config: config

    def recipe(self, title: str, env: str, source: Recipe | None = None, **settings: Any) -> Recipe:
        """A run in ``env``. ``settings`` are other fields of `RunConfig`."""
        shared = {"preset": self.preset, "num_seeds": self.num_seeds, "seed": self.seed}
        config = resolve_config(RunConfig(env=env, **shared, **settings))
        return Recipe(title, resolve_config(self.adjust(config)), source)


def baseline(settings: ReproductionConfig, env: str, method: str) -> Recipe:
    """Forward or reverse MI."""
    return settings.recipe(f"{method} in {env}", env, method=method)


def untrained(settings: ReproductionConfig, env: str) -> Recipe:
    """The paper's random policy: the baselines' architecture with random weights, "trained" with learning rate 0."""
    no_training = PPOConfig(
        iterations=1, rollouts=10, epochs=1, minibatches=1, learning_rate=0.0, last_learning_rate=0.0
    )
    config = METHODS["reverse_mi"].config(ppo=no_training)
    return settings.recipe(f"untrained policy in {env}", env, method="reverse_mi", baseline=config)


def edl(
    settings: ReproductionConfig, env: str, explore: str, learner: LearnConfig | None = None, **changes: Any
) -> Recipe:
    """All three stages. The default ``learner`` is the preset's: walking distance (fast), Sibling Rivalry (paper)."""
    how = "" if learner is None else f", {learner.distance}{' with siblings' if learner.rivalry else ''}"
    return settings.recipe(f"EDL ({explore}{how}) in {env}", env, explore=explore, learner=learner, **changes)


def sibling_rivalry(settings: ReproductionConfig) -> LearnConfig:
    """Euclidean distance with Sibling Rivalry: the paper's learner.

    The ``fast`` preset has half the iterations of the other learners, because an iteration with siblings takes twice as
    many steps.
    """
    if settings.preset == "paper":
        return paper()
    return LearnConfig(reward="shipped", distance="euclidean", rivalry=True, ppo=PPOConfig(gamma=1.0, bootstrap=False))


def euclidean_without_siblings(settings: ReproductionConfig) -> LearnConfig:
    if settings.preset == "paper":
        return paper(rivalry=False, ppo=paper_ppo())
    return LearnConfig(distance="euclidean")


def walking(settings: ReproductionConfig) -> LearnConfig:
    """Walking distance, with our settings in both presets, because the paper has no walking distance."""
    return LearnConfig()


def with_reward(settings: ReproductionConfig, reward: Literal["posterior", "log_likelihood"]) -> LearnConfig:
    """The reward log q(s|z) of the forward form, or q(z|s) of the reverse form.

    Both take the same number of steps: there are no siblings and no early stop.
    """
    ppo = paper_ppo() if settings.preset == "paper" else PPOConfig()
    return LearnConfig(reward=reward, distance="euclidean", rivalry=False, stop_at=2.0, ppo=ppo)
