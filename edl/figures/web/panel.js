// One run on the page: its canvas, its skills, its blend and its status line.

import { element, labelled } from "./elements.js";
import { distance } from "./picking.js";
import { endOf } from "./rollouts.js";
import { makeSource, ofSeed } from "./sources.js";
import { roundPlace } from "./state.js";
import { View, densityOf, rgbOf } from "./view.js";

const NEAR = 1;
const GRAB_RADIUS = 22;
const KEY_STEP = 0.25;
const BAND = 1;
const EXTRAPOLATION = "The policy was trained on the codes of the skills only. A blend of two codes is extrapolation.";
const INTERPOLATION = "The policy was trained on a range of codes. A blend lies between two of them.";

export class Panel {
  /** `app` holds the state that the panels of a page share; `index` is the number of this panel. */
  constructor(app, index, run) {
    this.app = app;
    this.index = index;
    this.run = run;
    this.seeds = run.seeds.map(({ seed }) => seed);
    this.groups = [];
    this.dragging = false;
    this.useSeed(null);
    this.build();
  }

  /** Show what a training seed has learned: its policy, pick rule, goals and exploration. null is the first seed. */
  useSeed(seed) {
    const found = seed ?? this.seeds[0];
    if (found === this.seed) return;
    this.seed = found;
    this.data = ofSeed(this.run, this.seeds.indexOf(found));
    this.source = makeSource(this.data);
    this.density = this.data.explored ? densityOf(this.data.explored) : null;
    this.picture = null;
  }

  get numSkills() {
    return this.source.numSkills;
  }

  build() {
    const label = `${this.data.title}. Click a place, or move the cross with the arrow keys and press Enter.`;
    this.canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": label });
    this.status = element("p", { class: "status", role: "status" });
    this.strip = element("canvas", { class: "strip", hidden: "" });
    this.skills = element("div", { class: "skills", role: "group", "aria-label": "Skills" });
    const names = ["all", ...Array.from({ length: this.source.numSkills }, (_, k) => String(k))];
    for (const name of names) this.skills.append(this.skillButton(name));
    this.blend = this.source.simulated && this.source.numSkills > 1 ? this.buildBlend() : null;
    this.stage = element("div", { class: "stage" }, element("div", { class: "frame" }, this.canvas), this.status, this.strip);
    this.controls = element("div", { class: "own" }, this.run.numSeeds > 1 ? this.buildSeeds() : "",
      element("h3", {}, "Skill"), this.skills, this.blend ?? "");
    this.listen();
  }

  attach() {
    this.view = new View(this.canvas, this.data);
  }

  skillButton(name) {
    const button = element("button", { type: "button", "data-show": name }, name === "all" ? "All" : name);
    if (name !== "all") button.style.setProperty("--skill", this.data.colours[Number(name)]);
    button.addEventListener("click", () => this.app.show(this.index, name));
    return button;
  }

  buildBlend() {
    const options = () => Array.from({ length: this.source.numSkills }, (_, k) => element("option", { value: k }, `skill ${k}`));
    const state = () => this.app.state.blends[this.index];
    this.blendFirst = element("select", { "aria-label": "First skill of the blend" }, ...options());
    this.blendSecond = element("select", { "aria-label": "Second skill of the blend" }, ...options());
    this.blendShare = element("input", { type: "range", min: 0, max: 1, step: 0.05, "aria-label": "Share of the second skill" });
    const change = () => {
      Object.assign(state(), { a: Number(this.blendFirst.value), b: Number(this.blendSecond.value), share: Number(this.blendShare.value) });
      this.app.show(this.index, "blend");
    };
    for (const control of [this.blendFirst, this.blendSecond, this.blendShare]) control.addEventListener("input", change);
    return element("div", { class: "blend" }, element("h3", {}, "Blend two skills"),
      element("div", { class: "row" }, this.blendFirst, this.blendShare, this.blendSecond),
      element("p", { class: "hint" }, this.source.hasRegions ? EXTRAPOLATION : INTERPOLATION));
  }

  /** A choice of training seeds. Not all of them may be in the page. */
  buildSeeds() {
    const { seeds, run: { numSeeds } } = this;
    this.seedBox = element("select", {}, ...seeds.map((seed) => element("option", { value: seed }, String(seed))));
    this.seedBox.addEventListener("change", () => {
      const seed = Number(this.seedBox.value);
      this.app.showSeed(this.index, seed === seeds[0] ? null : seed);
    });
    const note = `This page has ${seeds.length} of the run's ${numSeeds} training seeds, because it must stay below 1 MB.`;
    return element("div", { class: "seeds" }, labelled("Training seed", this.seedBox),
      seeds.length < numSeeds ? element("p", { class: "hint" }, note) : "");
  }

  /** Play what the state shows. */
  simulate() {
    const { state } = this.app, show = state.shows[this.index];
    this.useSeed(state.seeds[this.index]);
    if (this.seedBox) this.seedBox.value = this.seed;
    this.groups = this.source.groups(state, show, state.blends[this.index]);
    this.length = Math.max(...this.groups.flatMap(({ paths }) => paths.map((path) => path.length / 2 - 1)));
    for (const button of this.skills.children) {
      const shown = button.dataset.show === show || (show === "goal" && button.dataset.show === String(this.groups[0].skill));
      button.setAttribute("aria-pressed", String(shown));
    }
    if (this.blend) {
      const { a, b, share } = state.blends[this.index];
      [this.blendFirst.value, this.blendSecond.value, this.blendShare.value] = [a, b, share];
      this.blend.classList.toggle("on", show === "blend");
    }
    this.describe(show);
    this.drawStrip();
  }

  describe(show) {
    const { state } = this.app, { goals, pick } = this.data, [{ skill, paths }] = this.groups;
    const count = `${paths.length} rollout${paths.length === 1 ? "" : "s"}`;
    delete this.status.dataset.distance;
    if (show === "all") {
      this.say(`All ${this.source.numSkills} skills, ${count} each. Click a place: the run picks a skill for it and plays it.`);
    } else if (show === "blend") {
      const { a, b, share } = state.blends[this.index];
      const note = this.source.hasRegions ? ": extrapolation" : "";
      this.say(`A blend of skill ${a} (${percent(1 - share)}) and skill ${b} (${percent(share)})${note}, ${count}.`);
    } else if (show === "goal") {
      const place = `(${state.goal.map((value) => value.toFixed(2)).join(", ")})`;
      const by = this.source.rule ? pick.rule : this.source.simulated ? "the nearest ends of practice rollouts" : "the nearest recorded ends";
      this.say(`${skill === null ? "A code" : `Skill ${skill}`}, picked by ${by} for ${place}. ${this.closeness(paths, state.goal)}`);
    } else {
      this.say(`Skill ${skill}, ${count}. ${goals ? this.closeness(paths, goals[skill]) : ""}`);
    }
  }

  /** How close rollouts end to a place, in words. */
  closeness(paths, place) {
    const { measure, name } = this.source.distanceFrom(place);
    const lengths = paths.map((path) => measure(endOf(path)));
    const mean = lengths.reduce((sum, value) => sum + value, 0) / lengths.length;
    const near = lengths.filter((value) => value <= NEAR).length;
    this.status.dataset.distance = mean;
    if (!Number.isFinite(mean)) return "That place is outside the maze.";
    return paths.length === 1
      ? `The rollout ends ${mean.toFixed(2)} away (${name}).`
      : `The ${paths.length} rollouts end ${mean.toFixed(2)} away on average (${name}); ${near} end within ${NEAR}.`;
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  draw(time) {
    const { view, app: { state } } = this, show = state.shows[this.index];
    view.begin();
    this.drawOverlay(state);
    view.drawTrails(this.groups, time);
    view.drawWalls();
    const shown = new Set(this.groups.map(({ skill }) => skill));
    if (this.data.goals) view.drawGoals(this.data.goals, (skill) => shown.has(skill));
    for (const start of this.startHandles()) view.drawStart(start, state.start !== null);
    if (show === "goal") view.drawTarget(state.goal);
    if (state.cursor) view.drawCursor(state.cursor);
  }

  /** Places of the start handle: the chosen start, or the centres of the start cells. */
  startHandles() {
    if (!this.source.simulated) return [];
    const chosen = this.source.startOf(this.app.state.start);
    return chosen ? [chosen] : this.data.maze.starts;
  }

  drawOverlay({ overlay, cursor, goal, start }) {
    const { source, view } = this;
    if (overlay === "regions" && source.hasRegions) {
      view.drawField(`regions ${this.seed}`, (place) => {
        return source.contains(place) ? [...rgbOf(this.data.colours[source.pick(place).index]), 110] : null;
      });
    } else if (overlay === "explored" && this.density) {
      view.drawField(`explored ${this.seed}`, (place) => [28, 108, 161, 215 * this.density(place)]);
    } else if (overlay === "distances") {
      const centre = [cursor, goal, start, this.startHandles()[0]].find((place) => place && source.contains(place));
      if (centre) this.drawDistances(centre);
    }
  }

  /** Bands of equal walking distance from a place, and dashed circles of equal straight distance. */
  drawDistances(place) {
    const { source, view } = this, { measure } = source.distanceFrom(place);
    const rounded = place.map((value) => value.toFixed(2)).join(",");
    view.drawField(`distances ${rounded}`, (other) => {
      const length = source.contains(other) ? measure(other) : Infinity;
      if (!Number.isFinite(length)) return null;
      const band = Math.floor(length / BAND), tone = Math.min(1, length / 14);
      return [60 + 150 * tone, 130 - 60 * tone, 170 - 90 * tone, band % 2 ? 130 : 70];
    });
    view.drawCircles(place, BAND, 40);
  }

  /** The sentence about the cursor below the distances. */
  cursorText() {
    const { state } = this.app, from = this.groups[0]?.paths[0];
    if (state.overlay !== "distances" || !state.cursor || !from || !this.source.contains(state.cursor)) return "";
    const { measure, name } = this.source.distanceFrom(state.cursor), start = [from[0], from[1]];
    return `From the start to the cursor: ${name} ${measure(start).toFixed(2)}, straight ${distance(start, state.cursor).toFixed(2)}.`;
  }

  listen() {
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return this.view.toWorld(event.clientX - box.left, event.clientY - box.top);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary || event.button !== 0) return;
      this.dragging = this.isOnHandle(place(event));
      if (this.dragging) this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      this.canvas.style.cursor = this.isOnHandle(at) || this.dragging ? "grab" : "crosshair";
      if (this.dragging && this.source.contains(at)) this.app.change({ start: at.map(roundPlace), cursor: null });
      else if (event.pointerType === "mouse") this.app.change({ cursor: this.source.contains(at) ? at : null });
    });
    this.canvas.addEventListener("pointerleave", () => this.dragging || this.app.change({ cursor: null }));
    this.canvas.addEventListener("pointercancel", () => (this.dragging = false));
    this.canvas.addEventListener("click", (event) => {
      const moved = this.dragging;
      this.dragging = false;
      if (!moved) this.app.goTo(place(event));
    });
    // A finger scrolls the page, unless it touches the handle of the start.
    this.canvas.addEventListener("touchstart", (event) => this.isOnHandle(place(event.touches[0])) && event.preventDefault(), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  isOnHandle(place) {
    const reach = GRAB_RADIUS / this.view.scale;
    return this.startHandles().some((start) => distance(start, place) < Math.min(reach, 0.5));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const { app } = this, { state } = app;
    const actions = {
      Enter: () => state.cursor && app.goTo(state.cursor),
      Escape: () => app.reset(),
      " ": () => app.togglePlay(),
      a: () => app.show(this.index, "all"),
      n: () => app.change({ noise: !state.noise }),
      o: () => app.nextOverlay(),
      r: () => app.change({ noiseSeed: state.noiseSeed + 1 }),
      s: () => state.cursor && this.source.simulated && app.change({ start: state.cursor.map(roundPlace) }),
    };
    if (ways[event.key]) this.moveCursor(ways[event.key], event.shiftKey ? 4 : 1);
    else if (/^\d$/.test(event.key) && Number(event.key) < this.source.numSkills) app.show(this.index, event.key);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  moveCursor([dx, dy], factor) {
    const from = this.app.state.cursor ?? this.startHandles()[0] ?? [0, 0];
    const to = [from[0] + factor * KEY_STEP * dx, from[1] + factor * KEY_STEP * dy];
    const { low, high } = this.view.bounds;
    this.app.change({ cursor: to.map((value, i) => Math.min(Math.max(value, low[i]), high[i])) });
  }

  /** Pictures of the robot during one rollout of the skill that is shown. */
  drawStrip() {
    const { strip } = this.data, skill = this.groups[0].skill;
    this.strip.hidden = !strip || this.groups.length !== 1 || skill === null || skill >= strip.rows;
    if (this.strip.hidden) return;
    this.picture ??= Object.assign(new Image(), { src: strip.image });
    const paint = () => {
      const height = this.picture.naturalHeight / strip.rows;
      [this.strip.width, this.strip.height] = [this.picture.naturalWidth, height];
      this.strip.getContext("2d").drawImage(this.picture, 0, skill * height, this.picture.naturalWidth, height, 0, 0, this.strip.width, height);
    };
    if (this.picture.complete && this.picture.naturalWidth) paint();
    else this.picture.addEventListener("load", paint, { once: true });
  }
}

function percent(share) {
  return `${Math.round(100 * share)}%`;
}
