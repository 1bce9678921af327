// Where the trails of a panel come from: the physics and the policy in the page (mazes), or rollouts that the run
// recorded (robots and other envs). Both have the same methods.

import { decodeArray } from "./arrays.js";
import { Policy } from "./networks.js";
import { distance, makeRule, nearestEnds } from "./picking.js";
import { makeWalls } from "./physics.js";
import { endOf, playRollouts } from "./rollouts.js";
import { Walking } from "./walking.js";

const PRACTICE_ROLLOUTS = 20;
const PRACTICE_STREAM = 1000000;
const PICKED_STREAM = 2000000;
const MAX_ROLLOUTS = 400;

/** The data of a run with what one of its training seeds has learned, by the index of the seed. */
export function ofSeed(run, index) {
  return { ...run.seeds[index], ...run };
}

/** `data` is that of one seed. */
export function makeSource(data) {
  return data.kind === "maze" ? new MazeSource(data) : new RecordedSource(data);
}

/** Rollouts that are simulated in the page. */
class MazeSource {
  constructor(data) {
    this.data = data;
    this.simulated = true;
    this.policy = new Policy(data.policy);
    this.rule = makeRule(data.pick);
    this.walking = new Walking(data.maze.walls, data.maze.cells);
    this.world = {
      walls: makeWalls(data.maze.walls),
      starts: data.maze.starts,
      horizon: data.horizon,
      maxAction: data.maxAction,
    };
    this.practice = null;
  }

  get numSkills() {
    return this.policy.codes.length;
  }

  /** Groups {skill, paths} of trails for what the state shows. `skill` is null for a code that is not a skill. */
  groups(state, show, blend) {
    if (show === "all") {
      const count = Math.max(1, Math.min(state.rollouts, Math.floor(MAX_ROLLOUTS / this.numSkills)));
      return this.policy.codes.map((code, skill) => ({ skill, paths: this.play(code, count, state, skill) }));
    }
    if (show === "blend") return [{ skill: null, paths: this.play(this.blended(blend), state.rollouts, state, PICKED_STREAM) }];
    const picked = show === "goal" ? this.pick(state.goal) : { index: Number(show) };
    const code = picked.code ?? this.policy.codes[picked.index];
    return [{ skill: picked.index ?? null, paths: this.play(code, state.rollouts, state, picked.index ?? PICKED_STREAM) }];
  }

  /** Rollouts of one code. Without noise rollouts from the same place are equal, so one per start is enough. */
  play(code, count, { noise, noiseSeed, start }, stream) {
    const chosen = this.startOf(start);
    const different = noise ? count : Math.min(count, chosen ? 1 : this.world.starts.length);
    return playRollouts(this.world, this.policy, code, different, { noise, seed: noiseSeed, start: chosen, stream });
  }

  /** The chosen start, or null if it is not in this maze: another run on the page may have another maze. */
  startOf(start) {
    return start && this.contains(start) ? start : null;
  }

  blended({ a, b, share }) {
    const { codes } = this.policy;
    return codes[a].map((value, i) => (1 - share) * value + share * codes[b][i]);
  }

  /** What the run picks for a place: {index} or {code}. */
  pick(place) {
    return this.rule === null ? nearestEnds(place, this.practiceEnds()) : this.rule(place);
  }

  /** The ends of practice rollouts, for a run that has no rule. */
  practiceEnds() {
    this.practice ??= this.policy.codes.map((code, skill) =>
      playRollouts(this.world, this.policy, code, PRACTICE_ROLLOUTS, { noise: true, seed: 0, start: null, stream: PRACTICE_STREAM + skill }).map(endOf));
    return this.practice;
  }

  /** Whether the rule picks one of the skills everywhere, so that each skill has a region. */
  get hasRegions() {
    return this.pick(this.world.starts[0]).index !== undefined;
  }

  contains(place) {
    return this.walking.contains(place);
  }

  /** The function from an end to its distance from a place, and its name. */
  distanceFrom(place) {
    if (this.walking.available) return { measure: this.walking.from(place), name: "walking distance" };
    return { measure: (end) => distance(place, end), name: "straight distance" };
  }
}

/** Rollouts that the run recorded. */
class RecordedSource {
  constructor(data) {
    this.data = data;
    this.simulated = false;
    this.rule = data.pick === null ? null : makeRule(data.pick);
    this.paths = splitPaths(data.paths);
    this.ends = this.paths.map((paths) => paths.map(endOf));
  }

  get numSkills() {
    return this.paths.length;
  }

  groups(state, show) {
    const chosen = show === "all" ? this.paths.map((_, skill) => skill) : [show === "goal" ? this.pick(state.goal).index : Number(show)];
    return chosen.map((skill) => ({ skill, paths: this.paths[skill].slice(0, state.rollouts) }));
  }

  pick(place) {
    return this.rule === null ? nearestEnds(place, this.ends) : this.rule(place);
  }

  get hasRegions() {
    return true;
  }

  contains() {
    return true;
  }

  distanceFrom(place) {
    return { measure: (end) => distance(place, end), name: "straight distance" };
  }
}

/** Paths of shape (skills, rollouts, states, 2). */
function splitPaths(array) {
  const numbers = decodeArray(array), [skills, rollouts, states] = array.shape;
  const path = (k, n) => numbers.subarray(2 * states * (k * rollouts + n), 2 * states * (k * rollouts + n + 1));
  return Array.from({ length: skills }, (_, k) => Array.from({ length: rollouts }, (_, n) => path(k, n)));
}
