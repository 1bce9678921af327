"""What can be chosen about PPO, and the paper's choice."""

from typing import Any, Literal

import optax

from edl.config import config


@config
class PPOConfig:
    """Defaults are ours, tuned for wall-clock time to quality; `paper` has the paper's."""

    iterations: int = 400
    """Cycles of playing and descending."""
    rollouts: int = 128
    """Skills drawn per iteration; each is played once, or once per sibling."""
    epochs: int = 4
    minibatches: int = 8
    hidden: tuple[int, ...] = (128, 128)
    distribution: Literal["beta", "tanh_gaussian"] = "beta"
    """Of continuous actions; discrete ones always have a categorical."""
    normalise: bool = False
    """Normalise observations by running moments (otherwise by those of the explored states, where there are any)."""
    bootstrap: bool = True
    """At the time limit, bootstrap from V(s_T); off where the reward is terminal and undiscounted."""
    learning_rate: float = 2e-3
    last_learning_rate: float = 2e-4
    """The learning rate falls to this in a straight line."""
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.002
    value_weight: float = 0.5
    max_gradient_norm: float | None = 0.5
    """Longer gradients, of both networks together, are shortened to this; None leaves them as they are."""
    adam_epsilon: float = 1e-5


def paper(**changes: Any) -> PPOConfig:
    """The paper's table: horizon 2500, batches of 250, 4 epochs; Adam's epsilon as in the authors' code."""
    recipe: dict[str, Any] = {
        "iterations": 2500,
        "rollouts": 50,
        "minibatches": 10,
        "learning_rate": 3e-4,
        "last_learning_rate": 3e-4,
        "gae_lambda": 0.98,
        "entropy_weight": 0.01,
        "max_gradient_norm": None,
        "adam_epsilon": 1e-3,
    }
    return PPOConfig(**(recipe | changes))


def falling(config: PPOConfig) -> optax.Schedule:
    """From the first learning rate to the last, over all descents."""
    total = config.iterations * config.epochs * config.minibatches
    return lambda count: config.learning_rate + (config.last_learning_rate - config.learning_rate) * count / total
