// The forward pass of a round, where several runs share passes: the rows of all runs as blocks of one mask, one colour
// per run. Of other people's runs only the shapes of their trees and the kept rows arrive here, never their text.

import { html } from "./ink.js";
import { Panel, placeIn } from "./panel.js";
import { colourOf, drawnAsSvg, freshPen, onTheme } from "./pen.js";
import { define } from "../stage/stage.js";

const MARGIN = { left: 10, top: 10, bottom: 10, gap: 14 };
const LIST = { least: 112, share: 0.44, most: 300 }; // pixels, and of the panel's width
const COLOURS = 8;

// Rows of the pass before each block, and of the whole pass.
function placed(shared) {
  let rows = 0;
  const blocks = shared.blocks.map((block) => {
    const made = { ...block, first: rows, rows: block.parents.length, own: block.seat === shared.own };
    rows += block.parents.length;
    return made;
  });
  return { blocks, rows };
}

function named(block) {
  return block.own ? "yours" : `run ${block.seat + 1}`;
}

function counted(block) {
  return `${block.rows} ${block.rows === 1 ? "row" : "rows"}, ${block.keep.length} kept`;
}

// Which runs take their rows from one shared total, in a sentence; empty where fewer than two do.
export function sharing(blocks) {
  const shared = blocks.filter((block) => block.shares).map(named);
  if (shared.length < 2) return "";
  const words = shared.length === blocks.length ? "all runs"
    : `${shared.slice(0, -1).join(", ")} and ${shared.at(-1)}`;
  return `${words[0].toUpperCase()}${words.slice(1)} (auto) share one total of rows.`;
}

class BatchPanel extends Panel {
  constructor(host, stage) {
    super(host, stage, "batch");
    this.sheet = html("canvas", { class: "cp-canvas", role: "img" }, host);
    this.over = html("canvas", { class: "cp-canvas", "aria-hidden": "true" }, host);
    this.list = html("div", {
      class: "cp-scroll cp-batch-list", tabIndex: 0, role: "group", "aria-label": "Runs of this pass (scrollable)",
    }, host);
    this.listen(this.over);
    onTheme(() => this.draw(this.round));
  }

  draw(round) {
    const there = this.begin(round, "Where several runs share the passes, the rows of all of them are shown here.");
    this.shared = round && round.shared;
    this.sheet.hidden = this.over.hidden = this.list.hidden = !this.shared;
    if (there && !this.shared) {
      this.empty.say("This round was not shared", "The run had the pass to itself, or it is a recording: only a live run shows who shared it.");
    }
    if (!this.shared) return;
    const found = placed(this.shared);
    this.blocks = found.blocks;
    this.rows = found.rows;
    this.measure();
    this.drawSheet(freshPen(this.sheet, this.width, this.height));
    this.drawList();
    this.select(this.stage.selection);
  }

  // A square of whole device pixels on the left, the list on what is left of the width.
  measure() {
    const width = (this.width = this.host.clientWidth || 320);
    const height = (this.height = this.host.clientHeight || 260);
    this.ratio = window.devicePixelRatio || 1;
    const listed = Math.min(LIST.most, Math.max(LIST.least, width * LIST.share));
    const room = Math.max(40, Math.min(width - listed - MARGIN.left - MARGIN.gap, height - MARGIN.top - MARGIN.bottom));
    const cell = (room * this.ratio) / this.rows;
    this.cell = Math.min(24, cell >= 3 ? Math.floor(cell) / this.ratio : cell / this.ratio);
    this.side = this.cell * this.rows;
    this.list.style.left = `${Math.ceil(MARGIN.left + this.side + MARGIN.gap)}px`;
  }

  colour(block) {
    return colourOf(this.host, block.own ? "--accent" : `--run-${(block.seat % COLOURS) + 1}`);
  }

  drawSheet(pen) {
    pen.globalAlpha = 0.28;
    pen.fillStyle = colourOf(this.host, "--line");
    pen.fillRect(MARGIN.left, MARGIN.top, this.side, this.side);
    for (const block of this.blocks) this.drawBlock(pen, block);
    pen.globalAlpha = 1;
    this.sheet.setAttribute("aria-label", this.words());
  }

  // Every pair (row, ancestor-or-self), at least a device pixel; what was kept in full colour.
  drawBlock(pen, block) {
    const { cell, ratio } = this;
    const size = Math.max(1 / ratio, cell - (cell >= 5 ? 1 / ratio : 0));
    const snap = (value) => Math.round(value * ratio) / ratio;
    const kept = new Set(block.keep);
    const colour = this.colour(block);
    const at = (row) => (block.first + row) * cell;
    pen.fillStyle = colour;
    for (const full of [false, true]) {
      pen.globalAlpha = full ? 1 : 0.42;
      for (let row = 0; row < block.rows; row++) {
        if (kept.has(row) !== full) continue;
        const y = snap(MARGIN.top + at(row));
        for (let key = row; ; key = block.parents[key]) {
          pen.fillRect(snap(MARGIN.left + at(key)), y, size, size);
          if (key === 0) break;
        }
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colour;
    pen.lineWidth = block.own ? 2 : 1;
    const side = Math.max(2, block.rows * cell);
    pen.strokeRect(MARGIN.left + at(0), MARGIN.top + at(0), side, side);
  }

  words() {
    const each = this.blocks.map((block) => `${named(block)}: ${counted(block)}`).join("; ");
    return `Pass of round ${this.round.index + 1}: ${this.rows} rows of ${this.blocks.length} runs. ${each}`;
  }

  drawList() {
    const table = html("table", "", null);
    const head = html("tr", "", html("thead", "", table));
    for (const words of ["run", "rows", "kept"]) html("th", "", head, words).scope = "col";
    const body = html("tbody", "", table);
    for (const block of this.blocks) {
      const row = html("tr", block.own ? "is-own" : "", body);
      const name = html("th", { scope: "row" }, row);
      html("i", "cp-batch-sign", name).style.background = this.colour(block);
      name.append(named(block));
      html("td", "", row, String(block.rows));
      html("td", "", row, String(block.keep.length));
    }
    const said = sharing(this.blocks);
    const others = this.shared.runs - this.blocks.length;
    const elsewhere = others > 0
      ? html("p", "", null, `${others === 1 ? "1 more run was" : `${others} more runs were`} not in this pass.`) : "";
    this.list.replaceChildren(table, said ? html("p", "", null, said) : "", elsewhere);
  }

  blockAt(event) {
    const [x, y] = placeIn(this.over, event).map((place, axis) => place - (axis ? MARGIN.top : MARGIN.left));
    const row = Math.floor(y / this.cell);
    const inside = this.shared && x >= 0 && x < this.side && row >= 0 && row < this.rows;
    const block = inside ? this.blocks.find(({ first, rows }) => row < first + rows) : null;
    return block && { block, row: row - block.first, x: x + MARGIN.left, y: y + MARGIN.top };
  }

  nodeAt(event) {
    const at = this.blockAt(event);
    return at && at.block.own ? at.row : null;
  }

  point(event) {
    const at = this.blockAt(event);
    this.stage.hover(this.nodeAt(event));
    if (!at) this.tip.hide();
    else this.tip.show(at.x, at.y, [named(at.block), counted(at.block), at.block.own ? "" : "its text is not sent here"].filter(Boolean));
  }

  // The selected node's row, in the run's own block.
  select({ node }) {
    if (!this.shared) return;
    const pen = freshPen(this.over, this.width, this.height);
    const own = this.blocks.find((block) => block.own);
    if (node === null || !own || node >= own.rows) return;
    pen.fillStyle = colourOf(this.host, "--ink");
    pen.globalAlpha = 0.3;
    pen.fillRect(MARGIN.left, MARGIN.top + (own.first + node) * this.cell, this.side, Math.max(2, this.cell));
  }

  svg() {
    return this.shared && drawnAsSvg(this.width, this.height, colourOf(this.host, "--panel"), (pen) => this.drawSheet(pen));
  }
}

define({
  name: "batch",
  title: "Batch",
  caption: "The rows of all runs in one pass.",
  place: { row: "lower", share: 1.1 },
  when: (stage) => stage.present.shared,
  legend: [
    { glyph: "■", label: "yours", color: "--accent", title: "The rows of the run shown here" },
    { glyph: "▣", label: "others", title: "The rows of other people's runs, one colour each; a row sees only its own run" },
    { glyph: "□", label: "hidden", title: "Hidden from the row: another branch, or another run" },
  ],
  create: (host, stage) => new BatchPanel(host, stage),
});
