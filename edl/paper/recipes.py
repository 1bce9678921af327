"""The runs behind the paper's figures. Figures that need the same run share it.

There are two presets: ``paper`` trains with the recipe of the paper and its authors' code, ``fast`` with our settings
of PPO. The subject of a figure (the oracle, the distance, Sibling Rivalry, a start, a prior) is the same in both. Runs
that only we propose (walking distance, `frontier`) have our settings in both presets, because the paper has no recipe
for them.

With siblings, or with a second batch of episodes for a classifier, an iteration of PPO takes twice as many environment
steps. All others therefore have twice the iterations: the baselines and EDL's learners get the same number of steps
within a preset (5.1M in ``fast``, 12.5M in ``paper``). EDL's learners of ``fast`` may stop earlier, once the goals are
reached.
"""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from edl.learn import LearnConfig, paper
from edl.program import NEVER_STOP
from edl.rl.ppo import PPOConfig
from edl.runs.config import RunConfig
from edl.runs.pipeline import run_identity
from edl.runs.resolve import resolve_config

OUR_ENTROPY, AUTHORS_ENTROPY = 0.002, 0.025
"""The weight of the entropy bonus in our settings, and in every config that the authors released."""
FAST_ITERATIONS = 800
"""Iterations of PPO in ``fast``, with one episode per skill drawn: 5.1M environment steps."""


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
        return Recipe(title, resolve_config(self.adjust(self.complete(env, **settings))), source)

    def complete(self, env: str, **settings: Any) -> RunConfig:
        """The config of a run with all settings of the preset."""
        shared = {"preset": self.preset, "num_seeds": self.num_seeds, "seed": self.seed}
        return resolve_config(RunConfig(env=env, **shared, **settings))


def baseline(settings: ReproductionConfig, env: str, method: str, entropy_weight: float | None = None) -> Recipe:
    """Forward or reverse MI; None keeps the preset's entropy weight."""
    config = settings.complete(env, method=method).baseline
    if settings.preset == "fast":  # the recipe of ``paper`` has a second batch
        config = with_ppo(config, iterations=FAST_ITERATIONS)
    if entropy_weight is not None:
        config = with_ppo(config, entropy_weight=entropy_weight)
    return settings.recipe(f"{method} in {env}{_entropy_text(entropy_weight)}", env, method=method, baseline=config)


def untrained(settings: ReproductionConfig, env: str) -> Recipe:
    """The paper's random policy: the baselines' architecture with random weights, "trained" with learning rate 0."""
    no_training = {"iterations": 1, "rollouts": 10, "epochs": 1, "minibatches": 1}
    no_learning = {"learning_rate": 0.0, "last_learning_rate": 0.0}
    config = with_ppo(settings.complete(env, method="reverse_mi").baseline, **no_training, **no_learning)
    return settings.recipe(f"untrained policy in {env}", env, method="reverse_mi", baseline=config)


def edl(settings: ReproductionConfig, env: str, explore: str, learner: LearnConfig, **changes: Any) -> Recipe:
    """All three stages."""
    how = f"{learner.distance}{' with siblings' if learner.rivalry else ''}, reward {learner.reward}"
    return settings.recipe(f"EDL ({explore}, {how}) in {env}", env, explore=explore, learner=learner, **changes)


def ours(settings: ReproductionConfig, env: str, explore: str, **changes: Any) -> Recipe:
    """EDL with walking distance, with our settings in both presets."""
    return edl(settings._replace(preset="fast"), env, explore, LearnConfig(), **changes)


def sibling_rivalry(settings: ReproductionConfig, env: str) -> LearnConfig:
    """The paper's learner: Euclidean distance with Sibling Rivalry."""
    if settings.preset == "paper":
        return paper(env)
    ppo = PPOConfig(iterations=FAST_ITERATIONS // 2, gamma=1.0, bootstrap=False, normalise=False)
    return LearnConfig(reward="shipped", distance="euclidean", rivalry=True, focus=0.0, entropy_boost=0.0, ppo=ppo)


def without_siblings(settings: ReproductionConfig, env: str) -> LearnConfig:
    """Euclidean distance without siblings, for as many environment steps as `sibling_rivalry`.

    Every step has a reward: ``shipped`` in the preset ``paper``, as in the authors' code, and ``progress``,
    which learns faster, in ``fast``.
    """
    if settings.preset == "paper":
        learner = paper(env, rivalry=False)
        return with_ppo(learner, iterations=2 * learner.ppo.iterations)
    ppo = PPOConfig(iterations=FAST_ITERATIONS, normalise=False)
    return LearnConfig(distance="euclidean", focus=0.0, entropy_boost=0.0, ppo=ppo)


def with_reward(settings: ReproductionConfig, env: str, reward: Literal["posterior", "log_likelihood"]) -> LearnConfig:
    """The reward q(z|s) of the reverse form, or log q(s|z) of the forward form without siblings.

    There is no early stop, because it looks at goals, which the reverse form does not have.
    """
    return dataclasses.replace(without_siblings(settings, env), reward=reward, stop_at=NEVER_STOP)


def with_ppo(config: Any, **changes: Any) -> Any:
    """The config of a baseline or of a learner with other settings of PPO."""
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **changes))


def _entropy_text(weight: float | None) -> str:
    return "" if weight is None else f", entropy weight {weight:g}"
