// The ancestor mask of the verify pass: row = query, column = key, derived from the parents (paper 000, section 4).

import { box, button, html, joinPaths, Pool, put, svg } from "./ink.js";
import { Panel, placeIn } from "./panel.js";
import { define } from "../stage/stage.js";

export function depthFirst(round) {
  const order = [];
  const open = [0];
  while (open.length) {
    const node = open.pop();
    order.push(node);
    for (let place = round.children[node].length - 1; place >= 0; place--) open.push(round.children[node][place]);
  }
  return order;
}

// Runs of neighbours under the root that come from one drafter alone: the blocks M1 and M2 of a merged tree.
export function blocksOf(round, order) {
  const blocks = [];
  for (let place = 1; place < order.length; place++) {
    const mask = round.drafters[order[place]];
    const last = blocks[blocks.length - 1];
    if (last && last.mask === mask) last.end = place + 1;
    else blocks.push({ mask, start: place, end: place + 1 });
  }
  const pair = blocks.length === 2 && blocks[0].mask + blocks[1].mask === 3;
  return pair ? blocks : [];
}

// A square of cells in a room of so many pixels: of whole device pixels where a cell has three of them, so that all look
// alike; and a cell is drawn with one at least, or a thin column would vanish among a thousand.
export class Grid {
  constructor(room, count, most) {
    this.ratio = window.devicePixelRatio || 1;
    const cell = (room * this.ratio) / count;
    this.cell = Math.min(most, cell >= 3 ? Math.floor(cell) / this.ratio : Math.max(cell, 0.05) / this.ratio);
    this.count = count;
    this.side = this.cell * count;
    this.left = this.top = 0;
  }

  at(left, top) {
    return Object.assign(this, { left, top });
  }

  // Row and column at a place; a column left of the grid is negative. null beside it.
  find(x, y) {
    const [row, column] = [Math.floor((y - this.top) / this.cell), Math.floor((x - this.left) / this.cell)];
    return row >= 0 && row < this.count && column < this.count ? { row, column } : null;
  }

  // The cell of a row and column as a part of a path.
  square(row, column) {
    const { cell, ratio } = this;
    const snap = (value) => Math.round(value * ratio) / ratio;
    const size = Math.max(1 / ratio, cell - (cell >= 5 ? 1 / ratio : 0));
    return box(snap(this.left + column * cell), snap(this.top + row * cell), size, size);
  }
}

const PREFIX = 15; // width in pixels of the column that stands for the whole prefix
const GAP = 3;
const MARGIN = { left: 10, top: 32, right: 10, bottom: 8 };
const NUMBER_ROOM = 30; // pixels from one row number to the next
const LENS = { cells: 11, cell: 13, margin: 22 }; // over cells that are smaller than half of its own

class MaskPanel extends Panel {
  constructor(host, stage) {
    super(host, stage, "mask");
    this.byDepth = false;
    this.sheet({ role: "img" });
    this.ground = svg("path", { class: "cp-mask-ground" }, this.canvas);
    this.prefix = svg("path", { class: "cp-mask-prefix" }, this.canvas);
    this.cells = new Pool(this.canvas, "path", {}, { class: "cp-mask-cells" });
    this.frames = new Pool(this.canvas, "path");
    this.texts = new Pool(this.canvas, "text");
    this.cross = svg("path", { class: "cp-mask-cross" }, this.canvas);
    this.lit = svg("path", { class: "cp-mask-lit" }, this.canvas);
    this.lens = svg("g", { class: "cp-lens" }, this.canvas);
    this.bar = html("div", "cp-tools", host);
    this.orderButton = button(this.bar, "depth-first", "Order the rows depth-first instead of as in the pass", () => this.toggle());
    this.listen(this.canvas);
  }

  toggle() {
    this.byDepth = !this.byDepth;
    this.resize();
  }

  draw(round) {
    const there = this.begin(round, "Here you see which rows each row of the verify pass sees.");
    this.bar.hidden = !there;
    if (!there) return;
    this.orderButton.setAttribute("aria-pressed", String(this.byDepth));
    this.order = this.byDepth ? depthFirst(round) : Array.from(round.tokens.keys());
    this.place = new Int32Array(round.n);
    this.order.forEach((node, place) => { this.place[node] = place; });
    this.blocks = blocksOf(round, this.order);
    this.measure();
    this.drawCells();
    this.drawBlocks();
    this.texts.fill([...this.prefixWords(), ...this.blockNames(), ...this.numbers()]);
    put(this.canvas, { "aria-label": this.words() });
    this.select(this.stage.selection);
  }

  measure() {
    const [width, height] = [this.host.clientWidth || 280, this.host.clientHeight || 280];
    const room = Math.min(width - MARGIN.left - MARGIN.right - PREFIX - GAP, height - MARGIN.top - MARGIN.bottom);
    this.grid = new Grid(room, this.round.n, 36);
    const middle = Math.floor((width - this.grid.side + PREFIX + GAP) / 2);
    const { left, top, side } = this.grid.at(Math.max(MARGIN.left + PREFIX + GAP, middle), MARGIN.top);
    this.width = width;
    this.setSize(width, height);
    put(this.ground, { d: box(left, top, side, side) });
    put(this.prefix, { d: box(left - GAP - PREFIX, top, PREFIX, side) });
  }

  words() {
    const { round } = this;
    const rows = (block) => `drafter ${block.mask} rows ${block.start} to ${block.end - 1}`;
    const blocks = this.blocks.map(rows).join(", ");
    const seen = round.depths.reduce((sum, depth) => sum + depth + 1, 0);
    return `Ancestor mask of round ${round.index + 1}: ${round.n} by ${round.n}, ${seen} cells seen, `
      + `all rows see the prefix of ${round.start}${blocks ? `; blocks: ${blocks}` : ""}`;
  }

  // Every pair (row, ancestor-or-self); the rows that were kept in full colour, over the others.
  drawCells() {
    const { round, grid, place } = this;
    const faint = grid.cell < 2 ? 0.75 : 0.55;
    const cells = this.order.flatMap((node, row) => round.path(node).map((key) => ({
      class: `o-${round.origin(key)}`, "fill-opacity": round.kept.has(node) ? 1 : faint, d: grid.square(row, place[key]) })));
    this.cells.fill(joinPaths(cells).sort((one, other) => one["fill-opacity"] - other["fill-opacity"]));
  }

  drawBlocks() {
    const { left, top, cell } = this.grid;
    const frame = (look, rows, columns) => ({ class: `cp-mask-block ${look}`,
      d: box(left + columns.start * cell, top + rows.start * cell, (columns.end - columns.start) * cell, (rows.end - rows.start) * cell) });
    this.frames.fill(this.blocks.flatMap((block, number) => [
      frame(`o-drafter${block.mask}`, block, block), frame("is-empty", block, this.blocks[1 - number])]));
  }

  prefixWords() {
    const { left, top, side } = this.grid;
    const text = `prefix (${this.round.start})${side > 170 ? ", seen by every row" : ""}`;
    const [x, y] = [left - GAP - PREFIX / 2 + 3.5, top + side / 2];
    if (side < 76) return [{ text, x: left - GAP - PREFIX, y: top + side + 14, class: "cp-mask-word", transform: null }];
    return [{ text, x, y, class: "cp-mask-word is-mid", transform: `rotate(-90 ${x} ${y})` }];
  }

  blockNames() {
    const { left, top, cell } = this.grid;
    return this.blocks.flatMap((block, number) => {
      const other = this.blocks[1 - number];
      const [y, size] = [top + block.start * cell, (block.end - block.start) * cell];
      return [
        { text: `M${"₁₂"[block.mask - 1]}`, x: left + block.start * cell + size * 0.72, y: y + Math.min(size * 0.28, size - 8), class: "cp-mask-name is-mid", transform: null },
        { text: "0", x: left + ((other.start + other.end) * cell) / 2, y: y + size / 2, class: "cp-mask-zero is-mid", transform: null }];
    });
  }

  // Row numbers in the verify pass, along the top up to the button and, where there is room, on the right.
  numbers() {
    const { cell, left, side, top } = this.grid;
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(NUMBER_ROOM / cell)));
    const rows = [{ text: "root", x: left, y: top - 6, class: "cp-mask-root", transform: null }];
    const number = (place, x, y) => rows.push({ text: String(this.order[place]), x, y, class: "cp-mask-number", transform: null });
    for (let place = step; place < this.order.length; place += step) {
      const middle = (place + 0.5) * cell;
      if (middle > NUMBER_ROOM && left + middle + NUMBER_ROOM / 2 < this.bar.offsetLeft) number(place, left + middle - 3, top - 6);
      if (left + side + NUMBER_ROOM < this.width) number(place, left + side + 4, top + middle + 3);
    }
    return rows;
  }

  // What is around the pointer, larger, in the corner that a mask leaves empty; or in the other one.
  drawLens({ row, column, x, y }) {
    const { grid, order, round } = this;
    const side = LENS.margin + LENS.cells * LENS.cell;
    if (grid.cell > LENS.cell / 2 || (grid.cell >= 2 && side > 0.6 * grid.side)) return; // no need, or no room
    const far = x > grid.left + grid.side - side - 20 && y < grid.top + side + 20;
    const [left, top] = [far ? 2 : grid.left + grid.side - side, grid.top];
    const first = (place) => Math.max(0, Math.min(order.length - LENS.cells, place - (LENS.cells >> 1)));
    const [above, before] = [first(row), first(Math.max(0, column))];
    const square = (down, right) => box(left + LENS.margin + right * LENS.cell, top + LENS.margin + down * LENS.cell, LENS.cell - 1, LENS.cell - 1);
    const say = (place, right, down) => { svg("text", { x: left + right, y: top + down }, this.lens).textContent = String(order[place]); };
    svg("rect", { x: left + 0.5, y: top + 0.5, width: side - 1, height: side - 1 }, this.lens);
    const cells = [];
    for (let down = 0; down < LENS.cells; down++) {
      const path = new Set(round.path(order[above + down]));
      say(above + down, 2, LENS.margin + down * LENS.cell + 10);
      if (down % 2 === 0) say(before + down, LENS.margin + down * LENS.cell, 12);
      for (let right = 0; right < LENS.cells; right++) {
        const key = order[before + right];
        cells.push({ class: path.has(key) ? `o-${round.origin(key)}` : "is-unseen", d: square(down, right) });
      }
    }
    for (const look of joinPaths(cells)) svg("path", look, this.lens);
    if (column >= 0) svg("path", { class: "is-here", d: square(row - above, column - before) }, this.lens);
  }

  // The selected node's row (what it sees) and column (what sees it), with the cells of both drawn over.
  select({ node }) {
    const { round, grid } = this;
    const there = round && node !== null && node < round.n;
    const along = there ? this.place[node] * grid.cell : 0;
    const size = there ? Math.max(1, grid.cell) : 0;
    put(this.cross, { d: there ? box(grid.left - GAP - PREFIX, grid.top + along, grid.side + PREFIX + GAP, size)
      + box(grid.left + along, grid.top, size, grid.side) : "" });
    put(this.lit, { d: there ? round.path(node).map((key) => box(grid.left + this.place[key] * grid.cell, grid.top + along, size, size)).join("") : "" });
    this.lens.replaceChildren();
  }

  // Row, column (-1: the prefix) and place under the pointer.
  at(event) {
    const [x, y] = placeIn(this.canvas, event);
    const cell = this.grid.find(x, y);
    return cell && x >= this.grid.left - PREFIX - GAP ? { row: cell.row, column: Math.max(-1, cell.column), x, y } : null;
  }

  point(event) {
    const { round } = this;
    const at = this.at(event);
    if (!at) {
      this.leave();
      return;
    }
    const query = this.order[at.row];
    this.stage.hover(query);
    this.select(this.stage.selection);
    this.drawLens(at);
    const says = (node) => `row ${node} ${round.show(round.tokens[node])}`;
    if (at.column < 0) {
      this.tip.show(at.x, at.y, [says(query), `query; sees the whole prefix of ${round.start} tokens`]);
      return;
    }
    const key = this.order[at.column];
    const why = key === query ? "sees itself" : round.path(query).includes(key) ? "sees it" : "does not see";
    this.tip.show(at.x, at.y, [says(query), `query, depth ${round.depths[query]}: ${why}`,
      key === query ? "" : `key: ${says(key)}, depth ${round.depths[key]}`].filter(Boolean));
  }

  nodeAt(event) {
    const at = this.at(event);
    return at && this.order[at.row];
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
  create: (host, stage) => new MaskPanel(host, stage),
});
