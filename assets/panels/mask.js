// The ancestor mask of the verify pass: row = query, column = key, derived from the parents (paper 000, section 4).

import { box, group, joinPaths, path, put, render, text } from "../shared/ink.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { define } from "../shared/define.js";

/** Neighbouring rows of one drafter. @typedef {{ mask: number, start: number, end: number }} Block */

/** Runs of neighbours under the root that come from one drafter alone: the blocks M1 and M2 of a merged tree.
 *  @param {Round} round */
export function blocksOf(round) {
  const blocks = /** @type {Block[]} */ ([]);
  for (let node = 1; node < round.n; node++) {
    const mask = round.drafters[node];
    const last = blocks[blocks.length - 1];
    if (last && last.mask === mask) last.end = node + 1;
    else blocks.push({ mask, start: node, end: node + 1 });
  }
  return blocks.length === 2 && blocks[0].mask + blocks[1].mask === 3 ? blocks : [];
}

// A square grid that fits into `room` pixels. Cells of three device pixels or more are whole ones, so that all look the same;
// a smaller cell is drawn with at least one, or it would vanish.
export class Grid {
  /** @param {number} room @param {number} count @param {number} maxCell @param {{ left: number, top: number }} at */
  constructor(room, count, maxCell, at) {
    this.ratio = window.devicePixelRatio || 1;
    const cell = (room * this.ratio) / count;
    this.cell = Math.min(maxCell, cell >= 3 ? Math.floor(cell) / this.ratio : Math.max(cell, 0.05) / this.ratio);
    this.count = count;
    this.side = this.cell * count;
    this.left = at.left;
    this.top = at.top;
  }

  /** Row and column at a place; a column left of the grid is negative. null beside it. @param {number} x @param {number} y */
  find(x, y) {
    const [row, column] = [Math.floor((y - this.top) / this.cell), Math.floor((x - this.left) / this.cell)];
    return row >= 0 && row < this.count && column < this.count ? { row, column } : null;
  }

  /** The cell of a row and column as a part of a path. @param {number} row @param {number} column */
  square(row, column) {
    const { cell, ratio } = this;
    const snap = (/** @type {number} */ value) => Math.round(value * ratio) / ratio;
    const size = Math.max(1 / ratio, cell - (cell >= 5 ? 1 / ratio : 0));
    return box(snap(this.left + column * cell), snap(this.top + row * cell), size, size);
  }
}

const PREFIX = 15; // width in pixels of the column that stands for the whole prefix
const GAP = 3;
const MARGIN = { left: 10, top: 20, right: 10, bottom: 8 };
const NUMBER_ROOM = 30; // pixels from one row number to the next
const LENS = { cells: 11, cell: 13, margin: 22 }; // over cells that are smaller than half of its own

/** @typedef {{ node: number, row: number, column: number, x: number, y: number }} Cell */

class MaskPanel extends DrawnPanel {
  pointed = /** @type {Cell | null} */ (null);
  blocks = /** @type {Block[]} */ ([]);
  grid = new Grid(1, 1, 1, MARGIN);
  width = 0;
  waiting = "Here you see which rows each row of the verify pass sees.";

  drawRound(/** @type {Round} */ round) {
    this.pointed = this.stage.keyNode = null;
    this.blocks = blocksOf(round);
    const { width, height } = this.room;
    const room = Math.min(width - MARGIN.left - MARGIN.right - PREFIX - GAP, height - MARGIN.top - MARGIN.bottom);
    const grid = this.grid = new Grid(room, round.n, 36, MARGIN);
    grid.left = Math.max(MARGIN.left + PREFIX + GAP, Math.floor((width - grid.side + PREFIX + GAP) / 2)); // in the middle
    this.width = width;
    this.setSize(width, height);
    const { left, top, side } = grid;
    render(this.drawing, [
      path("cp-mask-ground", box(left, top, side, side)),
      path("cp-mask-prefix", box(left - GAP - PREFIX, top, PREFIX, side)),
      group(this.cells(), "cp-mask-cells"), group(this.blockMarks()), group([this.prefixWords(), ...this.numbers()])]);
    const blocks = this.blocks.map(({ mask, start, end }) => `drafter ${mask} rows ${start} to ${end - 1}`).join(", ");
    const seen = round.depths.reduce((sum, depth) => sum + depth + 1, 0);
    put(this.canvas, { "aria-label": `Ancestor mask of round ${round.index + 1}: ${round.n} by ${round.n}, ${seen} cells seen, `
      + `all rows see the prefix of ${round.start}${blocks ? `; blocks: ${blocks}` : ""}` });
  }

  // A cell for each pair (row, ancestor or self); those of kept rows are opaque and on top.
  cells() {
    const { round, grid } = this;
    const layer = (/** @type {boolean} */ kept, /** @type {number} */ opacity) => {
      const squares = /** @type {Partial<Record<Origin, string[]>>} */ ({});
      for (let node = 0; node < round.n; node++) {
        if (round.kept.has(node) !== kept) continue;
        for (const key of round.path(node)) (squares[round.origin(key)] ??= []).push(grid.square(node, key));
      }
      return Object.entries(squares).map(([origin, cells]) => path(`o-${origin}`, cells.join(""), { "fill-opacity": opacity }));
    };
    return [...layer(false, grid.cell < 2 ? 0.75 : 0.55), ...layer(true, 1)];
  }

  // Each drafter's block with its name, and beside it the empty rectangle under the other's columns.
  blockMarks() {
    const { left, top, cell } = this.grid;
    return this.blocks.flatMap((block, number) => {
      const [own, other] = [block, this.blocks[1 - number]].map(({ start, end }) => ({ x: left + start * cell, wide: (end - start) * cell }));
      const y = top + block.start * cell;
      return [
        path(`cp-mask-block o-drafter${block.mask}`, box(own.x, y, own.wide, own.wide)),
        path("cp-mask-block is-empty", box(other.x, y, other.wide, own.wide)),
        text("cp-mask-name is-mid", `M${"₁₂"[block.mask - 1]}`, own.x + own.wide * 0.72, y + Math.min(own.wide * 0.28, own.wide - 8)),
        text("cp-mask-zero is-mid", "0", other.x + other.wide / 2, y + own.wide / 2)];
    });
  }

  prefixWords() {
    const { left, top, side } = this.grid;
    const words = `prefix (${this.round.start})${side > 170 ? ", seen by every row" : ""}`;
    const [x, y] = [left - GAP - PREFIX / 2 + 3.5, top + side / 2];
    if (side < 76) return text("cp-mask-word", words, left - GAP - PREFIX, top + side + 14);
    return text("cp-mask-word is-mid", words, x, y, { transform: `rotate(-90 ${x} ${y})` });
  }

  // Row numbers along the top and, if there is room, on the right.
  numbers() {
    const { cell, left, side, top } = this.grid;
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(NUMBER_ROOM / cell)));
    const marks = [text("cp-mask-root", "root", left, top - 6)];
    const number = (/** @type {number} */ place, /** @type {number} */ x, /** @type {number} */ y) => marks.push(text("", String(place), x, y));
    for (let place = step; place < this.round.n; place += step) {
      const middle = (place + 0.5) * cell;
      if (middle > NUMBER_ROOM) number(place, left + middle - 3, top - 6);
      if (left + side + NUMBER_ROOM < this.width) number(place, left + side + 4, top + middle + 3);
    }
    return marks;
  }

  // A magnified view around the pointer, at the top right, which a mask leaves empty, or at the left.
  lens(/** @type {Cell} */ { row, column, x, y }) {
    const { grid, round } = this;
    const side = LENS.margin + LENS.cells * LENS.cell;
    if (grid.cell > LENS.cell / 2 || (grid.cell >= 2 && side > 0.6 * grid.side)) return []; // no need, or no room
    const far = x > grid.left + grid.side - side - 20 && y < grid.top + side + 20;
    const [left, top] = [far ? 2 : grid.left + grid.side - side, grid.top];
    const first = (/** @type {number} */ place) => Math.max(0, Math.min(round.n - LENS.cells, place - (LENS.cells >> 1)));
    const [above, before] = [first(row), first(Math.max(0, column))];
    /** @param {number} down @param {number} right */
    const square = (down, right) => box(left + LENS.margin + right * LENS.cell, top + LENS.margin + down * LENS.cell, LENS.cell - 1, LENS.cell - 1);
    /** @param {number} place @param {number} right @param {number} down */
    const number = (place, right, down) => text("", String(place), left + right, top + down);
    const [numbers, cells] = [/** @type {Mark[]} */ ([]), /** @type {Mark[]} */ ([])];
    for (let down = 0; down < LENS.cells; down++) {
      const seen = new Set(round.path(above + down));
      numbers.push(number(above + down, 2, LENS.margin + down * LENS.cell + 10));
      if (down % 2 === 0) numbers.push(number(before + down, LENS.margin + down * LENS.cell, 12));
      for (let right = 0; right < LENS.cells; right++) {
        const key = before + right;
        cells.push(path(seen.has(key) ? `o-${round.origin(key)}` : "is-unseen", square(down, right)));
      }
    }
    const here = column < 0 ? [] : [path("is-here", square(row - above, column - before))];
    /** @type {Mark} */
    const ground = ["rect", { x: left + 0.5, y: top + 0.5, width: side - 1, height: side - 1 }];
    return [group([ground, ...joinPaths(cells), ...here, ...numbers], "cp-lens")];
  }

  // The selected node's row (what it sees) and column (what sees it), with the cells of both drawn over.
  marksOf(/** @type {number} */ node) {
    const { round, grid } = this;
    const along = node * grid.cell;
    const size = Math.max(1, grid.cell);
    const key = this.stage.keyNode === null ? "" : box(grid.left + this.stage.keyNode * grid.cell, grid.top, size, grid.side);
    const cells = round.path(node).map((key) => box(grid.left + key * grid.cell, grid.top + along, size, size));
    return [
      path("cp-mask-cross", box(grid.left - GAP - PREFIX, grid.top + along, grid.side + PREFIX + GAP, size)
        + box(grid.left + along, grid.top, size, grid.side)),
      path("cp-mask-lit", cells.join("")), path("cp-mask-block is-empty", key), ...(this.pointed ? this.lens(this.pointed) : [])];
  }

  onLeave() {
    this.pointed = this.stage.keyNode = null;
    super.onLeave();
  }

  // Row and column (-1: the prefix) under the pointer.
  pointedAt(/** @type {MouseEvent} */ event) {
    const [x, y] = placeIn(this.canvas, event);
    const cell = this.grid.find(x, y);
    if (!cell || x < this.grid.left - PREFIX - GAP) return null;
    return { node: cell.row, row: cell.row, column: Math.max(-1, cell.column), x, y };
  }

  onPointer(/** @type {MouseEvent} */ event) {
    this.pointed = this.pointedAt(event);
    this.stage.keyNode = this.pointed && this.pointed.column >= 0 ? this.pointed.column : null;
    super.onPointer(event);
    this.stage.emit("hits");
    this.select(this.stage.selection);
  }

  tipLines(/** @type {Cell} */ { node, column: key }) {
    const { round } = this;
    const rowName = (/** @type {number} */ row) => `row ${row} ${round.show(round.tokens[row])}`;
    if (key < 0) return [rowName(node), `query; sees the whole prefix of ${round.start} tokens`];
    const why = key === node ? "sees itself" : round.path(node).includes(key) ? "sees it" : "does not see";
    const seen = key === node ? [] : [`key: ${rowName(key)}, depth ${round.depths[key]}`];
    return [rowName(node), `query, depth ${round.depths[node]}: ${why}`, ...seen];
  }
}

define({
  name: "mask",
  title: "Ancestor mask",
  caption: "A row sees its ancestors.",
  legend: [
    { glyph: "■", label: "seen", title: "The row's node sees the column's node; in the colour of that node's origin" },
    { glyph: "□", label: "hidden", title: "Hidden from the row's node: another branch" },
    { glyph: "▮", label: "prefix", title: "All text written before, drawn as one column: every row sees it" },
  ],
  create: (host, stage) => new MaskPanel(host, stage, "mask"),
});
