// Walking distance in a maze: edl/evaluate/geodesic.py in JavaScript, for distances from one point.
//
// A shortest path bends only at posts with an open angle of more than 180 degrees. These posts are the nodes of a
// visibility graph.

const MARGIN = 1e-6;
const TOUCH = 1e-9;
const [EAST, NORTH, WEST, SOUTH] = [0, 1, 2, 3];
const MAX_NODES = 700;

export class Walking {
  /** `segments` are walls [x0, y0, x1, y1] and `cells` are centres [x, y]. */
  constructor(segments, cells) {
    this.buildLattice(segments, cells);
    this.nodes = this.findNodes();
    this.edges = null;
  }

  /** Whether distances can be computed without a long wait. */
  get available() {
    return this.nodes.length <= MAX_NODES;
  }

  buildLattice(segments, cells) {
    const xs = cells.map((cell) => cell[0]), ys = cells.map((cell) => cell[1]);
    for (const [x0, y0, x1, y1] of segments) {
      xs.push(x0 + 0.5, x1 - 0.5);
      ys.push(y0 + 0.5, y1 - 0.5);
    }
    const low = (values) => values.reduce((a, b) => Math.min(a, b), Infinity) - 0.5;
    const high = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity) + 0.5;
    this.origin = [low(xs), low(ys)];
    this.width = Math.round(high(xs) - this.origin[0]);
    this.height = Math.round(high(ys) - this.origin[1]);
    const { width, height } = this;
    this.inside = new Uint8Array(width * height);
    for (const [x, y] of cells) {
      this.inside[Math.round(x - 0.5 - this.origin[0]) * height + Math.round(y - 0.5 - this.origin[1])] = 1;
    }
    // Entry (i, j) of `vertical` is the unit wall from post (i, j) up, of `horizontal` the one to the right.
    this.vertical = new Uint8Array((width + 1) * (height + 1));
    this.horizontal = new Uint8Array((width + 1) * (height + 1));
    for (const [x0, y0, x1, y1] of segments) this.addWall(x0, y0, x1, y1);
  }

  addWall(x0, y0, x1, y1) {
    const [i0, i1] = [x0, x1].map((x) => Math.round(x - this.origin[0])).sort((a, b) => a - b);
    const [j0, j1] = [y0, y1].map((y) => Math.round(y - this.origin[1])).sort((a, b) => a - b);
    for (let j = j0; j < j1; j++) this.vertical[this.post(i0, j)] = 1;
    for (let i = i0; i < i1; i++) this.horizontal[this.post(i, j0)] = 1;
  }

  post(i, j) {
    return i * (this.height + 1) + j;
  }

  /** Whether walls leave post (i, j) to the east, north, west and south. */
  arms(i, j) {
    return [
      this.horizontal[this.post(i, j)],
      this.vertical[this.post(i, j)],
      i > 0 ? this.horizontal[this.post(i - 1, j)] : 0,
      j > 0 ? this.vertical[this.post(i, j - 1)] : 0,
    ];
  }

  /** Posts with one wall, or with two walls at a right angle; `inner` points between the two walls. */
  findNodes() {
    const nodes = [];
    for (let i = 0; i <= this.width; i++) {
      for (let j = 0; j <= this.height; j++) {
        const arms = this.arms(i, j), degree = arms.reduce((a, b) => a + b, 0);
        const inner = [arms[EAST] - arms[WEST], arms[NORTH] - arms[SOUTH]];
        if (degree === 1) nodes.push({ x: i, y: j, inner: [0, 0] });
        else if (degree === 2 && inner[0] !== 0 && inner[1] !== 0) nodes.push({ x: i, y: j, inner });
      }
    }
    return nodes;
  }

  hasPost(i, j) {
    return this.arms(i, j).some(Boolean);
  }

  /** Whether the straight line from a to b touches no wall strictly between its ends. */
  clear(ax, ay, bx, by) {
    return this.clearAlong(0, ax, ay, bx, by) && this.clearAlong(1, ay, ax, by, bx);
  }

  clearAlong(axis, start, other, end, otherEnd) {
    const way = end - start;
    if (way === 0) return true;
    const slope = (otherEnd - other) / way, step = Math.sign(way);
    const walls = axis === 0 ? this.vertical : this.horizontal;
    for (let line = way > 0 ? Math.floor(start) + 1 : Math.ceil(start) - 1; Math.abs(line - start) < Math.abs(way); line += step) {
      const crossing = other + (line - start) * slope, nearest = Math.round(crossing);
      const touches = Math.abs(crossing - nearest) < TOUCH, unit = Math.floor(crossing);
      const at = (k) => (axis === 0 ? this.post(line, k) : this.post(k, line));
      if (touches ? this.hasPost(...(axis === 0 ? [line, nearest] : [nearest, line])) : walls[at(unit)]) return false;
    }
    return true;
  }

  /** Whether (x, y) lies on the open side of a node's corner. */
  approaches(x, y, { x: px, y: py, inner }) {
    return !((x - px) * inner[0] > 0 && (y - py) * inner[1] > 0);
  }

  /** The edges of the visibility graph: for each node a list of [node, length]. Computed once, when first needed. */
  graph() {
    if (this.edges !== null) return this.edges;
    const { nodes } = this;
    this.edges = nodes.map(() => []);
    const connect = (a, b) => {
      const length = Math.hypot(nodes[a].x - nodes[b].x, nodes[a].y - nodes[b].y);
      this.edges[a].push([b, length]);
      this.edges[b].push([a, length]);
    };
    for (let a = 0; a < nodes.length; a++) {
      for (let b = a + 1; b < nodes.length; b++) if (this.seesNode(nodes[a], nodes[b])) connect(a, b);
    }
    this.wallEdges().forEach(([a, b]) => connect(a, b));
    return this.edges;
  }

  seesNode(a, b) {
    return this.clear(a.x, a.y, b.x, b.y) && this.approaches(a.x, a.y, b) && this.approaches(b.x, b.y, a)
      && !this.isUnitWall(a, b);
  }

  isUnitWall(a, b) {
    const arms = this.arms(a.x, a.y), dx = b.x - a.x, dy = b.y - a.y;
    const directions = [[1, 0, EAST], [0, 1, NORTH], [-1, 0, WEST], [0, -1, SOUTH]];
    return directions.some(([x, y, arm]) => dx === x && dy === y && arms[arm]);
  }

  /** Pairs of nodes at the two ends of a wall that has a side with no other walls attached. */
  wallEdges() {
    const number = new Map(this.nodes.map(({ x, y }, index) => [this.post(x, y), index]));
    const pairs = [];
    this.nodes.forEach(({ x, y }, first) => {
      for (const [forward, dx, dy, sides] of [[EAST, 1, 0, [NORTH, SOUTH]], [NORTH, 0, 1, [EAST, WEST]]]) {
        let [i, j] = [x, y], arms = this.arms(i, j);
        let free = sides.map((side) => !arms[side]);
        while (arms[forward]) {
          [i, j] = [i + dx, j + dy];
          arms = this.arms(i, j);
          free = free.map((value, k) => value && !arms[sides[k]]);
        }
        const last = number.get(this.post(i, j));
        if (last !== undefined && last !== first && free.some(Boolean)) pairs.push([first, last]);
      }
    });
    return pairs;
  }

  /** A point in lattice coordinates, moved off the walls; null outside the maze. */
  toLattice([x, y]) {
    const u = x - this.origin[0], v = y - this.origin[1];
    if (!(u >= 0 && v >= 0 && u <= this.width && v <= this.height)) return null;
    const i = Math.min(Math.floor(u), this.width - 1), j = Math.min(Math.floor(v), this.height - 1);
    if (!this.inside[i * this.height + j]) return null;
    const clip = (value, low) => Math.min(Math.max(value, low + MARGIN), low + 1 - MARGIN);
    return [clip(u, i), clip(v, j)];
  }

  contains(point) {
    return this.toLattice(point) !== null;
  }

  /** The function from a point to its walking distance from `source`; Infinity outside the maze. */
  from(source) {
    const a = this.toLattice(source);
    if (a === null) return () => Infinity;
    const reached = this.distancesToNodes(a);
    return (target) => {
      const b = this.toLattice(target);
      if (b === null) return Infinity;
      const straight = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (this.clear(a[0], a[1], b[0], b[1])) return straight;
      let best = Infinity;
      this.nodes.forEach((node, i) => {
        const length = reached[i] + Math.hypot(node.x - b[0], node.y - b[1]);
        if (length < best && this.sees(b, node)) best = length;
      });
      return best;
    };
  }

  sees([x, y], node) {
    return this.approaches(x, y, node) && this.clear(x, y, node.x, node.y);
  }

  /** Dijkstra's algorithm from a point to all nodes. */
  distancesToNodes(a) {
    const edges = this.graph();
    const reached = this.nodes.map((node) => (this.sees(a, node) ? Math.hypot(node.x - a[0], node.y - a[1]) : Infinity));
    const open = new Set(this.nodes.keys());
    while (open.size > 0) {
      let next = -1;
      for (const i of open) if (next < 0 || reached[i] < reached[next]) next = i;
      open.delete(next);
      for (const [i, length] of edges[next]) reached[i] = Math.min(reached[i], reached[next] + length);
    }
    return reached;
  }
}
