// The interactive part of a page: one panel per run, and the controls that all panels share.

import { element, labelled } from "./elements.js";
import { Panel } from "./panel.js";
import { COUNTS, OVERLAYS, SPEEDS, fromFragment, makeState, roundPlace, toFragment } from "./state.js";

const STEPS_PER_SECOND = 12;
const OVERLAY_NAMES = { none: "none", regions: "region of each code", explored: "explored density", distances: "distance from the cursor" };
const REPLAYED = ["noise", "noiseSeed", "rollouts", "goal", "start"];
const KEYS = [
  ["arrow keys", "move the cross (Shift: faster)"], ["Enter", "go to the cross"], ["S", "start at the cross"],
  ["0 to 9, A", "show a skill, or all"], ["Space", "play or pause"], ["N", "noise"], ["R", "other random numbers"], ["O", "next overlay"],
  ["Escape", "reset"],
];

export class App {
  constructor(root, runs) {
    this.root = root;
    this.reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.panels = [];
    this.state = makeState(runs.length);
    this.panels = runs.map((data, index) => new Panel(this, index, data));
    this.readAddress();
    this.build();
    this.panels.forEach((panel) => panel.attach());
    this.time = 0;
    this.playing = !this.reducedMotion.matches;
    this.isVisible = true;
    this.frame = null;
    this.listen();
    this.replay();
  }

  build() {
    this.buildShared();
    const views = this.panels.map((panel) => {
      const title = this.panels.length > 1 ? element("h2", {}, panel.data.title) : "";
      return element("div", { class: "panel" }, title, panel.stage, panel.controls);
    });
    if (this.panels.length === 1) {
      this.panels[0].controls.append(this.shared);
      this.root.replaceChildren(views[0]);
    } else {
      this.root.replaceChildren(this.shared, element("div", { class: "panels" }, ...views));
    }
  }

  buildShared() {
    const simulated = this.panels.some((panel) => panel.source.simulated);
    this.playButton = element("button", { type: "button", class: "play" });
    this.playButton.addEventListener("click", () => this.togglePlay());
    this.resetButton = element("button", { type: "button" }, "Reset");
    this.resetButton.addEventListener("click", () => this.reset());
    this.speed = this.select("speed", "Speed", SPEEDS.map((value) => [value, `${value}×`]), Number);
    this.rollouts = this.select("rollouts", "Rollouts", COUNTS.map((value) => [value, value]), Number);
    this.overlay = this.select("overlay", "Overlay", this.overlays().map((name) => [name, OVERLAY_NAMES[name]]), String);
    this.noise = element("input", { type: "checkbox" });
    this.noise.addEventListener("change", () => this.change({ noise: this.noise.checked }));
    this.noiseSeed = element("input", { type: "number", min: 0, step: 1 });
    this.noiseSeed.addEventListener("change", () => this.change({ noiseSeed: Math.max(0, Math.floor(Number(this.noiseSeed.value) || 0)) }));
    const random = [labelled("Noise", this.noise), labelled("Noise seed", this.noiseSeed)];
    this.cursorLine = element("p", { class: "hint cursor" });
    this.shared = element("div", { class: "shared" }, element("h3", {}, "Playback"),
      element("div", { class: "row" }, this.playButton, this.resetButton, this.speed.label),
      element("div", { class: "row" }, this.rollouts.label, ...(simulated ? random : [])),
      element("div", { class: "row" }, this.overlay.label), this.cursorLine, this.help());
  }

  /** The overlays for which at least one run has data. */
  overlays() {
    return OVERLAYS.filter((name) => {
      if (name === "regions") return this.panels.some((panel) => panel.source.hasRegions);
      if (name === "explored") return this.panels.some((panel) => panel.density);
      return true;
    });
  }

  select(field, name, options, read) {
    const box = element("select", {}, ...options.map(([value, text]) => element("option", { value }, String(text))));
    box.addEventListener("change", () => this.change({ [field]: read(box.value) }));
    return { box, label: labelled(name, box) };
  }

  help() {
    const rows = KEYS.map(([key, meaning]) => element("li", {}, element("kbd", {}, key), ` ${meaning}`));
    return element("details", {}, element("summary", {}, "Mouse, touch and keyboard"),
      element("p", { class: "hint" }, "Click or tap a place: the run picks a skill for it. Drag the square to start elsewhere. With the keyboard, focus the maze first:"),
      element("ul", { class: "keys" }, ...rows));
  }

  listen() {
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) === toFragment(this.state)) return;
      this.readAddress();
      this.replay();
    });
    // Observers run after the animation frame and before the paint: a canvas that is cleared here must be drawn here.
    new ResizeObserver(() => {
      for (const panel of this.panels) if (panel.view.fit()) panel.draw(this.time);
    }).observe(this.root);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.request());
    new IntersectionObserver((entries) => {
      this.isVisible = entries.some((entry) => entry.isIntersecting);
      this.request();
    }).observe(this.root);
  }

  readAddress() {
    const cursor = this.state.cursor;
    this.state = fromFragment(location.hash, this.panels);
    this.state.cursor = cursor;
  }

  /** Show another training seed of one run. */
  showSeed(index, seed) {
    this.state.seeds = this.state.seeds.map((before, i) => (i === index ? seed : before));
    this.replay();
  }

  /** Change part of the state, and play again if it concerns the rollouts. */
  change(changes) {
    const same = (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && a.every((value, i) => value === b[i]));
    const changed = Object.keys(changes).filter((name) => !same(this.state[name], changes[name]));
    if (changed.length === 0) return;
    Object.assign(this.state, changes);
    if (changed.some((name) => REPLAYED.includes(name))) this.replay();
    else this.update();
  }

  /** Show "all", "blend" or a skill of one run. */
  show(index, show) {
    this.state.shows = this.state.shows.map((before, i) => (i === index ? show : before === "goal" ? "all" : before));
    this.state.goal = null;
    this.replay();
  }

  /** All runs go to a place. */
  goTo(place) {
    if (!this.panels.some((panel) => panel.source.contains(place))) return;
    this.state.goal = place.map(roundPlace);
    this.state.shows = this.state.shows.map(() => "goal");
    this.replay();
  }

  reset() {
    const { cursor } = this.state;
    this.state = { ...fromFragment("", this.panels), cursor };
    this.replay();
  }

  nextOverlay() {
    const names = this.overlays();
    this.change({ overlay: names[(names.indexOf(this.state.overlay) + 1) % names.length] });
  }

  togglePlay() {
    if (!this.playing && this.time >= this.length) this.time = 0;
    this.playing = !this.playing;
    this.last = null;
    this.update();
  }

  /** Simulate again and start from the first step. Without motion, show the whole trails at once. */
  replay() {
    this.panels.forEach((panel) => panel.simulate());
    this.length = Math.max(...this.panels.map((panel) => panel.length));
    this.playing = !this.reducedMotion.matches;
    this.time = this.playing ? 0 : this.length;
    this.last = null;
    this.update();
  }

  /** Bring controls, address and canvas up to date with the state. */
  update() {
    const { state } = this;
    this.speed.box.value = state.speed;
    this.rollouts.box.value = state.rollouts;
    this.overlay.box.value = state.overlay;
    this.noise.checked = state.noise;
    this.noiseSeed.value = state.noiseSeed;
    this.playButton.textContent = this.playing ? "Pause" : "Play";
    this.cursorLine.textContent = this.panels.map((panel) => panel.cursorText()).find(Boolean) ?? "";
    const fragment = toFragment(state);
    if (location.hash.slice(1) !== fragment) history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    this.request();
  }

  request() {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = null;
      this.step(now);
    });
  }

  step(now) {
    if (this.playing && this.isVisible) {
      if (this.last !== null) this.time += ((now - this.last) / 1000) * STEPS_PER_SECOND * this.state.speed;
      this.last = now;
      if (this.time >= this.length) {
        [this.time, this.playing] = [this.length, false];
        this.playButton.textContent = "Play";
      } else {
        this.request();
      }
    } else {
      this.last = null;
    }
    this.panels.forEach((panel) => panel.draw(this.time));
    this.root.dataset.time = this.time.toFixed(2);
  }
}

/** Start the panel of a page: the element `studio`, and the data in the script element `studio-data`. */
export function start() {
  const data = document.getElementById("studio-data");
  if (data) window.studio = new App(document.getElementById("studio"), JSON.parse(data.textContent));
}
