"""Shared by the tests of PPO and SAC: objectives that learn nothing, and a training loop."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edl.envs.rollout import Skill
from edl.objective import Objective, per_visit
from edl.program import program_keys
from tests.probes.envs import PROBES

CODES = jnp.array([[1.0, 0.0], [0.0, 1.0]])
CHAINS = [name for name in PROBES if name != "policy"]


def objective_of(reward, **changes):
    """An objective with reward ``reward(s)`` and two skills."""

    def sample(key, state):
        index = jax.random.randint(key, (), 0, 2)
        return Skill(CODES[index], index)

    return Objective(
        init=lambda key: None,
        sample=sample,
        reward=per_visit(lambda state, s, skill: reward(s)),
        update=lambda key, state, episodes: (state, {"episodes": jnp.float32(episodes.valid.shape[0])}),
    )._replace(**changes)


class BatchState(NamedTuple):
    """The state of `nearest_neighbour_objective`. ``states`` is None except between before_rewards and update."""

    states: Any = None


def nearest_neighbour_objective():
    """The reward of a step is the distance from the state it reaches to the nearest other state of the batch.

    ``update`` reports the states that the episodes reached as a metric, so that a test can compute the rewards.
    """

    def before_rewards(state, episodes):
        reached = episodes.features[:, 1:]
        return BatchState(reached.reshape(-1, reached.shape[-1]))

    def reward(state, episode):
        distances = jnp.linalg.norm(episode.features[1:, None] - state.states, axis=-1)
        return jnp.sort(distances, axis=1)[:, 1]  # the nearest state is the state itself

    def update(key, state, episodes):
        return BatchState(), {"reached": state.states}

    return objective_of(None)._replace(
        init=lambda key: BatchState(), reward=reward, update=update, before_rewards=before_rewards
    )


def nearest_neighbour_return(reached, rollouts):
    """The mean return over ``rollouts`` episodes that reached these states, computed with numpy."""
    reached = np.asarray(reached, np.float64)
    distances = np.linalg.norm(reached[:, None] - reached, axis=-1) + 1e9 * np.eye(len(reached))
    return distances.min(axis=1).sum() / rollouts


def trained(learner, env, objective, config, key):
    """The last state, the policy and the metrics of ``learner``, which is `ppo` or `sac`."""
    program = learner(env, objective, config, codes=CODES)
    init_key, step_keys = program_keys(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(init_key), step_keys)
    return state, program.finish(state), metrics
