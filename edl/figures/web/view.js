// Drawing on a canvas: the maze, overlays, trails and markers. World coordinates have y upwards.

import { decodeArray } from "./arrays.js";

const MARGIN = 14;
const MAX_SAMPLES = 6000;
const TAU = 2 * Math.PI;

export class View {
  constructor(canvas, data) {
    this.canvas = canvas;
    this.data = data;
    this.bounds = boundsOf(data);
    this.sources = new Map();
    this.fit();
  }

  /** Fit the canvas to its width on the page. Returns whether its size changed, which clears it. */
  fit() {
    const { low, high } = this.bounds;
    const width = Math.max(160, this.canvas.parentElement.clientWidth);
    const [w, h] = [high[0] - low[0], high[1] - low[1]];
    const tallest = Math.max(240, 0.8 * window.innerHeight);
    const scale = Math.min((width - 2 * MARGIN) / w, (tallest - 2 * MARGIN) / h);
    const ratio = window.devicePixelRatio || 1;
    if (scale === this.scale && ratio === this.ratio) return false;
    const size = [w * scale + 2 * MARGIN, h * scale + 2 * MARGIN];
    this.canvas.width = Math.round(size[0] * ratio);
    this.canvas.height = Math.round(size[1] * ratio);
    this.canvas.style.width = `${size[0]}px`;
    this.canvas.style.height = `${size[1]}px`;
    this.context = this.canvas.getContext("2d");
    [this.scale, this.ratio] = [scale, ratio];
    return true;
  }

  toScreen(x, y) {
    return [MARGIN + (x - this.bounds.low[0]) * this.scale, MARGIN + (this.bounds.high[1] - y) * this.scale];
  }

  toWorld(screenX, screenY) {
    return [this.bounds.low[0] + (screenX - MARGIN) / this.scale, this.bounds.high[1] - (screenY - MARGIN) / this.scale];
  }

  /** Begin a frame: clear it, and read the colours of the page, which depend on the colour scheme. */
  begin() {
    const style = getComputedStyle(this.canvas);
    this.ink = style.getPropertyValue("--ink").trim();
    this.muted = style.getPropertyValue("--muted").trim();
    this.floor = style.getPropertyValue("--floor").trim();
    this.card = style.getPropertyValue("--card").trim();
    this.dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawFloor();
  }

  /** A colour of the palette. Dark ones are lightened on a dark page. */
  colour(index) {
    const colour = this.data.colours[index];
    return this.dark ? `color-mix(in oklab, ${colour} 72%, white)` : colour;
  }

  drawFloor() {
    const { context, data, scale } = this;
    context.fillStyle = this.floor;
    if (!data.maze) return;
    for (const [x, y] of data.maze.cells) {
      const [left, top] = this.toScreen(x - 0.5, y + 0.5);
      context.fillRect(left - 0.5, top - 0.5, scale + 1, scale + 1);
    }
  }

  drawWalls() {
    const { context, data } = this;
    if (!data.maze) return this.drawGrid();
    context.strokeStyle = this.ink;
    context.lineWidth = Math.max(1.5, Math.min(3, this.scale / 16));
    context.lineCap = "round";
    context.beginPath();
    for (const [x0, y0, x1, y1] of data.maze.walls) {
      context.moveTo(...this.toScreen(x0, y0));
      context.lineTo(...this.toScreen(x1, y1));
    }
    context.stroke();
  }

  /** Lines at round coordinates, for an env without walls. */
  drawGrid() {
    const { context } = this, { low, high } = this.bounds;
    const step = 10 ** Math.floor(Math.log10(high[0] - low[0])) / 2;
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    for (let axis = 0; axis < 2; axis++) {
      for (let value = Math.ceil(low[axis] / step) * step; value <= high[axis]; value += step) {
        const [from, to] = axis === 0 ? [[value, low[1]], [value, high[1]]] : [[low[0], value], [high[0], value]];
        context.strokeStyle = this.floor;
        context.beginPath();
        context.moveTo(...this.toScreen(...from));
        context.lineTo(...this.toScreen(...to));
        context.stroke();
        context.fillStyle = this.muted;
        const [x, y] = this.toScreen(...from);
        context.fillText(String(Number(value.toPrecision(3))), x + 2, y - 3);
      }
    }
  }

  /** Trails up to `time` steps. */
  drawTrails(groups, time) {
    const { context } = this;
    context.lineJoin = "round";
    for (const { skill, paths } of groups) {
      const colour = skill === null ? this.ink : this.colour(skill);
      context.strokeStyle = context.fillStyle = colour;
      context.lineWidth = 1.4;
      context.globalAlpha = Math.max(0.16, Math.min(0.75, 6 / paths.length));
      for (const path of paths) this.strokePath(path, time);
      context.globalAlpha = 0.95;
      for (const path of paths) this.dot(...placeAt(path, time), 2.6);
      context.globalAlpha = 1;
    }
  }

  strokePath(path, time) {
    const { context } = this, last = Math.min(Math.floor(time), path.length / 2 - 1);
    context.beginPath();
    context.moveTo(...this.toScreen(path[0], path[1]));
    for (let t = 1; t <= last; t++) context.lineTo(...this.toScreen(path[2 * t], path[2 * t + 1]));
    context.lineTo(...this.toScreen(...placeAt(path, time)));
    context.stroke();
  }

  dot(x, y, radius) {
    this.context.beginPath();
    this.context.arc(...this.toScreen(x, y), radius, 0, TAU);
    this.context.fill();
  }

  /** Numbered goals of the skills; those that are not shown are faint. */
  drawGoals(goals, isShown) {
    const { context } = this;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    goals.forEach(([x, y], skill) => {
      const [left, top] = this.toScreen(x, y);
      context.globalAlpha = isShown(skill) ? 1 : 0.4;
      context.beginPath();
      context.arc(left, top, 10, 0, TAU);
      context.fillStyle = this.card;
      context.fill();
      context.strokeStyle = this.colour(skill);
      context.lineWidth = 2.5;
      context.stroke();
      context.fillStyle = this.ink;
      context.fillText(String(skill), left, top + 0.5);
    });
    context.globalAlpha = 1;
    context.textAlign = "start";
    context.textBaseline = "alphabetic";
  }

  /** The handle of the start: a square that can be dragged. */
  drawStart([x, y], isChosen) {
    const { context } = this, [left, top] = this.toScreen(x, y);
    context.fillStyle = isChosen ? this.ink : this.card;
    context.strokeStyle = this.ink;
    context.lineWidth = 2;
    context.beginPath();
    context.rect(left - 6, top - 6, 12, 12);
    context.fill();
    context.stroke();
  }

  /** The clicked place: a cross in a circle of radius 1. */
  drawTarget([x, y]) {
    const { context } = this, [left, top] = this.toScreen(x, y);
    context.strokeStyle = this.ink;
    context.lineWidth = 2.5;
    context.beginPath();
    context.moveTo(left - 7, top - 7);
    context.lineTo(left + 7, top + 7);
    context.moveTo(left + 7, top - 7);
    context.lineTo(left - 7, top + 7);
    context.stroke();
  }

  drawCursor([x, y]) {
    const { context } = this, [left, top] = this.toScreen(x, y);
    context.strokeStyle = this.muted;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(left - 9, top);
    context.lineTo(left + 9, top);
    context.moveTo(left, top - 9);
    context.lineTo(left, top + 9);
    context.stroke();
  }

  /** A colour for every place inside the maze. `colourOf(place)` returns [r, g, b, a] or null. */
  drawField(key, colourOf) {
    if (!this.sources.has(key)) {
      // Only the last field with the same name is kept.
      const name = key.split(" ")[0];
      for (const other of this.sources.keys()) if (other.split(" ")[0] === name) this.sources.delete(other);
      this.sources.set(key, this.fieldImage(colourOf));
    }
    const { low, high } = this.bounds, { context } = this;
    const [left, top] = this.toScreen(low[0], high[1]);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.sources.get(key), left, top, (high[0] - low[0]) * this.scale, (high[1] - low[1]) * this.scale);
  }

  fieldImage(colourOf) {
    const { low, high } = this.bounds, [w, h] = [high[0] - low[0], high[1] - low[1]];
    const perUnit = this.data.maze ? Math.max(1, Math.min(16, Math.floor(Math.sqrt(MAX_SAMPLES / (w * h))))) : 80 / Math.max(w, h);
    const [columns, rows] = [Math.max(1, Math.round(w * perUnit)), Math.max(1, Math.round(h * perUnit))];
    const image = document.createElement("canvas");
    [image.width, image.height] = [columns, rows];
    const pixels = new ImageData(columns, rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const place = [low[0] + ((column + 0.5) * w) / columns, high[1] - ((row + 0.5) * h) / rows];
        const colour = colourOf(place);
        if (colour !== null) pixels.data.set(colour, 4 * (row * columns + column));
      }
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
    return image;
  }

  /** Dashed circles of equal straight distance around a place. */
  drawCircles([x, y], step, count) {
    const { context } = this, [left, top] = this.toScreen(x, y);
    context.save();
    this.clipToCells();
    context.strokeStyle = this.ink;
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.setLineDash([5, 5]);
    for (let i = 1; i <= count; i++) {
      context.beginPath();
      context.arc(left, top, i * step * this.scale, 0, TAU);
      context.stroke();
    }
    context.restore();
  }

  clipToCells() {
    const { context } = this;
    if (!this.data.maze) return;
    context.beginPath();
    for (const [x, y] of this.data.maze.cells) {
      const [left, top] = this.toScreen(x - 0.5, y + 0.5);
      context.rect(left, top, this.scale, this.scale);
    }
    context.clip();
  }
}

/** The place on a path after `time` steps, between two states if the time is between two steps. */
export function placeAt(path, time) {
  const last = path.length / 2 - 1, t = Math.min(Math.floor(time), last), share = Math.min(time, last) - t;
  const next = Math.min(t + 1, last);
  return [0, 1].map((i) => (1 - share) * path[2 * t + i] + share * path[2 * next + i]);
}

function boundsOf(data) {
  if (!data.maze) return { low: data.bounds[0], high: data.bounds[1] };
  const xs = data.maze.cells.map((cell) => cell[0]), ys = data.maze.cells.map((cell) => cell[1]);
  const [low, high] = [[xs, ys].map((values) => values.reduce((a, b) => Math.min(a, b)) - 0.5), [xs, ys].map((values) => values.reduce((a, b) => Math.max(a, b)) + 0.5)];
  return { low, high };
}

/** The explored density as a function of place: counts relative to the largest one, on a log scale; 0 where nothing is. */
export function densityOf({ low, side, counts }) {
  const numbers = decodeArray(counts), [columns, rows] = counts.shape;
  return ([x, y]) => {
    const i = Math.floor((x - low[0]) / side), j = Math.floor((y - low[1]) / side);
    return i >= 0 && j >= 0 && i < columns && j < rows ? numbers[i * rows + j] / 255 : 0;
  };
}

/** [r, g, b] of "#rrggbb". */
export function rgbOf(colour) {
  return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
}
