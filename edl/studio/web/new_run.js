// The page that draws a maze and starts a run in it.

import { Editor, TOOLS } from "./editor.js";
import { element } from "./elements.js";
import { MazeText, regionOf } from "./maze_text.js";
import { ask } from "./server.js";

const CHECK_MILLISECONDS = 250;
const MAX_FILE = 1000000;

export async function showNewRun(root) {
  const page = new NewRun(await ask("/api/choices"));
  root.replaceChildren(element("h1", {}, "New run"), page.content);
  page.start();
}

class NewRun {
  constructor(choices) {
    this.choices = choices;
    this.editor = new Editor(() => this.onMaze());
    this.text = element("textarea", { spellcheck: "false", "aria-label": "Text of the maze" });
    this.mazeProblem = element("p", { class: "problem", role: "status", id: "maze-problem" });
    this.problem = element("p", { class: "problem", role: "alert", id: "run-problem" });
    this.region = element("p", { class: "hint" });
    this.content = element("div", { class: "columns" }, this.buildMaze(), this.buildForm());
    this.timer = null;
  }

  start() {
    this.editor.open(this.choices.templates.square ?? MazeText.blank(5, 5).text);
    window.addEventListener("resize", () => this.editor.draw());
  }

  buildMaze() {
    const tools = Object.entries(TOOLS).map(([tool, name]) => {
      const button = element("button", { type: "button", "data-tool": tool, "aria-pressed": String(tool === "wall") }, name);
      button.addEventListener("click", () => {
        this.editor.tool = tool;
        for (const other of tools) other.setAttribute("aria-pressed", String(other === button));
      });
      return button;
    });
    const template = element("select", { "aria-label": "Template" }, element("option", { value: "" }, "Template …"),
      ...Object.keys(this.choices.templates).map((name) => element("option", { value: name }, name)),
      ...[4, 6, 8, 12].map((size) => element("option", { value: `blank ${size}` }, `empty ${size} × ${size}`)));
    template.addEventListener("change", () => {
      const [kind, size] = template.value.split(" ");
      if (template.value) this.editor.open(kind === "blank" ? MazeText.blank(Number(size), Number(size)).text : this.choices.templates[kind]);
      template.value = "";
    });
    this.text.addEventListener("input", () => this.editor.open(this.text.value, true));
    return element("div", { class: "card form" }, element("div", { class: "row" }, ...tools),
      element("div", { class: "row" }, this.button("Undo", () => this.editor.undo()), this.button("Redo", () => this.editor.redo()),
        this.button("Clear prior", () => this.clearPrior()), this.openButton(), this.button("Save", () => this.save())),
      template, element("div", {}, this.editor.canvas), this.mazeProblem, this.region,
      element("details", {}, element("summary", {}, "Text"), this.text));
  }

  button(name, action) {
    const made = element("button", { type: "button" }, name);
    made.addEventListener("click", action);
    return made;
  }

  /** Read a maze file. */
  openButton() {
    const input = element("input", { type: "file", accept: ".txt,text/plain", hidden: "", "aria-label": "Maze file" });
    input.addEventListener("change", async () => {
      const [file] = input.files;
      input.value = "";
      if (!file) return;
      if (file.size > MAX_FILE) this.mazeProblem.textContent = `A maze file must have at most ${MAX_FILE} bytes (got ${file.size}).`;
      else this.editor.open(await file.text());
    });
    return element("span", {}, input, this.button("Open file", () => input.click()));
  }

  /** Download the maze, byte for byte as it is. */
  save() {
    const address = URL.createObjectURL(new Blob([this.editor.maze.text], { type: "text/plain" }));
    const link = element("a", { href: address, download: `${this.fields.name.value || "maze"}.txt` });
    link.click();
    URL.revokeObjectURL(address);
  }

  clearPrior() {
    this.editor.remember();
    this.editor.prior.clear();
    this.editor.update();
  }

  /** After a change of the maze: show its text and its region, and let the server check it. */
  onMaze() {
    const { maze, prior } = this.editor;
    if (this.text.value !== maze.text) this.text.value = maze.text;
    const region = regionOf(maze, prior);
    this.region.textContent = region ? `Prior: p(s) is restricted to ${region}` : "Prior: all that is explored. Paint cells with the tool Prior to restrict p(s).";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(maze.text), CHECK_MILLISECONDS);
  }

  async check(text) {
    try {
      const found = await ask("/api/maze", { text });
      if (text !== this.editor.maze.text) return;
      this.mazeProblem.textContent = found.error ?? "";
      this.editor.mark(found.row, found.column);
    } catch (error) {
      this.mazeProblem.textContent = String(error.message);
    }
  }

  buildForm() {
    const { methods, explorers, discoverers, presets } = this.choices;
    const select = (names, first) => element("select", {}, ...(first ? [element("option", { value: "" }, first)] : []), ...names.map((name) => element("option", { value: name }, name)));
    this.fields = {
      name: element("input", { value: `run-${new Date().toISOString().slice(0, 16).replace(/\D/g, "")}`, pattern: "[A-Za-z0-9_][A-Za-z0-9_\\-]{0,63}" }),
      num_skills: element("input", { type: "number", min: 1, max: 200, value: 10 }),
      method: select(methods),
      explore: select(explorers, "default"),
      discover: select(discoverers, "default"),
      preset: select(presets),
      num_seeds: element("input", { type: "number", min: 1, max: 20, value: 1 }),
      seed: element("input", { type: "number", min: 0, value: 0 }),
    };
    const names = { name: "Name", num_skills: "Skills", method: "Method", explore: "Explorer", discover: "Discoverer", preset: "Preset", num_seeds: "Seeds", seed: "First seed" };
    const labels = Object.fromEntries(Object.entries(this.fields).map(([key, field]) => [key, element("label", {}, names[key], field)]));
    this.more = element("textarea", { "aria-label": "More settings" });
    this.more.placeholder = '{"explorer": {"iterations": 50}}';
    this.run = this.button("Run", () => this.submit());
    this.run.classList.add("go");
    const pairs = [["num_skills", "method"], ["explore", "discover"], ["num_seeds", "seed"], ["preset"]];
    return element("div", { class: "card form" }, element("h2", {}, "Settings"), labels.name,
      ...pairs.map((pair) => element("div", { class: "pair" }, ...pair.map((key) => labels[key]))),
      element("details", {}, element("summary", {}, "More settings, as in config.json"), this.more),
      element("div", { class: "row" }, this.run), this.problem);
  }

  async submit() {
    this.problem.textContent = "";
    this.run.disabled = true;
    try {
      const { name } = await ask("/api/runs", this.settings());
      location.href = `/run/${encodeURIComponent(name)}`;
    } catch (error) {
      this.problem.textContent = String(error.message);
      this.run.disabled = false;
    }
  }

  settings() {
    const { fields, editor } = this, number = (field) => Number(field.value);
    const settings = { ...parseObject(this.more.value), name: fields.name.value, maze: editor.maze.text, method: fields.method.value, preset: fields.preset.value };
    Object.assign(settings, { num_skills: number(fields.num_skills), num_seeds: number(fields.num_seeds), seed: number(fields.seed) });
    if (settings.method !== "edl") return settings;
    const region = regionOf(editor.maze, editor.prior);
    return { ...settings, explore: fields.explore.value, discover: fields.discover.value, ...(region ? { region } : {}) };
  }
}

function parseObject(text) {
  if (!text.trim()) return {};
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`More settings must be JSON (${error.message}).`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("More settings must be a JSON object.");
  return found;
}
