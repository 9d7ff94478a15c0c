// The forward pass that several runs share: the rows of each run are a block of one mask, in one colour. Of other people's runs
// the page receives only the shape of the tree and the kept rows, never their text.

import { box, group, html, joinPaths, path, put, render } from "../shared/ink.js";
import { Grid } from "./mask.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { counted } from "../shared/round.js";
import { define } from "../shared/define.js";

const MARGIN = { left: 10, top: 10, bottom: 10, gap: 14 };
const LIST = { min: 112, share: 0.44, max: 300 }; // pixels, and of the panel's width
const COLOURS = 8;

/** A block of the pass. @typedef {ReturnType<typeof placeBlocks>["blocks"][number]} PlacedBlock */

// The blocks of a pass with their first rows, names and colours, and how many rows the pass has.
function placeBlocks(/** @type {NonNullable<Round["shared"]>} */ shared) {
  let total = 0;
  const blocks = shared.blocks.map((block) => {
    const [first, rows, own] = [total, block.parents.length, block.seat === shared.own];
    total += rows;
    const look = own ? { name: "yours", colour: "var(--accent)" }
      : { name: `run ${block.seat + 1}`, colour: `var(--run-${(block.seat % COLOURS) + 1})` };
    return { ...block, ...look, first, rows, own, words: `${counted(rows, "row")}, ${block.keep.length} kept` };
  });
  return { blocks, rows: total };
}

// A sentence that names the runs with a shared total of rows; "" if fewer than two have one.
function sharedTotalSentence(/** @type {PlacedBlock[]} */ blocks) {
  const shared = blocks.filter((block) => block.poolsRows).map(({ name }) => name);
  if (shared.length < 2) return "";
  const words = shared.length === blocks.length ? "all runs" : new Intl.ListFormat("en-GB").format(shared);
  return `${words[0].toUpperCase()}${words.slice(1)} (auto) share one total of rows.`;
}

class BatchPanel extends DrawnPanel {
  blocks = /** @type {PlacedBlock[]} */ ([]);
  rows = 0;
  grid = new Grid(1, 1, 1, MARGIN);
  waiting = "When several runs share the passes, the rows of all of them are shown here.";
  list = html("div", {
    class: "cp-scroll cp-batch-list", tabIndex: 0, role: "group", "aria-label": "Runs of this pass (scrollable)",
  }, this.host);

  drawRound(/** @type {Round} */ { shared }) {
    if (!shared) {
      this.empty.say("This round was not shared", "The run had the pass to itself, or it is a recording: only a live run shows who shared it.");
      return;
    }
    Object.assign(this, placeBlocks(shared));
    // The mask on the left, the list on what is left of the width.
    const { width, height } = this.room;
    const listed = Math.min(LIST.max, Math.max(LIST.min, width * LIST.share));
    const room = Math.max(40, Math.min(width - listed - MARGIN.left - MARGIN.gap, height - MARGIN.top - MARGIN.bottom));
    this.grid = new Grid(room, this.rows, 24, MARGIN);
    this.setSize(width, height);
    this.list.style.left = `${Math.ceil(MARGIN.left + this.grid.side + MARGIN.gap)}px`;
    this.drawBlocks();
    this.drawList(shared.runs);
  }

  // Every pair (row, ancestor-or-self); what was kept in full colour.
  drawBlocks() {
    const { left, top, side, cell } = this.grid;
    const frames = this.blocks.map((block) => {
      const size = Math.max(2, block.rows * cell);
      return path("cp-mask-block", box(left + block.first * cell, top + block.first * cell, size, size),
        { style: `--o: ${block.colour}; stroke-width: ${block.own ? 2 : 1}` });
    });
    render(this.drawing, [path("cp-mask-ground", box(left, top, side, side)),
      group(joinPaths(this.blocks.flatMap((block) => this.cellsOf(block))), "cp-mask-cells"), group(frames)]);
    const each = this.blocks.map((block) => `${block.name}: ${block.words}`).join("; ");
    put(this.canvas, { "aria-label": `Pass of round ${this.round.index + 1}: ${this.rows} rows of ${this.blocks.length} runs. ${each}` });
  }

  cellsOf(/** @type {PlacedBlock} */ block) {
    const cells = [];
    for (let row = 0; row < block.rows; row++) {
      const look = { style: `--o: ${block.colour}`, "fill-opacity": block.keep.includes(row) ? 1 : 0.42 };
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
      html("i", "cp-batch-sign", name).style.background = block.colour;
      name.append(block.name);
      html("td", "", row, String(block.rows));
      html("td", "", row, String(block.keep.length));
    }
    const others = runs - this.blocks.length;
    const sentences = [sharedTotalSentence(this.blocks), others > 0 ? `Not in this pass: ${counted(others, "more run")}.` : ""];
    this.list.replaceChildren(table, ...sentences.filter(Boolean).map((words) => html("p", "", null, words)));
  }

  pointedAt(/** @type {MouseEvent} */ event) {
    const [x, y] = placeIn(this.canvas, event);
    const cell = this.grid.find(x, y);
    const block = cell && cell.column >= 0 && this.blocks.find(({ first, rows }) => cell.row < first + rows);
    return block ? { node: block.own ? cell.row - block.first : null, block } : null;
  }

  tipLines(/** @type {Pointed & { block: PlacedBlock }} */ { block }) {
    return [block.name, block.words, ...(block.own ? [] : ["its text is not sent here"])];
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
  create: (host, stage) => new BatchPanel(host, stage, "batch"),
});
