// The forward pass that several runs share: the rows of each run are a block of one mask, in one colour. Of other people's runs
// the page receives only the shape of the tree and the kept rows, never their text.

/** @import { Pointed } from "./panel.js" */

import { box, group, html, joinPaths, path, put, render } from "../shared/ink.js";
import { Grid } from "./mask.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { counted } from "../shared/round.js";
import { define } from "../shared/define.js";

const MARGIN = { left: 10, top: 10, bottom: 10, gap: 14 };
const LIST = { min: 112, share: 0.44, max: 300 }; // pixels, and of the panel's width
const COLOURS = 8;

/** A block of the pass: its first row, how many it has, and whether they are of the run that is shown.
 *  @typedef {PassBlock & { first: number, rows: number, own: boolean }} PlacedBlock */

// The blocks of a pass in their places, and how many rows it has.
function placeBlocks(/** @type {NonNullable<Round["shared"]>} */ shared) {
  let rows = 0;
  const blocks = shared.blocks.map((block) => {
    const placement = { ...block, first: rows, rows: block.parents.length, own: block.seat === shared.own };
    rows += block.parents.length;
    return placement;
  });
  return { blocks, rows };
}

function colourOf(/** @type {PlacedBlock} */ block) {
  return `var(${block.own ? "--accent" : `--run-${(block.seat % COLOURS) + 1}`})`;
}

/** @param {PlacedBlock} block */
function wordsFor(block) {
  return `${counted(block.rows, "row")}, ${block.keep.length} kept`;
}

function nameOf(/** @type {PlacedBlock} */ block) {
  return block.own ? "yours" : `run ${block.seat + 1}`;
}

// A sentence that names the runs with a shared total of rows; "" if fewer than two have one.
function sharedTotalSentence(/** @type {PlacedBlock[]} */ blocks) {
  const shared = blocks.filter((block) => block.poolsRows).map(nameOf);
  if (shared.length < 2) return "";
  const words = shared.length === blocks.length ? "all runs"
    : `${shared.slice(0, -1).join(", ")} and ${shared.at(-1)}`;
  return `${words[0].toUpperCase()}${words.slice(1)} (auto) share one total of rows.`;
}

class BatchPanel extends DrawnPanel {
  blocks = /** @type {PlacedBlock[]} */ ([]);
  rows = 0;
  grid = new Grid(1, 1, 1);

  /** @param {HTMLElement} host @param {Stage} stage */
  constructor(host, stage) {
    super(host, stage, "batch", { role: "img" });
    this.list = html("div", {
      class: "cp-scroll cp-batch-list", tabIndex: 0, role: "group", "aria-label": "Runs of this pass (scrollable)",
    }, host);
    this.listen();
  }

  draw(/** @type {Round | null} */ round) {
    const known = this.begin(round, "When several runs share the passes, the rows of all of them are shown here.");
    const shared = round?.shared ?? null;
    this.blocks = [];
    this.setVisible(shared !== null);
    this.list.hidden = !shared;
    if (known && !shared) {
      this.empty.say("This round was not shared", "The run had the pass to itself, or it is a recording: only a live run shows who shared it.");
    }
    if (!shared) return;
    Object.assign(this, placeBlocks(shared));
    this.measure();
    this.drawBlocks();
    this.drawList(shared.runs);
    this.select(this.stage.selection);
  }

  // The mask on the left, the list on what is left of the width.
  measure() {
    const { width, height } = this.room;
    const listed = Math.min(LIST.max, Math.max(LIST.min, width * LIST.share));
    const room = Math.max(40, Math.min(width - listed - MARGIN.left - MARGIN.gap, height - MARGIN.top - MARGIN.bottom));
    this.grid = new Grid(room, this.rows, 24).at(MARGIN.left, MARGIN.top);
    this.setSize(width, height);
    this.list.style.left = `${Math.ceil(MARGIN.left + this.grid.side + MARGIN.gap)}px`;
  }

  // Every pair (row, ancestor-or-self); what was kept in full colour.
  drawBlocks() {
    const { left, top, side, cell } = this.grid;
    const frames = this.blocks.map((block) => {
      const size = Math.max(2, block.rows * cell);
      return path("cp-mask-block", box(left + block.first * cell, top + block.first * cell, size, size),
        { style: `--o: ${colourOf(block)}; stroke-width: ${block.own ? 2 : 1}` });
    });
    render(this.drawing, [path("cp-mask-ground", box(left, top, side, side)),
      group(joinPaths(this.blocks.flatMap((block) => this.cellsOf(block))), "cp-mask-cells"), group(frames)]);
    const each = this.blocks.map((block) => `${nameOf(block)}: ${wordsFor(block)}`).join("; ");
    put(this.canvas, { "aria-label": `Pass of round ${this.round.index + 1}: ${this.rows} rows of ${this.blocks.length} runs. ${each}` });
  }

  cellsOf(/** @type {PlacedBlock} */ block) {
    const cells = [];
    for (let row = 0; row < block.rows; row++) {
      const look = { style: `--o: ${colourOf(block)}`, "fill-opacity": block.keep.includes(row) ? 1 : 0.42 };
      for (let key = row; ; key = block.parents[key]) {
        cells.push(path("", this.grid.square(block.first + row, block.first + key), look));
        if (key === 0) break;
      }
    }
    return cells;
  }

  drawList(/** @type {number} */ runs) {
    const table = html("table");
    const head = html("tr", "", html("thead", "", table));
    for (const words of ["run", "rows", "kept"]) html("th", "", head, words).scope = "col";
    const body = html("tbody", "", table);
    for (const block of this.blocks) {
      const row = html("tr", block.own ? "is-own" : "", body);
      const name = html("th", { scope: "row" }, row);
      html("i", "cp-batch-sign", name).style.background = colourOf(block);
      name.append(nameOf(block));
      html("td", "", row, String(block.rows));
      html("td", "", row, String(block.keep.length));
    }
    const pooled = sharedTotalSentence(this.blocks);
    const others = runs - this.blocks.length;
    const elsewhere = others > 0
      ? html("p", "", null, `Not in this pass: ${counted(others, "more run")}.`) : "";
    this.list.replaceChildren(table, pooled ? html("p", "", null, pooled) : "", elsewhere);
  }

  pointedAt(/** @type {MouseEvent} */ event) {
    const [x, y] = placeIn(this.canvas, event);
    const cell = this.grid.find(x, y);
    const block = cell && cell.column >= 0 && this.blocks.find(({ first, rows }) => cell.row < first + rows);
    return block ? { node: block.own ? cell.row - block.first : null, block, x, y } : null;
  }

  tipLines(/** @type {Pointed & { block: PlacedBlock }} */ { block }) {
    return [nameOf(block), wordsFor(block), ...(block.own ? [] : ["its text is not sent here"])];
  }

  // The selected node's row, in the run's own block.
  marksOf(/** @type {number} */ node) {
    const own = this.blocks.find((block) => block.own);
    if (!own || node >= own.rows) return [];
    const { left, top, side, cell } = this.grid;
    return [path("cp-batch-lit", box(left, top + (own.first + node) * cell, side, Math.max(2, cell)))];
  }
}

define({
  name: "batch",
  title: "Batch",
  caption: "The rows of all runs in one pass.",
  place: { row: "lower", share: 1.1 },
  when: (stage) => stage.run.present.shared,
  legend: [
    { glyph: "■", label: "yours", color: "--accent", title: "The rows of the run shown here" },
    { glyph: "▣", label: "others", title: "The rows of other people's runs, one colour each; a row sees only its own run" },
    { glyph: "□", label: "hidden", title: "Hidden from the row: another branch, or another run" },
  ],
  create: (host, stage) => new BatchPanel(host, stage),
});
