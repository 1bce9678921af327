// The maze editor: walls, starts, blocked cells and the prior, with undo. The text of the maze is the document.

import { element } from "./elements.js";
import { MazeText } from "./maze_text.js";

const MARGIN = 10;
const MAX_UNDO = 200;
export const TOOLS = { wall: "Wall", start: "Start", block: "Blocked cell", prior: "Prior p(s)" };

export class Editor {
  /** `changed()` is called after every change. */
  constructor(changed) {
    this.changed = changed;
    this.canvas = element("canvas", { class: "editor", tabindex: "0", role: "application",
      "aria-label": "Maze. Choose a tool and click. With the keyboard: arrow keys move, Enter applies the tool." });
    this.tool = "wall";
    this.maze = MazeText.blank(5, 5);
    this.prior = new Set();
    this.before = [];
    this.after = [];
    this.caret = [1, 1];
    this.problem = null;
    this.stroke = null;
    this.listen();
  }

  /** Replace the maze, e.g. by the text of a file. */
  open(text, keepPrior = false) {
    this.remember();
    this.maze = new MazeText(text);
    if (!keepPrior) this.prior = new Set();
    this.update();
  }

  remember() {
    this.before.push([this.maze, new Set(this.prior)]);
    if (this.before.length > MAX_UNDO) this.before.shift();
    this.after = [];
  }

  undo() {
    this.restore(this.before, this.after);
  }

  redo() {
    this.restore(this.after, this.before);
  }

  restore(from, to) {
    if (from.length === 0) return;
    to.push([this.maze, new Set(this.prior)]);
    [this.maze, this.prior] = from.pop();
    this.update();
  }

  update() {
    this.draw();
    this.changed();
  }

  /** Show where the text is wrong; rows and columns count from 1. */
  mark(row, column) {
    this.problem = row ? [row - 1, column - 1] : null;
    this.draw();
  }

  /** The place that the tool would change at a point of the canvas: a cell, or the nearest wall. */
  target(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - MARGIN) / this.unit, y = (event.clientY - box.top - MARGIN) / this.unit;
    const [column, row] = [2 * Math.floor(x) + 1, 2 * Math.floor(y) + 1];
    if (this.tool !== "wall") return this.maze.isCell(row, column) ? [row, column] : null;
    const [dx, dy] = [x - Math.round(x), y - Math.round(y)];
    const place = Math.abs(dx) < Math.abs(dy) ? [row, 2 * Math.round(x)] : [2 * Math.round(y), column];
    return place[0] >= 0 && place[1] >= 0 && place[0] < this.maze.rows && place[1] < this.maze.columns ? place : null;
  }

  /** Whether the tool has been applied at a place. */
  isSet([row, column]) {
    if (this.tool === "wall") return this.maze.isWall(row, column);
    if (this.tool === "prior") return this.prior.has(`${row},${column}`);
    return this.maze.get(row, column) === (this.tool === "start" ? "S" : "#");
  }

  /** Apply the tool, or undo what it did, at a place. */
  apply([row, column], on) {
    if (this.tool === "wall") {
      this.maze = this.maze.withWall(row, column, on);
    } else if (this.tool === "prior") {
      this.prior[on && this.maze.isInside(row, column) ? "add" : "delete"](`${row},${column}`);
    } else if (this.tool === "start") {
      this.maze = this.maze.with(row, column, on ? "S" : " ");
    } else {
      this.maze = this.maze.withBlocked(row, column, on);
    }
  }

  listen() {
    this.canvas.addEventListener("pointerdown", (event) => {
      const place = this.target(event);
      if (place === null || event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.remember();
      this.stroke = { on: !this.isSet(place) };
      this.apply(place, this.stroke.on);
      this.update();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const place = this.stroke && this.target(event);
      if (!place || this.isSet(place) === this.stroke.on) return;
      this.apply(place, this.stroke.on);
      this.update();
    });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (this.stroke = null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("focus", () => this.draw());
    this.canvas.addEventListener("blur", () => this.draw());
  }

  onKey(event) {
    const ways = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
      if (event.shiftKey) this.redo();
      else this.undo();
    } else if (ways[event.key]) {
      const [row, column] = ways[event.key], limits = [this.maze.rows - 1, this.maze.columns - 1];
      this.caret = [this.caret[0] + row, this.caret[1] + column].map((value, i) => Math.min(Math.max(value, 0), limits[i]));
      this.draw();
    } else if (event.key === "Enter" || event.key === " ") {
      const isWall = this.caret[0] % 2 !== this.caret[1] % 2, isCell = this.maze.isCell(...this.caret);
      if (this.tool === "wall" ? isWall : isCell) {
        this.remember();
        this.apply(this.caret, !this.isSet(this.caret));
        this.update();
      }
    } else {
      return;
    }
    event.preventDefault();
  }

  draw() {
    const { canvas, maze } = this, [columns, rows] = [(maze.columns - 1) / 2, (maze.rows - 1) / 2];
    const width = Math.max(200, canvas.parentElement?.clientWidth ?? 400), ratio = window.devicePixelRatio || 1;
    this.unit = Math.max(4, Math.min(56, (width - 2 * MARGIN) / Math.max(columns, 1), 620 / Math.max(rows, 1)));
    const size = [columns, rows].map((count) => Math.max(1, count) * this.unit + 2 * MARGIN);
    [canvas.width, canvas.height] = size.map((value) => Math.round(value * ratio));
    [canvas.style.width, canvas.style.height] = size.map((value) => `${value}px`);
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.setTransform(ratio, 0, 0, ratio, MARGIN * ratio, MARGIN * ratio);
    for (let row = 1; row < maze.rows; row += 2) {
      for (let column = 1; column < maze.columns; column += 2) this.drawCell(context, row, column, colour);
    }
    this.drawWalls(context, colour);
    if (this.problem) this.drawMark(context, this.problem, "#c0392b");
    if (document.activeElement === canvas) this.drawMark(context, this.caret, colour("--accent"));
  }

  drawCell(context, row, column, colour) {
    const { unit } = this, [x, y] = [((column - 1) / 2) * unit, ((row - 1) / 2) * unit], character = this.maze.get(row, column);
    context.fillStyle = character === "#" ? colour("--muted") : colour("--floor");
    context.globalAlpha = character === "#" ? 0.35 : 1;
    context.fillRect(x + 0.5, y + 0.5, unit - 1, unit - 1);
    context.globalAlpha = 1;
    if (this.prior.has(`${row},${column}`)) {
      context.fillStyle = colour("--accent");
      context.globalAlpha = 0.45;
      context.fillRect(x + 0.5, y + 0.5, unit - 1, unit - 1);
      context.globalAlpha = 1;
    }
    if (character === "S") {
      context.fillStyle = colour("--ink");
      context.font = `600 ${0.5 * unit}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText("S", x + unit / 2, y + unit / 2);
    }
  }

  drawWalls(context, colour) {
    const { maze, unit } = this;
    context.lineCap = "round";
    for (let row = 0; row < maze.rows; row++) {
      for (let column = 1 - (row % 2); column < maze.columns; column += 2) {
        const [x, y] = [(column / 2) * unit, (row / 2) * unit], isWall = maze.isWall(row, column);
        context.strokeStyle = isWall ? colour("--ink") : colour("--line");
        context.lineWidth = isWall ? Math.max(2, unit / 14) : 1;
        context.beginPath();
        if (row % 2 === 0) context.moveTo(x - unit / 2, y), context.lineTo(x + unit / 2, y);
        else context.moveTo(x, y - unit / 2), context.lineTo(x, y + unit / 2);
        context.stroke();
      }
    }
  }

  drawMark(context, [row, column], colour) {
    context.strokeStyle = colour;
    context.lineWidth = 2.5;
    context.beginPath();
    context.arc((column / 2) * this.unit, (row / 2) * this.unit, Math.max(5, this.unit / 4), 0, 2 * Math.PI);
    context.stroke();
  }
}
