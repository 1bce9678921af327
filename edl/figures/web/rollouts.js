// Episodes of a policy in a maze: edl/envs/maze.py and edl/envs/rollout.py in JavaScript.

import { Random } from "./random.js";
import { repulsionOf, slide } from "./physics.js";

const START_REACH = 0.45;
const ROLLOUT_STREAM = 1;

/**
 * Play `count` rollouts of one code. Returns an array of paths; a path is a Float64Array x0, y0, x1, y1, ...
 *
 * options: `seed` and `stream` choose the random numbers; `noise: false` plays mean actions from the centres of start
 * cells; `start` is a place where all rollouts start, or null.
 */
export function playRollouts({ walls, starts, horizon, maxAction }, policy, code, count, options) {
  const network = policy.forCode(code);
  const action = [0, 0], place = [0, 0], pushes = [0, 0], observation = new Float64Array(2);
  const clip = (value) => Math.min(Math.max(value, -maxAction), maxAction);
  const paths = [];
  for (let n = 0; n < count; n++) {
    const random = new Random(options.seed, ROLLOUT_STREAM, options.stream, n);
    const path = new Float64Array(2 * (horizon + 1));
    [place[0], place[1]] = startOf(starts, n, random, options);
    path[0] = place[0];
    path[1] = place[1];
    for (let t = 1; t <= horizon; t++) {
      observation[0] = place[0];
      observation[1] = place[1];
      const params = network.apply(observation);
      if (options.noise) policy.sample(random, params, action);
      else policy.mode(params, action);
      pushes[0] = repulsionOf(options.noise ? random.uniform() : 0.5);
      pushes[1] = repulsionOf(options.noise ? random.uniform() : 0.5);
      slide(walls, place[0], place[1], clip(action[0]), clip(action[1]), pushes, place);
      path[2 * t] = place[0];
      path[2 * t + 1] = place[1];
    }
    paths.push(path);
  }
  return paths;
}

/** A uniform point in a uniform start cell, the chosen start, or without noise the centre of a start cell. */
function startOf(starts, n, random, { noise, start }) {
  if (start) return start.map(Math.fround);
  if (!noise) return starts[n % starts.length];
  const cell = starts[Math.floor(random.uniform() * starts.length)];
  return cell.map((centre) => Math.fround(centre + START_REACH * (2 * random.uniform() - 1)));
}

/** The last state of a path. */
export function endOf(path) {
  return [path[path.length - 2], path[path.length - 1]];
}
