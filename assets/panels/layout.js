// A tidy left-to-right layout: columns are depths, rows are whole numbers, no two edges cross.
//
// A node's first child lies on its own row, the others below, each subtree as high as the one above it allows
// (the contours of Reingold and Tilford, hung from the top instead of centred). In every column the nodes keep
// the order of their parents, which is why curves of one family between two columns cannot cross. The kept path
// comes first everywhere, so it is a straight line along row 0, and nothing else is on that row.

/** The children of each node, the kept one first, without the `hidden` ones. @param {Int32Array} parents @param {Set<number>} kept @param {Set<number>} hidden */
function childrenOf(parents, kept, hidden) {
  const children = Array.from(parents, () => /** @type {number[]} */ ([]));
  for (let node = 1; node < parents.length; node++) {
    if (kept.has(node)) children[parents[node]].unshift(node);
    else if (!hidden.has(node)) children[parents[node]].push(node);
  }
  return children;
}

/** parents[i] < i. `kept` holds the kept rows; `tail` is the node that carries the bonus, whose row to the
 *  right stays free for it. Gives each node's column and row.
 *  @param {Int32Array} parents @param {Set<number>} kept @param {number} tail
 *  @param {Layout["places"]} [flowing] nodes that leave their columns, and those that a number stands for
 *  @param {number} [longest] run, which is a branch without forks, that may share a line with others below the same node
 *  @param {(runs: number[][]) => RunLine[]} [wrap] puts such runs into lines */
export function layoutOf(parents, kept, tail, flowing = new Map(), longest = 0, wrap = () => []) {
  const size = parents.length;
  const [columns, shift, rows] = [new Int32Array(size), new Float64Array(size), new Float64Array(size).fill(-1)];
  const places = new Map(flowing);
  const hidden = new Set(Array.from(flowing.values()).filter(({ room, unnamed }) => !room && !unnamed.length).map(({ node }) => node));
  const children = childrenOf(parents, kept, hidden);
  for (let node = 1; node < size; node++) columns[node] = columns[parents[node]] + 1;
  const lastColumn = Math.max(...columns);
  const runs = children.map(() => /** @type {number[]} */ ([])); // that begin at the nodes, none if they fork
  const isRun = (/** @type {number} */ node) => runs[node].length > 0 && runs[node].length <= longest;
  const tops = /** @type {number[][]} */ (new Array(size));
  const bottoms = /** @type {number[][]} */ (new Array(size));
  for (let node = size - 1; node >= 0; node--) {
    const top = node === tail ? [0] : [];
    const bottom = [...top];
    // a line or branch starts below those before it: at every depth under the lowest of theirs
    const add = (/** @type {number[]} */ highest, /** @type {number[]} */ lowest) => {
      const down = highest.reduce((start, row, level) => Math.max(start, (bottom[level] ?? -Infinity) - row + 1), 0);
      highest.forEach((row, level) => { top[level] ??= row + down; });
      lowest.forEach((row, level) => { bottom[level] = row + down; });
      return down;
    };
    const below = children[node].filter(isRun);
    children[node] = children[node].filter((child) => !isRun(child));
    for (const child of children[node]) shift[child] = add(tops[child], bottoms[child]);
    for (const { items, reach } of wrap(below.map((child) => runs[child]))) {
      const down = add(new Array(reach + 1).fill(0), new Array(reach + 1).fill(0));
      for (const item of items) {
        shift[item.node] = parents[item.node] === node ? down : 0;
        places.set(item.node, item);
      }
    }
    children[node].push(...below);
    tops[node] = [0, ...top];
    bottoms[node] = [0, ...bottom];
    if (flowing.has(node)) { // it may reach to the right end
      tops[node] = new Array(lastColumn - columns[node] + 1).fill(0);
      bottoms[node] = tops[node].map(() => Math.max(0, ...bottom));
    }
    const [first, second] = children[node];
    if (!kept.has(node) && second === undefined && runs[first]?.length !== 0) runs[node] = [node, ...(runs[first] ?? [])];
  }
  for (const node of hidden) children[parents[node]].push(node); // in its row
  rows[0] = 0;
  for (let node = 0; node < size; node++) for (const child of children[node]) rows[child] = rows[node] + shift[child];
  return { columns, rows, places, children, columnCount: Math.max(lastColumn, columns[tail] + 1) + 1, rowCount: Math.max(...rows) + 1 };
}

/** The node to which a key leads from another one: left to the parent, right to the first child, up and down in its column,
 *  Home to the root, End to the last kept one. null if there is none, undefined for every other key.
 *  @param {Round} round @param {Layout} layout @param {number} node @param {string} key */
export function neighbour(round, { columns, rows, places, children }, node, key) {
  const nextInColumn = (/** @type {number} */ step) => {
    const downTo = (/** @type {number} */ other) => rows[other] + (places.get(other)?.offset ?? 0) / 1e5; // along a line, then to the next
    const below = (/** @type {number} */ other) => (downTo(other) - downTo(node)) * step;
    const others = Array.from(round.tokens.keys()).filter((other) => columns[other] === columns[node] && below(other) > 0);
    return others.sort((one, other) => below(one) - below(other))[0] ?? null;
  };
  switch (key) {
    case "ArrowLeft": return node === 0 ? null : round.parents[node];
    case "ArrowRight": return children[node].find((child) => child < round.n) ?? null;
    case "ArrowUp": return nextInColumn(-1);
    case "ArrowDown": return nextInColumn(1);
    case "Home": return 0;
    case "End": return round.keep[round.keep.length - 1];
    default: return undefined;
  }
}

// Where a tree's columns and rows lie on the screen: a scale per axis and an offset, so that text keeps its size
// at every zoom. Row 0 (the kept path) has a band of its own, in which its labels stand.
export const SIDES = { left: 32, right: 52 };
const TOP = { flat: 40, staggered: 53, slanted: 84 }; // the kept path's labels stand on one line, on two, or aslant
const BOTTOM = 8; // half of a label, which may hang below the last row
const BAND = 16; // pixels from row 0 to row 1 at least
const COLUMN = { min: 8, comfortable: 42, max: 168, maxZoomed: 320 };
const ROW = { min: 0.1, comfortable: 30, max: 84 };
const MAX_SCALE = 1.7;
const MIN_GAP = { kept: 20, comfortable: 31, other: 7 }; // pixels between two columns if other columns need the room

export class Camera {
  constructor(/** @type {Stage} */ stage) {
    this.column = 80;
    this.row = 16;
    this.left = SIDES.left;
    this.top = TOP.flat;
    this.form = /** @type {LabelForm} */ ("flat");
    this.spreads = true; // whether columns share all that they do not need, or leave most of it to lines of runs at the right
    this.stops = [0]; // where columns lie, in mean widths of a column
    this.fitted = 0; // the mean width of a column if the tree fits
    this.held = false; // true once a person has zoomed or panned: then a new round leaves the view alone
    stage.on("run", () => { this.held = false; }); // and a new run does not
  }

  get zoomed() {
    return this.held && this.fitted ? this.column / this.fitted : 1;
  }

  x(/** @type {number} */ column) {
    return this.left + (this.stops[column] ?? column) * this.column;
  }

  y(/** @type {number} */ row) {
    return row <= 0 ? this.top : this.top + Math.max(BAND, this.row) + (row - 1) * this.row;
  }

  /** Shares the width out: the columns next to the root get what they need first.
   *  @param {number[]} needs pixels that the names of each column but the last ask for @param {number} kept columns of the kept path */
  arrange(needs, kept) {
    const room = this.column * needs.length;
    const keptGap = Math.min(MIN_GAP.comfortable, Math.max(MIN_GAP.kept, (0.7 * room) / kept));
    const gaps = needs.map((_, column) => (column < kept ? keptGap : MIN_GAP.other));
    let rest = room - gaps.reduce((sum, gap) => sum + gap, 0);
    for (const [column, need] of needs.entries()) {
      const more = Math.max(0, Math.min(need - gaps[column], rest));
      gaps[column] += more;
      rest -= more;
    }
    let end = 0;
    this.stops = [0, ...gaps.map((gap) => (end += (gap + (rest * (this.spreads || rest < 0 ? 1 : 0.4)) / gaps.length) / this.column))];
  }

  // Where the edges to a column begin to bend.
  turn(/** @type {number} */ column) {
    const end = this.x(column);
    const gap = end - this.x(column - 1);
    return end - Math.min(0.7 * gap, Math.max(16, gap / 4));
  }

  /** How much larger a small tree is drawn, so that it and its words use the panel.
   *  @param {number} width @param {number} height @param {number} columns @param {number} rows */
  scaleFor(width, height, columns, rows) {
    const wide = SIDES.left + SIDES.right + COLUMN.comfortable * (columns - 1);
    const high = TOP.staggered + BAND + BOTTOM + ROW.comfortable * Math.max(1, rows - 1);
    return Math.max(1, Math.min(MAX_SCALE, width / wide, height / high));
  }

  /** All columns into the panel. `formFor` gives the form of the kept path's labels in these columns.
   *  @param {number} width @param {number[]} needs @param {number} kept see ``arrange`` @param {() => LabelForm} formFor */
  fitColumns(width, needs, kept, formFor) {
    this.column = Math.min(COLUMN.max, Math.max(COLUMN.min, (width - SIDES.left - SIDES.right) / Math.max(1, needs.length)));
    this.left = SIDES.left;
    this.fitted = this.column;
    this.arrange(needs, kept);
    this.form = formFor();
    this.top = TOP[this.form];
  }

  /** The height of a row if all rows are in the panel. @param {number} height @param {number} rows */
  rowFor(height, rows) {
    const room = height - TOP[this.form] - BOTTOM;
    const rowHeight = Math.min(room / Math.max(1, rows - 1), (room - BAND) / Math.max(1, rows - 2)); // the band may be higher than the rows
    return Math.min(ROW.max, Math.max(ROW.min, rowHeight));
  }

  /** Zooms by a factor, with the point (x, y) kept in place. Returns false if nothing would change.
   *  @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    const column = Math.min(COLUMN.maxZoomed, Math.max(COLUMN.min, this.column * factor));
    const row = Math.min(ROW.max, Math.max(ROW.min, this.row * factor));
    if (column === this.column && row === this.row) return false;
    const place = (x - this.left) / this.column;
    const line = 1 + (y - this.y(1)) / this.row;
    this.column = column;
    this.row = row;
    this.left = x - place * column;
    if (line >= 1) this.top = y - Math.max(BAND, row) - (line - 1) * row;
    this.held = true;
    return true;
  }

  // The view that a person chose, for an address: column width, row height, and the position of the root.
  text() {
    return this.held ? [this.column, this.row, this.left, this.top].map((value) => value.toFixed(1)).join(",") : "";
  }

  // Returns whether the text holds such a view; without one, the tree is fitted again.
  restore(/** @type {string | null} */ text) {
    const values = (text || "").split(",").map(Number);
    const before = this.held;
    this.held = values.length === 4 && values.every((value) => Math.abs(value) < 1e5) && values[0] > 0 && values[1] > 0;
    if (this.held) [this.column, this.row, this.left, this.top] = values;
    return this.held || before;
  }

  pan(/** @type {number} */ right, /** @type {number} */ down) {
    this.left += right;
    this.top += down;
    this.held = true;
  }
}
