"""The ways along the roads of a chart (`edl.chart`): from a few of its landmarks to all others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.chart import Chart


class Ways(NamedTuple):
    """Ways from a few source landmarks to all others: how many roads, and the landmark before each on the best way."""

    sources: Int[Array, " c"]
    hops: Float[Array, "c m"]
    back: Int[Array, "c m"]

    def source_of(self, chart: Chart, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The source nearest to a state."""
        return jnp.argmin(jnp.sum((chart.landmarks[self.sources] - state / chart.unit) ** 2, axis=1))

    def way(self, source: Int[Array, ""], goal: Int[Array, ""], most: int) -> tuple[Int[Array, " l"], Int[Array, ""]]:
        """Landmarks on the way from the source (in row 0) to the goal, and how many roads it has."""

        def hop(node, _):
            before = self.back[source, node]
            return before, (node, before != node)

        _, (nodes, moving) = jax.lax.scan(hop, goal, length=most)
        length = jnp.sum(moving)
        return nodes[jnp.clip(length - jnp.arange(most), 0)], length


def apart(chart: Chart, states: Float[Array, "e s"], count: int) -> Int[Array, " c"]:
    """The landmarks nearest to ``count`` of the states, chosen far apart from each other."""

    def pick(gap, _):
        best = jnp.argmax(gap)
        return jnp.minimum(gap, jnp.sum((states - states[best]) ** 2, axis=1)), best

    _, chosen = jax.lax.scan(pick, jnp.full(states.shape[0], jnp.inf), length=count)
    return jnp.argmin(chart.gaps(states[chosen] / chart.unit), axis=1)


def ways_from(chart: Chart, sources: Int[Array, " c"]) -> Ways:
    """Breadth-first search.

    Each road takes about one step, so the best way is the one with the fewest roads; of two roads that end such a way,
    the more travelled one is taken. Sources can always be left, whatever lies around them.
    """
    open_ = (chart.traffic >= 1) & chart.used[:, None] & chart.used[None]
    passable = chart.passable().at[sources].set(True)
    roads = (open_ & passable[:, None]).astype(jnp.float32)
    start = jax.nn.one_hot(sources, roads.shape[0])

    def widen(carry):
        reached, hops, depth, _ = carry
        wider = jnp.minimum(reached + reached @ roads, 1.0)
        wider = (wider > 0).astype(jnp.float32)
        hops = jnp.where((wider > 0) & (reached == 0), depth + 1, hops)
        return wider, hops, depth + 1, jnp.any(wider > reached)

    first = (start, jnp.where(start > 0, 0.0, jnp.inf), jnp.float32(0), jnp.bool_(True))
    _, hops, _, _ = jax.lax.while_loop(lambda carry: carry[3], widen, first)

    # The busiest road and where it begins in one number: one maximum, where an argmax would take a CPU thrice as long.
    size = roads.shape[0]
    busy = jnp.clip(chart.traffic, 0, 2**31 // size - 1).astype(jnp.int32) * (roads > 0)
    words = busy * size + jnp.arange(size)[::-1, None]

    def before(hops):
        leads = hops[:, None] + 1 == hops[None, :]
        best = size - 1 - jnp.max(jnp.where(leads, words, size - 1), axis=0) % size
        return jnp.where(jnp.isfinite(hops) & (hops > 0), best, jnp.arange(hops.shape[0]))

    return Ways(sources, hops, jax.vmap(before)(hops))
