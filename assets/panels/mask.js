// In which order the mask's rows stand, and the blocks that the order shows.

import { button, html, ORIGIN } from "./ink.js";
import { Panel, placeIn } from "./panel.js";
import { colourOf, drawnAsSvg, freshPen, onTheme, palette } from "./pen.js";
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

// The ancestor mask of the verify pass: row = query, column = key, derived from the parents (paper 000, section 4).
const PREFIX = 15; // width in pixels of the column that stands for the whole prefix
const GAP = 3;
const MARGIN = { left: 10, top: 32, right: 10, bottom: 8 };
const NUMBER_ROOM = 30; // pixels from one row number to the next
const LENS = { cells: 11, cell: 13, margin: 22 }; // over cells that are smaller than half of its own

class MaskPanel extends Panel {
  constructor(host, stage) {
    super(host, stage, "mask");
    this.byDepth = false;
    this.sheet = html("canvas", { class: "cp-canvas", role: "img" }, host);
    this.over = html("canvas", { class: "cp-canvas", "aria-hidden": "true" }, host);
    this.bar = html("div", "cp-tools", host);
    this.orderButton = button(this.bar, "depth-first", "Order the rows depth-first instead of as in the pass", () => this.toggle());
    this.listen(this.over);
    onTheme(() => this.draw(this.round));
  }

  toggle() {
    this.byDepth = !this.byDepth;
    this.resize();
  }

  draw(round) {
    this.sheet.hidden = this.over.hidden = this.bar.hidden = !round;
    if (!this.begin(round, "Here you see which rows each row of the verify pass sees.")) return;
    this.orderButton.setAttribute("aria-pressed", String(this.byDepth));
    this.order = this.byDepth ? depthFirst(round) : Array.from(round.tokens.keys());
    this.place = new Int32Array(round.n);
    this.order.forEach((node, place) => { this.place[node] = place; });
    this.blocks = blocksOf(round, this.order);
    this.measure();
    this.drawSheet(freshPen(this.sheet, this.width, this.height));
    this.select(this.stage.selection);
  }

  // A square of whole device pixels, so that cells of one size are drawn as one size.
  measure() {
    const width = (this.width = this.host.clientWidth || 280);
    const height = (this.height = this.host.clientHeight || 280);
    this.ratio = window.devicePixelRatio || 1;
    const room = Math.min(width - MARGIN.left - MARGIN.right - PREFIX - GAP, height - MARGIN.top - MARGIN.bottom);
    const cell = (room * this.ratio) / this.round.n;
    this.cell = Math.min(36, cell >= 3 ? Math.floor(cell) / this.ratio : Math.max(cell, 0.05) / this.ratio);
    this.side = this.cell * this.round.n;
    this.left = Math.max(MARGIN.left + PREFIX + GAP, Math.floor((width - this.side + PREFIX + GAP) / 2));
    this.top = MARGIN.top;
  }

  drawSheet(pen) {
    const colours = palette(this.host);
    pen.globalAlpha = 0.28;
    pen.fillStyle = colours["--line"];
    pen.fillRect(this.left, this.top, this.side, this.side);
    this.cells = this.drawCells(pen, colours);
    this.drawPrefix(pen, colours);
    this.drawNames(pen, colours);
    this.drawNumbers(pen, colours);
    this.sheet.setAttribute("aria-label", this.words());
  }

  words() {
    const { round } = this;
    const rows = (block) => `drafter ${block.mask} rows ${block.start} to ${block.end - 1}`;
    const blocks = this.blocks.map(rows).join(", ");
    return `Ancestor mask of round ${round.index + 1}: ${round.n} by ${round.n}, ${this.cells} cells seen, `
      + `all rows see the prefix of ${round.start}${blocks ? `; blocks: ${blocks}` : ""}`;
  }

  // Every pair (row, ancestor-or-self) as a rectangle of at least one device pixel: at a thousand nodes a thin
  // column would otherwise vanish in the scaling.
  drawCells(pen, colours) {
    const { round, cell, ratio } = this;
    const least = 1 / ratio;
    const inset = cell >= 5 ? 1 / ratio : 0;
    const size = Math.max(least, cell - inset);
    const snap = (value) => Math.round(value * ratio) / ratio;
    let count = 0;
    for (const kept of [false, true]) {
      pen.globalAlpha = kept ? 1 : cell < 2 ? 0.75 : 0.55;
      for (const node of this.order) {
        if (round.kept.has(node) !== kept) continue;
        const y = snap(this.top + this.place[node] * cell);
        for (let key = node; ; key = round.parents[key]) {
          pen.fillStyle = colours[ORIGIN[round.origin(key)]];
          pen.fillRect(snap(this.left + this.place[key] * cell), y, size, size);
          count++;
          if (key === 0) break;
        }
      }
    }
    pen.globalAlpha = 1;
    return count;
  }

  drawPrefix(pen, colours) {
    const x = this.left - GAP - PREFIX;
    pen.globalAlpha = 0.4;
    pen.fillStyle = colours["--quiet"];
    pen.fillRect(x, this.top, PREFIX, this.side);
    pen.globalAlpha = 1;
    pen.font = "10.5px system-ui, sans-serif";
    pen.textBaseline = "alphabetic";
    const words = `prefix (${this.round.start})${this.side > 170 ? ", seen by every row" : ""}`;
    if (this.side < 76) {
      pen.fillText(words, x, this.top + this.side + 14);
      return;
    }
    pen.save();
    pen.translate(x + PREFIX / 2 + 3.5, this.top + this.side / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillStyle = colours["--ink"];
    pen.fillText(words, 0, 0);
    pen.restore();
  }

  drawNames(pen, colours) {
    const { blocks, cell } = this;
    pen.lineWidth = 1.2;
    blocks.forEach((block, number) => {
      const start = this.left + block.start * cell;
      const y = this.top + block.start * cell;
      const size = (block.end - block.start) * cell;
      const other = blocks[1 - number];
      pen.strokeStyle = colours[block.mask === 1 ? "--drafter1" : "--drafter2"];
      pen.strokeRect(start, y, size, size);
      pen.setLineDash([3, 3]);
      pen.strokeStyle = colours["--quiet"];
      pen.strokeRect(this.left + other.start * cell, y, (other.end - other.start) * cell, size);
      pen.setLineDash([]);
      const high = y + Math.min(size * 0.28, size - 8);
      this.name(pen, `M${"₁₂"[block.mask - 1]}`, start + size * 0.72, high, colours, true);
      this.name(pen, "0", this.left + (other.start + other.end) * cell / 2, y + size / 2, colours, false);
    });
    pen.font = "10.5px system-ui, sans-serif";
    pen.fillStyle = colours["--target"];
    pen.fillText("root", this.left, this.top - 6);
  }

  // Row numbers in the verify pass, along the top up to the button and, where there is room, on the right.
  drawNumbers(pen, colours) {
    const { cell, left, order, side, top } = this;
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(NUMBER_ROOM / cell)));
    pen.fillStyle = colours["--quiet"];
    for (let place = step; place < order.length; place += step) {
      const middle = (place + 0.5) * cell;
      if (middle > NUMBER_ROOM && left + middle + NUMBER_ROOM / 2 < this.bar.offsetLeft) pen.fillText(String(order[place]), left + middle - 3, top - 6);
      if (left + side + NUMBER_ROOM < this.width) pen.fillText(String(order[place]), left + side + 4, top + middle + 3);
    }
  }

  // What is around the pointer, larger, in the corner that a mask leaves empty; or in the other one.
  lens({ row, column, x, y }) {
    const side = LENS.margin + LENS.cells * LENS.cell;
    if (this.cell > LENS.cell / 2 || (this.cell >= 2 && side > 0.6 * this.side)) return; // no need, or no room
    const { order, round } = this;
    const pen = this.over.getContext("2d");
    const colours = palette(this.host);
    const far = x > this.left + this.side - side - 20 && y < this.top + side + 20;
    const [left, top] = [far ? 2 : this.left + this.side - side, this.top];
    const first = (place) => Math.max(0, Math.min(order.length - LENS.cells, place - (LENS.cells >> 1)));
    const [above, before] = [first(row), first(Math.max(0, column))];
    pen.fillStyle = colours["--panel"];
    pen.strokeStyle = colours["--line"];
    pen.fillRect(left, top, side, side);
    pen.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
    pen.font = "9px system-ui, sans-serif";
    for (let down = 0; down < LENS.cells; down++) {
      const path = new Set(round.path(order[above + down]));
      const at = top + LENS.margin + down * LENS.cell;
      pen.globalAlpha = 1;
      pen.fillStyle = colours["--quiet"];
      pen.fillText(String(order[above + down]), left + 2, at + 10);
      if (down % 2 === 0) pen.fillText(String(order[before + down]), left + LENS.margin + down * LENS.cell, top + 12);
      for (let right = 0; right < LENS.cells; right++) {
        const key = order[before + right];
        pen.globalAlpha = path.has(key) ? 1 : 0.25;
        pen.fillStyle = colours[path.has(key) ? ORIGIN[round.origin(key)] : "--line"];
        pen.fillRect(left + LENS.margin + right * LENS.cell, at, LENS.cell - 1, LENS.cell - 1);
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colours["--ink"];
    if (column >= 0) pen.strokeRect(left + LENS.margin + (column - before) * LENS.cell, top + LENS.margin + (row - above) * LENS.cell, LENS.cell - 1, LENS.cell - 1);
  }

  name(pen, text, x, y, colours, strong) {
    pen.font = strong ? "600 15px system-ui, sans-serif" : "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = colours[strong ? "--ink" : "--quiet"];
    pen.fillText(text, x, y);
    pen.textAlign = "start";
  }

  // The selected node's row (what it sees) and column (what sees it), with the cells of both drawn over.
  select({ node }) {
    if (!this.round) return;
    const pen = freshPen(this.over, this.width, this.height);
    if (node === null || node >= this.round.n) return;
    const size = Math.max(1, this.cell);
    const along = this.place[node] * this.cell;
    pen.fillStyle = colourOf(this.host, "--accent");
    pen.globalAlpha = 0.22;
    pen.fillRect(this.left - GAP - PREFIX, this.top + along, this.side + PREFIX + GAP, size);
    pen.fillRect(this.left + along, this.top, size, this.side);
    pen.globalAlpha = 1;
    for (const key of this.round.path(node)) {
      pen.fillRect(this.left + this.place[key] * this.cell, this.top + along, size, size);
    }
  }

  at(event) {
    const [x, y] = placeIn(this.over, event);
    const [right, down] = [x - this.left, y - this.top];
    const row = Math.floor(down / this.cell);
    const column = right < 0 && right >= -PREFIX - GAP ? -1 : Math.floor(right / this.cell);
    const inside = row >= 0 && row < this.round.n && column >= -1 && column < this.round.n && right < this.side;
    return inside ? { row, column, x, y } : null;
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
    this.lens(at);
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

  svg() {
    return this.round && drawnAsSvg(this.width, this.height, colourOf(this.host, "--panel"), (pen) => this.drawSheet(pen));
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
