"""Landmarks and the roads between them, from moves alone: what walking distance is measured along.

In the plane two moves are connected if and only if they cross, so nothing near is taken for connected through a wall.
In more dimensions moves do not cross, and a `Chart` supplies roads between landmarks with room around them.

Lengths are in typical moves (`edl.chart.unit_of`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl import chart as charts
from edl.chart import Chart
from edl.nets.in_common import in_common
from edl.types import Key, Scalar

BATCH = 50
"""Episodes taken in at a time."""
CANDIDATES = 16384
"""Moves out of which landmarks are chosen."""
SHORTEST, SHARE = 0.25, 0.7
"""A landmark is a piece of a move: this share of the landmarks' spacing to both sides, and at least so much."""


class Survey(NamedTuple):
    """Landmarks, their pieces (zero where moves do not cross), and which are in use; roads; where episodes begin."""

    landmarks: Float[Array, "m s"]
    pieces: Float[Array, "m s"]
    used: Bool[Array, " m"]
    roads: Float[Array, "m m"]
    begins: Bool[Array, " m"]


def survey_by_crossing(
    key: Key, paths: Float[Array, "e t1 2"], valid: Bool[Array, "e t"], count: int, spacing: float | Scalar
) -> Survey:
    """Landmarks are pieces of moves; a move that crosses two of them is a road."""
    starts, ends = paths[:, :-1].reshape(-1, 2), paths[:, 1:].reshape(-1, 2)
    length = jnp.linalg.norm(ends - starts, axis=1) * valid.reshape(-1)
    picks = jax.random.permutation(key, starts.shape[0])[:CANDIDATES]
    middles = 0.5 * (starts + ends)[picks]
    chosen, gaps = spread_out(middles, length[picks] > 2 * SHORTEST, count)
    used = gaps > spacing
    half = jnp.maximum(SHORTEST, SHARE * jnp.min(jnp.where(used, gaps, jnp.inf)))
    rows = picks[chosen]
    landmarks = middles[chosen]
    share = jnp.minimum(0.5, half / jnp.maximum(length[rows], 1e-6))
    pieces = (ends - starts)[rows] * share[:, None]

    def add(traffic: Float[Array, "m m"], batch: tuple) -> tuple[Float[Array, "m m"], None]:
        starts, ends, valid = batch
        passes = crossings(starts, ends, landmarks, pieces) & valid[:, None] & used
        return traffic + in_common(passes.astype(jnp.float32), jnp.sum(used)), None

    size = BATCH * valid.shape[1]
    batches = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), (starts, ends, valid.reshape(-1)))
    traffic, _ = jax.lax.scan(add, jnp.zeros((count, count)), batches)
    straight = jnp.linalg.norm(landmarks[:, None] - landmarks, axis=-1)
    first = crossings(paths[:, 0], paths[:, 1], landmarks, pieces) & valid[:, :1]
    return Survey(landmarks, pieces, used, jnp.where(traffic >= 1, straight, jnp.inf), jnp.any(first, axis=0))


def survey_by_chart(
    key: Key, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"], count: int, spacing: float | Scalar
) -> Survey:
    """Landmarks are states that moves passed through in all directions; a move that passes by two of them is a road."""
    chart = charts.blank_chart(jnp.ones(paths.shape[-1]), count, spacing)
    batches = jax.tree.map(lambda x: x.reshape(-1, BATCH, *x.shape[1:]), (paths, valid))

    def place(chart: Chart, batch: tuple) -> tuple[Chart, None]:
        paths, valid = batch
        ends = paths[:, 1:].reshape(-1, paths.shape[-1])
        return charts.make_room(charts.add_landmarks(chart, ends, valid.reshape(-1))), None

    chart, _ = jax.lax.scan(place, chart, batches)
    chart, _ = jax.lax.scan(lambda chart, batch: (charts.weigh(chart, *batch), None), chart, batches)
    passable = chart.passable()
    lengths = jnp.sqrt(jnp.maximum(chart.gaps(chart.landmarks), 0.0))
    roads = jnp.where((chart.traffic >= 1) & passable[:, None] & passable, lengths, jnp.inf)
    passes, _, _ = charts.incidence(chart, paths[:, 0], paths[:, 1])
    begins = jnp.sum(passes * valid[:, :1], axis=0) > 0
    return Survey(chart.landmarks, jnp.zeros_like(chart.landmarks), passable, roads, begins)


def spread_out(
    points: Float[Array, "n s"], fit: Bool[Array, " n"], count: int
) -> tuple[Int[Array, " m"], Float[Array, " m"]]:
    """Farthest-point sampling of the ``fit`` points: which, and how far each was from those before it."""

    def pick(gap: Float[Array, " n"], _: None) -> tuple[Float[Array, " n"], tuple]:
        best = jnp.argmax(gap)
        closer = jnp.minimum(gap, jnp.sum((points - points[best]) ** 2, axis=1))
        return closer, (best, jnp.sqrt(jnp.maximum(gap[best], 0.0)))

    _, (chosen, gaps) = jax.lax.scan(pick, jnp.where(fit, jnp.inf, -jnp.inf), length=count)
    return chosen, gaps


def crossings(
    starts: Float[Array, "n 2"], ends: Float[Array, "n 2"], middles: Float[Array, "m 2"], pieces: Float[Array, "m 2"]
) -> Bool[Array, "n m"]:
    """Whether move n crosses the piece ``middles[m] -+ pieces[m]``."""
    return crossing_points(starts, ends, middles, pieces) >= 0


def crossing_points(
    starts: Float[Array, "n 2"], ends: Float[Array, "n 2"], middles: Float[Array, "m 2"], pieces: Float[Array, "m 2"]
) -> Float[Array, "n m"]:
    """The share of move n after which it crosses the piece ``middles[m] -+ pieces[m]``, and -1 if it does not.

    It does if the two lines meet inside both.
    """

    def cross(u: tuple[Array, Array], v: tuple[Array, Array]) -> Float[Array, "n m"]:
        return u[0] * v[1] - u[1] * v[0]

    move = (ends - starts)[:, 0, None], (ends - starts)[:, 1, None]
    piece = pieces[:, 0], pieces[:, 1]
    between = middles[:, 0] - starts[:, 0, None], middles[:, 1] - starts[:, 1, None]
    turn = cross(move, piece)
    sign = jnp.sign(turn)
    on_move, on_piece = cross(between, piece) * sign, cross(between, move) * sign
    size = jnp.abs(turn)
    meet = (size > 1e-9) & (on_move >= 0) & (on_move <= size) & (jnp.abs(on_piece) <= size)
    return jnp.where(meet, on_move / jnp.maximum(size, 1e-9), -1.0)


def shortest(roads: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Floyd-Warshall."""
    size = roads.shape[0]

    def relax(k: Int[Array, ""], walks: Float[Array, "m m"]) -> Float[Array, "m m"]:
        return jnp.minimum(walks, walks[:, k, None] + walks[None, k])

    return jax.lax.fori_loop(0, size, relax, jnp.where(jnp.eye(size, dtype=bool), 0.0, roads))
