"""What PPO and SAC are tested with alike: an objective without anything to learn, and a training loop."""

import jax
import jax.numpy as jnp

from edl.envs.rollout import Skill
from edl.objective import Objective, per_visit
from edl.program import keys_of
from tests.probes.envs import PROBES

CODES = jnp.array([[1.0, 0.0], [0.0, 1.0]])
CHAINS = [name for name in PROBES if name != "policy"]


def objective_of(reward, **changes):
    """Pays ``reward(s)`` for any of two skills."""

    def sample(key, state):
        index = jax.random.randint(key, (), 0, 2)
        return Skill(CODES[index], index)

    return Objective(
        init=lambda key: None,
        sample=sample,
        reward=per_visit(lambda state, s, skill: reward(s)),
        update=lambda key, state, episodes: (state, {"episodes": jnp.float32(episodes.valid.shape[0])}),
    )._replace(**changes)


def trained(learner, env, objective, config, key):
    """The last state, the policy and the metrics of ``learner``: `ppo` or `sac`."""
    program = learner(env, objective, config, codes=CODES)
    first, rest = keys_of(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(first), rest)
    return state, program.finish(state), metrics
