"""A chart of the world, drawn from experience alone: landmarks, and which of them one can walk between.

Walls are thin and not observed, and agents rest against both sides of them, so nearness says nothing: any rule that
takes near states for the same state walks through walls. The only evidence used here is moves that happened. A move is
a *chord* from s_t to s_{t+1}:

* two landmarks are joined if a chord passed within ``tolerance`` of both (a walk there has been walked);
* a landmark may be passed *through* only if chords cross it in every direction. Near a wall only chords along the wall
  do, and such a landmark, within ``tolerance`` of both sides, would join them. It can be a destination, not a way.

The second test needs no notion of a wall and no number of dimensions: the scatter matrix of the directions of the
chords through a landmark must have no small eigenvalue.

Lengths are in units of a typical move (see `unit_of`), so nothing here is tuned to the size of a world.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.nets.exact import exact
from edl.nets.in_common import in_common
from edl.types import Scalar

TOLERANCE = 0.15
WIDER = 2.0
"""Chords miss each other more easily in more dimensions: each from the third on widens the tolerance so."""
REACH = 2.0
"""A chord passes through a landmark if it goes on for this many tolerances on both sides."""
ISOTROPY = 0.25
"""Least share of the average eigenvalue that the smallest one must have."""
THROUGH = 4.0
"""Least number of chords through a landmark."""
ALIKE = 5.0
ARRIVAL = 0.4
"""Nearer than this to a landmark, one is there."""
NEW = 64
"""Landmarks added at most per batch of episodes."""
FAILURE = 4.0
"""How many walks along a road one failure to walk it outweighs."""
GROWTH = 1.25
"""When the chart is full, the spacing grows by this factor."""


class Chart(eqx.Module):
    """Landmarks in units of a move; of the rows, the first ``count`` are in use."""

    unit: Float[Array, " s"]
    spacing: Scalar
    landmarks: Float[Array, "m s"]
    count: Int[Array, ""]
    scatter: Float[Array, "m d"]
    traffic: Float[Array, "m m"]

    @property
    def used(self) -> Bool[Array, " m"]:
        """Which rows are landmarks."""
        return jnp.arange(self.landmarks.shape[0]) < self.count

    def passable(self, through_least: float = THROUGH, isotropy: float = ISOTROPY) -> Bool[Array, " m"]:
        """Which landmarks may be passed through: chords cross them in every direction."""
        size = self.landmarks.shape[1]
        scatter = self.scatter.reshape(-1, size, size)
        through = jnp.trace(scatter, axis1=1, axis2=2)
        smallest = smallest_eigenvalue(scatter)
        return self.used & (through >= through_least) & (smallest >= isotropy * through / size)

    def gaps(self, states: Float[Array, "n s"]) -> Float[Array, "n m"]:
        """Squared distances of states (in units) to landmarks; infinite to rows that are not in use."""
        squares = jnp.sum(states**2, 1)[:, None] + jnp.sum(self.landmarks**2, 1) - 2 * exact(states, self.landmarks.T)
        return jnp.where(self.used, squares, jnp.inf)


def unit_of(paths: Float[Array, "e t1 s"]) -> Float[Array, " s"]:
    """The root mean square of moves: the unit of length.

    Dimensions in which moves are about as long (a factor of `ALIKE`) share one unit, so that a corridor does not
    stretch the world across; others have their own. A dimension in which nothing moves keeps its scale.
    """
    size = jnp.sqrt(jnp.mean((paths[:, 1:] - paths[:, :-1]) ** 2, axis=(0, 1)))
    moving = size > 1e-8
    alike = jnp.max(size) <= ALIKE * jnp.min(jnp.where(moving, size, jnp.inf))
    common = jnp.sqrt(jnp.sum(size**2) / jnp.maximum(jnp.sum(moving), 1))
    return jnp.where(moving, jnp.where(alike, common, size), 1.0)


def blank_chart(unit: Float[Array, " s"], landmarks: int, spacing: float | Scalar) -> Chart:
    """A chart with room for so many landmarks, at least ``spacing`` apart."""
    size = unit.shape[0]
    return Chart(
        unit=unit,
        spacing=jnp.asarray(spacing, jnp.float32),
        landmarks=jnp.zeros((landmarks, size)),
        # Behind a barrier, or XLA folds all that follows from an empty chart at compile time, which takes seconds.
        count=jax.lax.optimization_barrier(jnp.int32(0)),
        scatter=jnp.zeros((landmarks, size * size)),
        traffic=jnp.zeros((landmarks, landmarks)),
    )


def extend(chart: Chart, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"]) -> Chart:
    """Take in more episodes: landmarks where there were none, and the evidence of the chords."""
    ends = (paths[:, 1:] / chart.unit).reshape(-1, paths.shape[-1])
    return weigh(add_landmarks(chart, ends, valid.reshape(-1)), paths, valid)


def weigh(chart: Chart, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"]) -> Chart:
    """The evidence of the chords of some episodes: their directions through landmarks, and traffic between them."""
    states = paths / chart.unit
    starts, ends = states[:, :-1].reshape(-1, states.shape[-1]), states[:, 1:].reshape(-1, states.shape[-1])
    valid = valid.reshape(-1)
    passes, through, directions = incidence(chart, starts, ends)
    passes, through = (jnp.where(valid[:, None], x, 0.0) for x in (passes, through))
    outer = jax.vmap(lambda u: jnp.outer(u, u).reshape(-1))(directions)
    return Chart(
        unit=chart.unit,
        spacing=chart.spacing,
        landmarks=chart.landmarks,
        count=chart.count,
        scatter=chart.scatter + exact(through.T, outer),
        traffic=chart.traffic + in_common(passes, chart.count),
    )


def add_landmarks(chart: Chart, states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> Chart:
    """Farthest-point sampling: add the state farthest from all landmarks, while it is farther than the spacing."""
    gap = jnp.where(valid, jnp.min(chart.gaps(states), axis=1), -jnp.inf)

    def add(carry, _):
        landmarks, count, gap = carry
        best = jnp.argmax(gap)
        fits = (gap[best] > chart.spacing**2) & (count < landmarks.shape[0])
        place = jnp.where(fits, count, landmarks.shape[0])
        landmarks = landmarks.at[place].set(states[best], mode="drop")
        closer = jnp.minimum(gap, jnp.sum((states - states[best]) ** 2, axis=1))
        return (landmarks, count + fits, jnp.where(fits, closer, gap)), None

    (landmarks, count, _), _ = jax.lax.scan(add, (chart.landmarks, chart.count, gap), length=NEW)
    return eqx.tree_at(lambda c: (c.landmarks, c.count), chart, (landmarks, count))


def make_room(chart: Chart) -> Chart:
    """If fewer than `NEW` rows are free: let the spacing grow, and drop landmarks nearer than that to another."""
    return jax.lax.cond(chart.count > chart.landmarks.shape[0] - NEW, thin_out, lambda chart: chart, chart)


def thin_out(chart: Chart) -> Chart:
    """Fewer landmarks, farther apart."""
    size = chart.landmarks.shape[0]
    spacing = GROWTH * chart.spacing
    near = chart.gaps(chart.landmarks) < spacing**2

    def keep(kept, row):
        return kept.at[row].set(chart.used[row] & ~jnp.any(kept & near[row])), None

    kept, _ = jax.lax.scan(keep, jnp.zeros(size, bool), jnp.arange(size))
    order = jnp.argsort(~kept, stable=True)
    blank = jnp.where(kept[order], 1.0, 0.0)
    return Chart(
        unit=chart.unit,
        spacing=spacing,
        landmarks=chart.landmarks[order],
        count=jnp.sum(kept),
        scatter=chart.scatter[order] * blank[:, None],
        traffic=chart.traffic[order][:, order] * blank[:, None] * blank,
    )


def incidence(
    chart: Chart, starts: Float[Array, "n s"], ends: Float[Array, "n s"]
) -> tuple[Float[Array, "n m"], Float[Array, "n m"], Float[Array, "n s"]]:
    """1 where a chord passes by a landmark, 1 where it passes through it, and the directions of the chords."""
    moves = ends - starts
    length = jnp.sqrt(jnp.sum(moves**2, axis=1))
    directions = moves / jnp.maximum(length, 1e-6)[:, None]
    along = exact(directions, chart.landmarks.T) - jnp.sum(directions * starts, axis=1)[:, None]
    beyond = along - jnp.clip(along, 0.0, length[:, None])
    tolerance = TOLERANCE * WIDER ** max(starts.shape[1] - 2, 0)
    passes = chart.gaps(starts) - along**2 + beyond**2 <= tolerance**2
    through = passes & (along >= REACH * tolerance) & (along <= length[:, None] - REACH * tolerance)
    return passes.astype(jnp.float32), through.astype(jnp.float32), directions


def smallest_eigenvalue(matrices: Float[Array, "m s s"]) -> Float[Array, " m"]:
    """Of symmetric matrices; in closed form up to two dimensions, which compiles to nothing."""
    if matrices.shape[-1] == 1:
        return matrices[:, 0, 0]
    if matrices.shape[-1] == 2:
        half = 0.5 * (matrices[:, 0, 0] + matrices[:, 1, 1])
        gap = 0.5 * (matrices[:, 0, 0] - matrices[:, 1, 1])
        return half - jnp.sqrt(gap**2 + matrices[:, 0, 1] ** 2)
    return jnp.linalg.eigvalsh(matrices)[:, 0]


def close_roads(chart: Chart, begin: Int[Array, " n"], end: Int[Array, " n"], failed: Bool[Array, " n"]) -> Chart:
    """Evidence against roads that were tried in vain. A road hardly walked is closed; a busy one stays open."""
    cost = jnp.where(failed, FAILURE, 0.0)
    traffic = chart.traffic.at[begin, end].add(-cost).at[end, begin].add(-cost)
    return eqx.tree_at(lambda c: c.traffic, chart, traffic)
