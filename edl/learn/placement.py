"""Where goals lie once distance is known: the objective of stage 2, taken up again in walking distance.

Discovery knows states, not ways. A code whose states lie on both sides of a thin wall has its goal between them, and
the nearest explored state to that may be on the wrong side: a room is then left without a goal. `place` asks of the
goals what the VQ-VAE asked of them, but as one walks: that p(s) has little to go to its nearest goal,

    J(g_1 .. g_K) = E_{s ~ p(s)} min_k d(s, g_k),        g_k one of the explored states that q(z|s) assigns to code k.

J is lowered by moving one goal at a time, the one with which most is saved. A goal with which little would be saved
stays at argmax_s q(s|z), where the paper has it: in open rooms nothing moves, and blends of codes still lead to blends
of goals.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillModel
from edl.learn.distance import Distance
from edl.learn.walking import Walking

CANDIDATES = 1024
"""Explored states that stand for p(s), and to which goals may move."""
MOVES = 2
"""Moves at most, per goal; seldom more than a third of the goals move at all."""
WORTHWHILE = 0.2
"""A goal moves if that saves this share of J / K, what falls to one goal. Measured with 10 skills: goals on the wrong
side of the walls of the bottleneck maze's smallest room waste 0.45 to 1.6 of it (22 seeds); in the open square maze,
where no goal should move, not even 0.1 can be saved."""


def place(skills: SkillModel, samples: Float[Array, "n s"], distance: Distance) -> SkillModel:
    """Move goals to where p(s) has less to walk; the same skills, if they are continuous or distance is not walked."""
    if skills.continuous or not isinstance(distance, Walking):
        return skills
    count, total = skills.num_skills, samples.shape[0]
    some = samples[np.linspace(0, total - 1, min(CANDIDATES, total)).astype(int)]
    places = jnp.concatenate([skills.goals, some])
    codes = jnp.concatenate([jnp.arange(count), jax.vmap(skills.assign)(some)])
    aimed = distance.aim(places)
    assert aimed.lefts is not None  # it is aimed
    present = jnp.zeros(distance.known.shape[0]).at[aimed.homes[count:]].add(1.0 / some.shape[0])
    return dataclasses.replace(skills, goals=places[settle(aimed.lefts, codes, present, count)])


def settle(
    ways: Float[Array, "c m"], codes: Int[Array, " c"], present: Float[Array, " m"], count: int
) -> Int[Array, " k"]:
    """The places that goals come to, from the first ``count``, where they are: steepest descent on J.

    ``ways`` lead to each place from every landmark, at which so much of p(s) is (``present``); ``codes`` tell whose
    place it is.
    """

    def mean(way: Float[Array, "*c m"]) -> Float[Array, "*c"]:
        return jnp.sum(jnp.where(present > 0, present * way, 0.0), axis=-1)

    def move(chosen: Int[Array, " k"], _: None) -> tuple[Int[Array, " k"], None]:
        mine = ways[chosen]
        nearest = jnp.arange(count)[:, None] == jnp.argmin(mine, axis=0)
        left, second = jnp.min(mine, axis=0), jnp.min(jnp.where(nearest, jnp.inf, mine), axis=0)
        others = jnp.where(nearest, second, left)  # what is left to go without this goal
        costs = mean(jnp.minimum(ways, others[codes]))
        cost, best = mean(left), jnp.argmin(costs)
        worthwhile = costs[best] < (1.0 - WORTHWHILE / count) * cost
        return chosen.at[codes[best]].set(jnp.where(worthwhile, best, chosen[codes[best]])), None

    chosen, _ = jax.lax.scan(move, jnp.arange(count), length=MOVES * count)
    return chosen
