// A maze as text, edited one character at a time: what is not touched keeps its bytes. The format is that of
// edl/envs/layouts: posts at even rows and columns, cells at odd ones, walls between them.

export class MazeText {
  constructor(text) {
    this.text = text;
    this.lines = text.split("\n");
    this.columns = this.lines[0].trimEnd().length;
    this.rows = text.trimEnd().split("\n").length;
  }

  static blank(width, height) {
    const edge = "+-".repeat(width) + "+", open = "+ ".repeat(width) + "+";
    const cells = (first) => `|${Array.from({ length: width }, (_, i) => (first && i === 0 ? "S" : " ")).join(" ")}|`;
    const rows = [edge];
    for (let row = 0; row < height; row++) rows.push(cells(row === height - 1), row === height - 1 ? edge : open);
    return new MazeText(`${rows.join("\n")}\n`);
  }

  get(row, column) {
    return this.lines[row]?.[column] ?? " ";
  }

  /** The maze with one other character. */
  with(row, column, character) {
    if (this.get(row, column) === character && column < (this.lines[row] ?? "").length) return this;
    const lines = [...this.lines], line = lines[row] ?? "", ending = line.endsWith("\r") ? "\r" : "";
    const body = line.slice(0, line.length - ending.length).padEnd(column + 1);
    lines[row] = body.slice(0, column) + character + body.slice(column + 1) + ending;
    return new MazeText(lines.join("\n"));
  }

  isCell(row, column) {
    return row % 2 === 1 && column % 2 === 1 && row < this.rows && column < this.columns;
  }

  isInside(row, column) {
    return this.isCell(row, column) && this.get(row, column) !== "#";
  }

  isWall(row, column) {
    return row % 2 !== column % 2 && this.get(row, column) !== " ";
  }

  /** Put up or take down the wall at a place between two cells. */
  withWall(row, column, up) {
    return this.with(row, column, up ? (row % 2 === 0 ? "-" : "|") : " ");
  }

  /** Take a cell out of the maze, with walls to its neighbours, or put it back. */
  withBlocked(row, column, blocked) {
    let made = this.with(row, column, blocked ? "#" : " ");
    for (const [dr, dc] of [[0, 1], [0, -1], [1, 0], [-1, 0]]) {
      if (this.isInside(row + 2 * dr, column + 2 * dc)) made = made.withWall(row + dr, column + dc, blocked);
      else made = made.withWall(row + dr, column + dc, !blocked);
    }
    return made;
  }

  /** The first start cell in reading order, which is the origin; null if there is none. */
  origin() {
    for (let row = 1; row < this.rows; row += 2) {
      for (let column = 1; column < this.columns; column += 2) if (this.get(row, column) === "S") return [row, column];
    }
    return null;
  }
}

/**
 * The cells of a set as the text of a region: a union of rectangles in the coordinates of the maze. `cells` are keys
 * "row,column". Empty if there are none, or no start.
 */
export function regionOf(maze, cells) {
  const origin = maze.origin();
  const inside = [...cells].map((key) => key.split(",").map(Number)).filter(([row, column]) => maze.isInside(row, column));
  if (origin === null || inside.length === 0) return "";
  const parts = rectangles(inside).map(([top, left, bottom, right]) => {
    const [x0, x1] = [(left - 1 - origin[1]) / 2, (right + 1 - origin[1]) / 2];
    const [y0, y1] = [(origin[0] - bottom - 1) / 2, (origin[0] - top + 1) / 2];
    return `${x0}<=x<${x1} and ${y0}<=y<${y1}`;
  });
  return parts.length === 1 ? parts[0] : parts.map((part) => `(${part})`).join(" or ");
}

/** Rectangles [top, left, bottom, right] that cover the cells: runs in a row, joined with equal runs in the next row. */
function rectangles(cells) {
  const rows = new Map();
  for (const [row, column] of cells) rows.set(row, [...(rows.get(row) ?? []), column]);
  const done = [];
  let open = [];
  for (const row of [...rows.keys()].sort((a, b) => a - b)) {
    const runs = runsOf(rows.get(row).sort((a, b) => a - b)), next = [];
    for (const [left, right] of runs) {
      const above = open.find((each) => each[2] === row - 2 && each[1] === left && each[3] === right);
      if (above) above[2] = row;
      next.push(above ?? [row, left, row, right]);
    }
    done.push(...open.filter((each) => !next.includes(each)));
    open = next;
  }
  return [...done, ...open];
}

function runsOf(columns) {
  const runs = [];
  for (const column of columns) {
    if (runs.length && runs.at(-1)[1] === column - 2) runs.at(-1)[1] = column;
    else runs.push([column, column]);
  }
  return runs;
}
