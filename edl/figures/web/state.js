// The state of the page, and its form in the address: a link reproduces the view.

export const OVERLAYS = ["none", "regions", "explored", "distances"];
export const SPEEDS = [0.5, 1, 2, 4];
export const COUNTS = [1, 10, 20, 50, 200];
const DEFAULTS = { noise: true, speed: 1, noiseSeed: 0, rollouts: 20, overlay: "none", goal: null, start: null };

/**
 * The state of a page with `count` runs. `shows[i]` is what run i shows: "all", "goal", "blend" or the number of a skill.
 * `seeds[i]` is the training seed of run i, or null for its first. `noiseSeed` chooses the random numbers of rollouts.
 */
export function makeState(count) {
  const blends = Array.from({ length: count }, () => ({ a: 0, b: 1, share: 0.5 }));
  return { ...DEFAULTS, shows: Array(count).fill("all"), seeds: Array(count).fill(null), blends, cursor: null };
}

/** The fragment of the address. Values that are the default are left out. */
export function toFragment(state) {
  const words = new URLSearchParams();
  const point = ([x, y]) => `${x.toFixed(3)},${y.toFixed(3)}`;
  state.shows.forEach((show, i) => {
    if (show !== "all") words.set(`show${i || ""}`, show);
    const { a, b, share } = state.blends[i];
    if (show === "blend") words.set(`blend${i || ""}`, `${a},${b},${share}`);
    if (state.seeds[i] !== null) words.set(`seed${i || ""}`, state.seeds[i]);
  });
  for (const name of ["goal", "start"]) if (state[name]) words.set(name, point(state[name]));
  for (const name of ["speed", "rollouts", "overlay"]) {
    if (state[name] !== DEFAULTS[name]) words.set(name, state[name]);
  }
  if (!state.noise) words.set("noise", "off");
  if (state.noiseSeed !== DEFAULTS.noiseSeed) words.set("noise_seed", state.noiseSeed);
  return words.toString().replaceAll("%2C", ",");
}

/**
 * Read the fragment of an address. What does not fit is ignored, because anyone can write an address.
 * `runs[i]` is {numSkills, seeds} of run i.
 */
export function fromFragment(text, runs) {
  const words = new URLSearchParams(text.replace(/^#/, ""));
  const state = makeState(runs.length);
  state.noise = words.get("noise") !== "off";
  state.goal = readNumbers(words.get("goal"), 2);
  state.start = readNumbers(words.get("start"), 2);
  state.speed = oneOf(Number(words.get("speed")), SPEEDS, DEFAULTS.speed);
  state.rollouts = oneOf(Number(words.get("rollouts")), COUNTS, DEFAULTS.rollouts);
  state.overlay = oneOf(words.get("overlay"), OVERLAYS, DEFAULTS.overlay);
  const noiseSeed = Number(words.get("noise_seed"));
  if (Number.isInteger(noiseSeed) && noiseSeed >= 0 && noiseSeed < 2 ** 31) state.noiseSeed = noiseSeed;
  runs.forEach(({ numSkills, seeds }, i) => {
    const isSkill = (k) => Number.isInteger(k) && k >= 0 && k < numSkills;
    const blend = readNumbers(words.get(`blend${i || ""}`), 3);
    const hasBlend = blend !== null && isSkill(blend[0]) && isSkill(blend[1]) && blend[2] >= 0 && blend[2] <= 1;
    if (hasBlend) [state.blends[i].a, state.blends[i].b, state.blends[i].share] = blend;
    if (numSkills < 2) state.blends[i].b = 0;
    state.seeds[i] = oneOf(Number(words.get(`seed${i || ""}`) ?? NaN), seeds.slice(1), null);
    state.shows[i] = readShow(words.get(`show${i || ""}`), state.goal, isSkill);
  });
  return state;
}

/** Coordinates have three digits, as in the address, so that a link reproduces the view exactly. */
export function roundPlace(value) {
  return Math.round(value * 1000) / 1000;
}

function readShow(word, goal, isSkill) {
  if (word === "blend" || (word === "goal" && goal !== null)) return word;
  return word !== null && /^\d+$/.test(word) && isSkill(Number(word)) ? word : "all";
}

function readNumbers(text, count) {
  const numbers = (text ?? "").split(",").map(Number);
  return text && numbers.length === count && numbers.every((x) => Number.isFinite(x) && Math.abs(x) < 1e6) ? numbers : null;
}

function oneOf(value, values, otherwise) {
  return values.includes(value) ? value : otherwise;
}
