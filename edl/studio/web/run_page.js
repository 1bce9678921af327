// The page of one run: live while it runs, the interactive panel when it is done.

import { App } from "./app.js";
import { element } from "./elements.js";
import { ask, pathOf } from "./server.js";
import { makeSource, ofSeed } from "./sources.js";
import { View, densityOf } from "./view.js";

const ROLLOUTS = 4;
const RETRY_MILLISECONDS = 2000;
const CURVES = { data_coverage: "Coverage", goal_success: "Rollouts at the goal", return: "Return", rate: "Steps per second" };
const ACTIONS = { pause: ["running", "queued"], stop: ["running", "queued"], resume: ["paused", "stopped", "failed"] };

export async function showRun(root, name) {
  const page = new RunPage(root, name);
  await page.load();
}

class RunPage {
  constructor(root, name) {
    this.name = name;
    this.shown = {};
    this.badge = element("span", { class: "badge" });
    this.about = element("p", { class: "lede" });
    this.problem = element("p", { class: "problem", role: "alert" });
    this.buttons = Object.keys(ACTIONS).map((action) => this.actionButton(action));
    this.report = element("a", { href: pathOf(name, "/files/report"), target: "_blank", rel: "noopener", hidden: "" }, "Report");
    this.facts = element("p", { class: "facts", role: "status" });
    this.bar = element("progress", { max: 1, value: 0, "aria-label": "Progress of the stage" });
    this.canvas = element("canvas", { role: "img", "aria-label": "The maze: what was explored, the goals, and rollouts" });
    this.curves = element("div", { class: "curves" });
    this.live = element("div", { class: "card live" }, this.bar, this.facts,
      element("div", { class: "columns" }, element("div", { class: "frame" }, this.canvas), this.curves));
    this.studio = element("div", { id: "studio", class: "card", hidden: "" });
    root.replaceChildren(element("h1", {}, name), element("div", { class: "live" }, element("div", { class: "row" }, this.badge, ...this.buttons, this.report)),
      this.about, this.problem, this.live, this.studio);
  }

  actionButton(action) {
    const button = element("button", { type: "button", "data-action": action }, action[0].toUpperCase() + action.slice(1));
    button.addEventListener("click", async () => {
      try {
        this.showStatus((await ask(pathOf(this.name, `/${action}`), {})).status);
      } catch (error) {
        this.problem.textContent = String(error.message);
      }
    });
    return button;
  }

  async load() {
    try {
      this.run = await ask(pathOf(this.name));
    } catch (error) {
      this.problem.textContent = String(error.message);
      this.live.hidden = true;
      return;
    }
    const { run } = this, how = run.method === "edl" ? `${run.explore} + ${run.discover}` : run.method;
    this.about.textContent = `${run.num_skills} skills, ${how}${run.region ? `, prior ${run.region}` : ""}`;
    if (run.maze) this.view = new View(this.canvas, { maze: run.maze, colours: [] });
    new ResizeObserver(() => this.view?.fit() && this.drawMaze(this.shown)).observe(this.live);
    await this.showStatus(run.status);
    this.draw({});
    if (run.status !== "done") this.connect();
  }

  connect() {
    const socket = new WebSocket(`ws://${location.host}${pathOf(this.name, "/live")}`);
    socket.addEventListener("message", ({ data }) => this.onMessage(JSON.parse(data)));
    socket.addEventListener("close", () => this.status !== "done" && setTimeout(() => this.connect(), RETRY_MILLISECONDS));
    this.socket = socket;
  }

  async onMessage({ status, live }) {
    await this.showStatus(status);
    if (live) this.draw(live);
    if (status === "done") this.socket.close();
  }

  async showStatus(status) {
    if (status === this.status) return;
    this.status = status;
    this.badge.textContent = this.badge.dataset.status = status;
    for (const button of this.buttons) button.hidden = !ACTIONS[button.dataset.action].includes(status);
    this.report.hidden = status !== "done";
    if (status === "failed") this.problem.textContent = (await ask(pathOf(this.name))).message ?? "";
    else if (status !== "damaged") this.problem.textContent = "";
    if (status === "done") await this.showPanel();
  }

  /** The interactive panel of a run that is done. */
  async showPanel() {
    const { panel } = await ask(pathOf(this.name, "/files/panel"));
    if (!panel) return;
    this.live.hidden = true;
    this.studio.hidden = false;
    window.studio = new App(this.studio, panel);
  }

  draw(live) {
    this.shown = live;
    const { stage, iteration, iterations, rate, metrics } = live;
    this.bar.value = iterations ? iteration / iterations : 0;
    const speed = rate ? ` · ${Math.round(rate).toLocaleString("en")} steps/s` : "";
    const shown = Object.entries(metrics ?? {}).filter(([name]) => name in CURVES).map(([name, value]) => ` · ${CURVES[name]} ${format(name, value)}`);
    const where = iteration ? ` ${iteration} of ${iterations}` : iterations ? ": compiling" : " …";
    if (stage) this.facts.textContent = `${stage}${where}${speed}${shown.join("")}`;
    if (metrics?.data_coverage !== undefined) this.live.dataset.coverage = metrics.data_coverage;
    if (this.view) this.drawMaze(live);
    this.drawCurves(live.history ?? []);
  }

  drawMaze({ density, goals, colours, panel }) {
    const { view } = this;
    view.data = { ...view.data, colours: colours ?? view.data.colours };
    view.begin();
    if (density) {
      const at = densityOf(density);
      view.sources.clear();
      view.drawField("density", (place) => [28, 108, 161, 215 * at(place)]);
    }
    if (panel) {
      const state = { rollouts: ROLLOUTS, noise: true, noiseSeed: 0, start: null, goal: null };
      const source = makeSource(ofSeed(panel, 0));
      if (view.data.colours.length === 0) view.data.colours = panel.colours;
      view.drawTrails(source.groups(state, "all", null), Infinity);
      this.live.dataset.rollouts = source.numSkills * ROLLOUTS;
    }
    view.drawWalls();
    const places = panel?.seeds[0].goals ?? goals;
    if (places) view.drawGoals(places, () => true);
  }

  drawCurves(history) {
    const drawn = Object.entries(CURVES).map(([name, title]) => curve(title, name, history.filter((row) => row[name] != null)));
    this.curves.replaceChildren(...drawn.filter(Boolean));
  }
}

/** A line over time, scaled to its largest value. */
function curve(title, name, rows) {
  if (rows.length < 2) return null;
  const values = rows.map((row) => row[name]), [low, high] = [Math.min(0, ...values), Math.max(...values, 1e-9)];
  const [first, last] = [rows[0].seconds, rows.at(-1).seconds];
  const points = rows.map((row) => `${(100 * (row.seconds - first)) / Math.max(last - first, 1e-9)},${40 - (38 * (row[name] - low)) / (high - low)}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  svg.setAttribute("viewBox", "0 0 100 42");
  svg.setAttribute("preserveAspectRatio", "none");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return element("figure", { "data-curve": name }, element("figcaption", {}, `${title}: ${format(name, values.at(-1))}`), svg);
}

function format(name, value) {
  if (name === "rate") return Math.round(value).toLocaleString("en");
  return name === "return" ? value.toFixed(2) : `${(100 * value).toFixed(1)}%`;
}
