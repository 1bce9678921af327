// A point that slides along walls: edl/envs/geometry.py in JavaScript.
//
// Python computes in float32. Whether a wall is ahead of a point and reached depends on the last bit, so every result
// here is rounded to float32 as well.

const f = Math.fround;
const CONTACTS = 2;
const SKIN = 1e-4;
const REPULSION = 0.01;
const SKIN_32 = f(SKIN);

/** Walls by the axis that they block, from segments [x0, y0, x1, y1]: first those that block x, then those that block y. */
export function makeWalls(segments) {
  const walls = [[], []];
  for (const [x0, y0, x1, y1] of segments) {
    const axis = x0 === x1 ? 0 : 1;
    const [level, a, b] = axis === 0 ? [x0, y0, y1] : [y0, x0, x1];
    walls[axis].push(f(level), f(Math.min(a, b) - SKIN), f(Math.max(a, b) + SKIN));
  }
  return walls.map((numbers) => Float64Array.from(numbers));
}

/** The distance of the push away from a wall for `u` in [0, 1]. */
export function repulsionOf(u) {
  return f(f(2 * SKIN) + f(f(u) * f(f(REPULSION - SKIN) - f(2 * SKIN))));
}

/**
 * The time in [0, 1] at which the segment (s, t) -> (s + ds, t + dt) first meets a wall that blocks the axis of s, or
 * Infinity. `end` is the end of the segment on the axis of s.
 */
function contactTime(walls, s, t, end, ds, dt) {
  if (ds === 0) return Infinity;
  const inverse = f(1 / ds), sign = ds > 0 ? 1 : -1;
  let first = Infinity;
  for (let i = 0; i < walls.length; i += 3) {
    const level = walls[i];
    const ahead = f(level - s);
    if (ds > 0 ? ahead <= 0 : ahead > 0) continue;
    if (f(level - end) * sign > SKIN_32) continue;
    const time = Math.min(Math.max(f(ahead * inverse), 0), 1);
    const across = f(t + f(time * dt));
    if (walls[i + 1] <= across && across <= walls[i + 2] && time < first) first = time;
  }
  return first;
}

/** Write the position of the point (x, y) after it moves by (dx, dy) to `out`. `repulsions` are two distances. */
export function slide(walls, x, y, dx, dy, repulsions, out) {
  x = f(x);
  y = f(y);
  let targetX = f(x + f(dx)), targetY = f(y + f(dy));
  for (let contact = 0; contact < CONTACTS; contact++) {
    const deltaX = f(targetX - x), deltaY = f(targetY - y);
    const timeX = contactTime(walls[0], x, y, targetX, deltaX, deltaY);
    const timeY = contactTime(walls[1], y, x, targetY, deltaY, deltaX);
    const first = Math.min(timeX, timeY), share = Math.min(first, 1);
    const hitX = timeX === first && first <= 1, hitY = timeY === first && first <= 1;
    const push = repulsions[contact];
    const landingX = f(f(x + f(share * deltaX)) - (hitX ? Math.sign(deltaX) * push : 0));
    const landingY = f(f(y + f(share * deltaY)) - (hitY ? Math.sign(deltaY) * push : 0));
    const wayX = f(landingX - x), wayY = f(landingY - y);
    const safe = contactTime(walls[0], x, y, landingX, wayX, wayY) > 1
      && contactTime(walls[1], y, x, landingY, wayY, wayX) > 1;
    if (safe) {
      x = landingX;
      y = landingY;
    }
    if (hitX) targetX = x;
    if (hitY) targetY = y;
  }
  out[0] = x;
  out[1] = y;
}
