"""A new baseline: skills that are paid for their distance from the start in their own direction.

A method is an `Objective`: where skills come from (`sample`), and what they are paid (`reward`). PPO trains it, and the
run is evaluated and drawn like all others.
"""

import jax
import jax.numpy as jnp

import edl
from edl import baselines
from edl.config import config
from edl.objective import per_move
from edl.program import Method
from edl.rl.ppo import PPOConfig, ppo


@config
class RaysConfig:
    """Settings of the method; ``num_skills`` is set by the run."""

    num_skills: int = 8
    ppo: PPOConfig = PPOConfig(iterations=60)


def rays(env, settings):
    """One direction per skill, evenly spaced; the code of a skill is its direction."""
    angles = 2 * jnp.pi * jnp.arange(settings.num_skills) / settings.num_skills
    codes = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    def sample(key, state):
        index = jax.random.randint(key, (), 0, settings.num_skills)
        return edl.Skill(code=codes[index], index=index)

    def reward(state, before, after, skill):
        return jnp.dot(after - before, skill.code)

    objective = edl.Objective(
        init=lambda key: (),  # the method learns nothing besides the policy
        sample=sample,
        reward=per_move(reward),
        update=lambda key, state, episodes: (state, {}),
    )
    return ppo(env, objective, settings.ppo, codes=codes)


baselines.METHODS["rays"] = Method(RaysConfig, rays)

run = edl.baseline("rays", "square", num_skills=8)
print(run)
print(run.metrics["proof"]["verdict"])
