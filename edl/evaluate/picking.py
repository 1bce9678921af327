"""The skill that a run itself picks for a state x, and where it ends: `zero_shot_distance`.

A `PickRule` sees x and what the method learned. It sees neither the scored rollouts nor the map.

* If it picks one of the skills, their scored rollouts are used: the score of x is the mean distance from their ends.
* If it picks a code, such as the goal g = x, that code is played: one episode for each of `NUM_PLAYED` targets.
* Without a rule, the skill is the one whose practice episodes end nearest to x on average, in straight distance.
  Practice episodes are played like the scored ones, with other random numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule
from edl.envs.base import Env
from edl.envs.host import HostEnv
from edl.evaluate.geodesic import euclidean
from edl.evaluate.skill_rollouts import Policy, play_skills
from edl.types import Key

NUM_PLAYED = 1000
"""Number of targets for which a picked code is played."""
NUM_PLAYED_ON_HOST = 200
"""The same in an env outside of JAX, whose steps are expensive."""
PRACTICE_RULE = "the skill whose practice episodes end nearest to x"


def picks_code(rule: PickRule, feature_size: int) -> bool:
    """Whether a rule picks a code, and not one of the skills. The arrays of the rule may be shapes."""
    target = jax.ShapeDtypeStruct((feature_size,), jnp.float32)
    return jax.eval_shape(lambda rule, target: rule(target), rule, target).ndim > 0


def num_played(env: Env) -> int:
    """Number of targets for which a picked code is played in this env."""
    return NUM_PLAYED_ON_HOST if isinstance(env, HostEnv) else NUM_PLAYED


def played_targets(env: Env, targets: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "n s"]:
    """The targets for which a picked code is played, evenly spaced in the list of all targets."""
    count = min(num_played(env), len(targets))
    return targets[np.arange(count) * len(targets) // count]


def play_picked(
    key: Key, env: Env, policy: Policy, rule: PickRule, targets: Float[Array, "n s"]
) -> Float[Array, "n s"]:
    """Play one episode per target, with the code that the rule picks for it. Returns the last states."""
    codes = jax.vmap(rule)(targets)
    episodes = play_skills(key, env, policy, codes, targets, num=1)
    return jax.vmap(lambda episode: episode.last)(jax.tree.map(lambda x: x[:, 0], episodes))


def pick_by_practice(
    last: Float[np.ndarray, "k n s"], targets: Float[np.ndarray, "m s"], unit: Float[np.ndarray, " s"] | float
) -> Int[np.ndarray, " m"]:
    """For each target, the skill whose practice episodes end nearest on average, in straight distance."""
    distances = euclidean(last.reshape(-1, last.shape[-1]) / unit, targets / unit)
    return np.argmin(np.mean(distances.reshape(*last.shape[:2], -1), axis=1), axis=0)
