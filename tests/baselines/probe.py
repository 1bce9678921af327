"""A gridworld in which skills are easy to distinguish: 5 x 5 tiles, episodes of nine steps from the centre."""

import dataclasses

import jax
import numpy as np

from edl.envs.gridworld import gridworld
from edl.program import run_program
from edl.rl.ppo import PPOConfig
from edl.rl.sac import SACConfig
from tests.compiling import jit

ENV = gridworld(5, 5, 9)
TINY = PPOConfig(iterations=60, rollouts=64, minibatches=4, hidden=(32,), learning_rate=5e-3, last_learning_rate=1e-3)

TINY_SAC = SACConfig(
    rollouts=16,
    update_every=20,
    capacity=20_000,
    batch_size=64,
    hidden=(32, 32),
    normalise=True,
    learning_rate=3e-3,
    tau=0.02,
)


def learn(build, config):
    """Train with `TINY`, but with the method's own discount. Returns the policy, and metrics as numpy arrays."""
    own = config.ppo
    ppo = dataclasses.replace(TINY, gamma=own.gamma, gae_lambda=own.gae_lambda, bootstrap=own.bootstrap)
    program = build(ENV, dataclasses.replace(config, ppo=ppo))
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    return policy, jax.tree.map(np.asarray, metrics)


def increases(series, by):
    """Whether the mean of the last tenth is larger than that of the first tenth by more than ``by``."""
    tenth = len(series) // 10
    return series[-tenth:].mean() > series[:tenth].mean() + by
