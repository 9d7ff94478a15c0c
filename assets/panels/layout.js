// A tidy left-to-right layout: columns are depths, rows are whole numbers, no two edges cross.
//
// A node's first child lies on its own row, the others below, each subtree as high as the one above it allows
// (the contours of Reingold and Tilford, hung from the top instead of centred). In every column the nodes keep
// the order of their parents, which is why curves of one family between two columns cannot cross. The kept path
// comes first everywhere, so it is a straight line along row 0, and nothing else is on that row.

/** parents[i] < i. `kept` holds the kept rows; `tail` is the node that carries the bonus, whose row to the
 *  right stays free for it. Gives each node's column and row; the row is -1 if a folded ancestor hides it.
 *  @param {Int32Array} parents @param {Set<number>} kept @param {number} tail @param {Set<number>} folded */
export function layoutOf(parents, kept, tail, folded) {
  const size = parents.length;
  const children = Array.from({ length: size }, () => /** @type {number[]} */ ([])); // the kept one first, none under a folded node
  for (let node = 1; node < size; node++) {
    const parent = parents[node];
    if (folded.has(parent)) continue;
    if (kept.has(node)) children[parent].unshift(node);
    else children[parent].push(node);
  }
  const shift = new Float64Array(size);
  const tops = /** @type {number[][]} */ (new Array(size));
  const bottoms = /** @type {number[][]} */ (new Array(size));
  for (let node = size - 1; node >= 0; node--) {
    const top = node === tail ? [0] : [];
    const bottom = node === tail ? [0] : [];
    for (const child of children[node]) {
      // a subtree starts below its elder siblings: at every depth under the lowest of theirs
      shift[child] = tops[child].reduce((lowest, row, level) => Math.max(lowest, (bottom[level] ?? -Infinity) - row + 1), 0);
      tops[child].forEach((row, level) => { top[level] ??= row + shift[child]; });
      bottoms[child].forEach((row, level) => { bottom[level] = row + shift[child]; });
      tops[child] = bottoms[child] = [];
    }
    tops[node] = [0, ...top];
    bottoms[node] = [0, ...bottom];
  }
  const columns = new Int32Array(size);
  const rows = new Float64Array(size).fill(-1);
  rows[0] = 0;
  let deepest = tail === 0 ? 1 : 0;
  let lowest = 0;
  for (let node = 0; node < size; node++) {
    if (rows[node] < 0) continue;
    for (const child of children[node]) {
      columns[child] = columns[node] + 1;
      rows[child] = rows[node] + shift[child];
    }
    deepest = Math.max(deepest, columns[node] + (node === tail ? 1 : 0));
    lowest = Math.max(lowest, rows[node]);
  }
  return { columns, rows, children, columnCount: deepest + 1, rowCount: lowest + 1 };
}

/** The node to which a key leads from another one: left to the parent, right to the first child, up and down in its column,
 *  Home to the root, End to the last kept one. null if there is none, undefined for every other key.
 *  @param {Round} round @param {Layout} layout @param {number} node @param {string} key */
export function neighbour(round, { columns, rows, children }, node, key) {
  const nextInColumn = (/** @type {number} */ step) => {
    const below = (/** @type {number} */ other) => (rows[other] - rows[node]) * step;
    const others = Array.from(round.tokens.keys()).filter((other) => columns[other] === columns[node] && rows[other] >= 0 && below(other) > 0);
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

export const LINE_HEIGHT = 12; // pixels, of labels

// The occupied parts of a drawing, by line, so that labels do not overlap. `owner`: the node at which an edge begins; null: a label.
export class LabelSpace {
  taken = /** @type {{ x: number, y: number, halfWidth: number, halfHeight: number, owner?: number | null }[][]} */ ([]);

  constructor(/** @type {number} */ height) {
    this.height = height; // of a label
  }

  /** @param {number} x @param {number} y @param {number} halfWidth @param {number} halfHeight @param {number | null} [owner] */
  add(x, y, halfWidth, halfHeight, owner) {
    (this.taken[Math.max(0, Math.round(y / LINE_HEIGHT))] ??= []).push({ x, y, halfWidth, halfHeight, owner });
  }

  /** What a label that begins at a point could meet. @param {number} x @param {number} y */
  rightOf(x, y) {
    const line = Math.max(0, Math.round(y / LINE_HEIGHT));
    const near = [line - 1, line, line + 1].flatMap((index) => this.taken[index] ?? []);
    return near.filter((part) => part.x + part.halfWidth > x && Math.abs(part.y - y) < part.halfHeight + this.height / 2 - 1);
  }

  /** The free pixels to the right of a point. @param {number} x @param {number} y @param {number | null} node whose own edge may
   *  be covered; null: all edges may be */
  freeWidth(x, y, node) {
    const met = this.rightOf(x, y).filter(({ owner }) => typeof owner !== "number" || (node !== null && owner !== node));
    return Math.min(Infinity, ...met.map((part) => part.x - part.halfWidth)) - x - 4;
  }

  /** Where a label of a width meets no other, from a point on. @param {number} x @param {number} y @param {number} width @returns {number} */
  nextFree(x, y, width) {
    const next = this.rightOf(x, y).find((part) => part.owner === null && part.x - part.halfWidth < x + width + 4);
    return next ? this.nextFree(next.x + next.halfWidth + 6, y, width) : x;
  }
}

// Where a tree's columns and rows lie on the screen: a scale per axis and an offset, so that text keeps its size
// at every zoom. Row 0 (the kept path) has a band of its own, in which its labels stand. Columns of many names are wider.
const SIDES = { left: 32, right: 52 };
const TOP = { flat: 42, staggered: 55, slanted: 84 }; // the kept path's labels stand on one line, on two, or aslant
const BOTTOM = 8; // half of a label, which may hang below the last row
const BAND = 17; // pixels from row 0 to row 1 at least
const COLUMN = { min: 8, comfortable: 54, max: 168, maxZoomed: 320 };
const ROW = { min: 0.1, comfortable: 30, max: 84 };
const MAX_SCALE = 1.7;
const MIN_GAP = { kept: 20, comfortable: 31, other: 14 }; // pixels between two columns if other columns need the room
const MAX_NAME_SCALE = 1.4; // of the smallest type: the largest

export class Camera {
  constructor(/** @type {Stage} */ stage) {
    this.column = 80;
    this.row = 16;
    this.left = SIDES.left;
    this.top = TOP.flat;
    this.form = /** @type {LabelForm} */ ("flat");
    this.stops = [0]; // where columns lie, in mean widths of a column
    this.asked = { columns: 0, names: 0, gaps: 0 }; // pixels that the columns ask for, all together
    this.held = false; // true once a person has zoomed or panned: then a new round leaves the view alone
    stage.on("run", () => { this.held = false; }); // and a new run does not
  }

  x(/** @type {number} */ column) {
    return this.left + (this.stops[column] ?? column) * this.column;
  }

  y(/** @type {number} */ row) {
    return row <= 0 ? this.top : this.top + Math.max(BAND, this.row) + (row - 1) * this.row;
  }

  /** Shares the width out. @param {number[]} needs pixels that the names of each column but the last ask for in the smallest type
   *  @param {number} kept columns of the kept path */
  arrange(needs, kept) {
    const room = this.column * needs.length;
    const keptGap = Math.min(MIN_GAP.comfortable, Math.max(MIN_GAP.kept, (0.7 * room) / kept));
    const gaps = needs.map((_, column) => (column < kept ? keptGap : MIN_GAP.other));
    const sum = (/** @type {number[]} */ parts) => parts.reduce((total, part) => total + part, 0);
    this.asked = { columns: needs.length, names: sum(needs), gaps: sum(gaps) };
    const scale = Math.min(MAX_NAME_SCALE, Math.max(0, this.nameScale));
    const rest = (room - this.asked.gaps - scale * this.asked.names) / gaps.length; // for each column alike
    let end = 0;
    this.stops = [0, ...gaps.map((gap, column) => (end += (gap + scale * needs[column] + rest) / this.column))];
  }

  // How much larger than in the smallest type the columns' names could be.
  get nameScale() {
    return (this.column * this.asked.columns - this.asked.gaps) / Math.max(1, this.asked.names);
  }

  /** How much larger a small tree is drawn, so that it and its words use the panel.
   *  @param {number} width @param {number} height @param {number} columns @param {number} rows */
  scaleFor(width, height, columns, rows) {
    const wide = SIDES.left + SIDES.right + COLUMN.comfortable * (columns - 1);
    const high = TOP.staggered + BAND + BOTTOM + ROW.comfortable * Math.max(1, rows - 1);
    return Math.max(1, Math.min(MAX_SCALE, width / wide, height / high));
  }

  /** All columns and rows into the panel. `formFor` gives the form of the kept path's labels in these columns.
   *  @param {number} width @param {number} height @param {number} columns @param {number} rows @param {() => LabelForm} formFor
   *  @param {number[]} needs @param {number} kept see ``arrange`` */
  fit(width, height, columns, rows, formFor, needs = Array(columns - 1).fill(0), kept = 0) {
    this.column = Math.min(COLUMN.max, Math.max(COLUMN.min, (width - SIDES.left - SIDES.right) / Math.max(1, columns - 1)));
    this.left = SIDES.left;
    this.arrange(needs, kept);
    this.form = formFor();
    this.top = TOP[this.form];
    const room = height - this.top - BOTTOM;
    const evenRow = room / Math.max(1, rows - 1); // or the band above row 1 is higher than the rows
    const rowHeight = evenRow >= BAND ? evenRow : (room - BAND) / Math.max(1, rows - 2);
    this.row = Math.min(ROW.max, Math.max(ROW.min, rowHeight));
    this.held = false;
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
