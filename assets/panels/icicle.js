// The draft tree as an icicle: a cell for each node under its parent's, as wide as the path is probable. What stays free under
// a cell is probability that no node was spent on. Zoomed in, the cells above one stand over all of it and lead back, and
// rows are high enough for words.

/** @import { Layout } from "./layout.js" */

import { box, clip, group, joinPaths, MONO, path, render, opacityOf, text } from "../shared/ink.js";
import { TreeMarks } from "./tree_marks.js";

const MARGIN = { left: 34, top: 6, right: 10, bottom: 6 };
const ROW = { least: 2, most: 44 }; // pixels
const MIN_KEPT_WIDTH = 3; // pixels: the accepted path is seen however improbable it was
const MIN_SPAN = 1e-7; // of the root's width
const LABEL = { row: 9.5, room: 16 }; // pixels of a cell from which it is labelled
const WORD_ROW = 14; // pixels of a row if a part is looked at
const FONT = { small: `9px ${MONO}`, normal: `10.5px ${MONO}` }; // small in rows of under 13 pixels

/**
 * Where each node's cell begins and how wide it is, of a root of width 1. Two drafters' children of one node may have more
 * than all of its probability together; they are narrowed alike.
 * @param {ArrayLike<number>} logprobs cumulative, by node @param {Layout["children"]} children
 */
export function cellsOf(logprobs, children) {
  const size = logprobs.length;
  const [left, width] = [new Float64Array(size), new Float64Array(size)];
  width[0] = 1;
  for (let node = 0; node < size; node++) {
    const below = children[node].filter((child) => child < size);
    const shares = below.map((child) => Math.exp(logprobs[child] - logprobs[node]));
    const known = shares.every(Number.isFinite); // another engine may not have recorded them
    const total = known ? Math.max(1, shares.reduce((sum, share) => sum + share, 0)) : below.length;
    let start = left[node];
    below.forEach((child, place) => {
      left[child] = start;
      width[child] = (width[node] * (known ? shares[place] : 1)) / total;
      start += width[child];
    });
  }
  return { left, width };
}

export class Icicle extends TreeMarks {
  cells = cellsOf([0], [[]]);
  row = ROW.most;
  top = MARGIN.top; // of the first row
  from = 0; // what is in sight, of a root of width 1
  span = 1;

  draw() {
    const { round, layout, height } = this.panel;
    this.cells = cellsOf(round.logprobs, layout.children);
    const fitting = Math.max(ROW.least, Math.min(ROW.most, (height - MARGIN.top - MARGIN.bottom) / layout.columnCount));
    this.row = this.span < 1 ? Math.max(fitting, WORD_ROW) : fitting;
    this.top = Math.min(MARGIN.top, Math.max(this.top, height - MARGIN.bottom - this.row * layout.columnCount));
    this.radius = Math.max(1.5, Math.min(6, this.row / 3));
    const shown = Array.from({ length: round.n }, (_, node) => node).filter((node) => this.shown(node));
    const [rejected, accepted] = [shown.filter((node) => !this.lit(node)), shown.filter((node) => this.lit(node))];
    render(this.lines, [group(this.axis()), group(joinPaths(rejected.map((node) => this.node(node)))),
      group(joinPaths(accepted.map((node) => this.node(node))))]); // the accepted ones over their neighbours
    render(this.points, [group(this.bonus(round.keep[round.keep.length - 1])), group(this.cellLabels(shown))]);
    this.drawItemsLater();
  }

  get room() {
    return this.panel.width - MARGIN.left - MARGIN.right;
  }

  shown(/** @type {number} */ node) {
    const { cells, from, span } = this;
    return super.shown(node) && cells.left[node] < from + span && cells.left[node] + cells.width[node] > from;
  }

  // Shows a part of the root's width.
  look(/** @type {number} */ from, /** @type {number} */ span) {
    const before = [this.from, this.span];
    this.span = Math.min(1, Math.max(MIN_SPAN, span));
    this.from = Math.max(0, Math.min(1 - this.span, from));
    return this.from !== before[0] || this.span !== before[1];
  }

  widen() {
    return this.look(0, 1);
  }

  /** @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    const share = (x - MARGIN.left) / this.room;
    if (this.span === 1 && factor > 1) this.top = y - ((y - this.top) / this.row) * Math.max(this.row, WORD_ROW); // the row there stays
    return this.look(this.from + this.span * share * (1 - 1 / factor), this.span / factor);
  }

  /** @param {number} right @param {number} down */
  pan(right, down) {
    this.top += down;
    this.look(this.from - (this.span * right) / this.room, this.span);
  }

  reveal() {
    this.widen();
  }

  /** A cell and what is under it in the whole width, or what is around it. @param {number} node @param {boolean} [is] */
  open(node, is = this.span !== this.cells.width[node]) {
    const cell = is ? node : this.panel.parents[node];
    if (!this.look(this.cells.left[cell], this.cells.width[cell])) return;
    this.top = MARGIN.top - Math.max(0, this.panel.layout.columns[cell] - 1) * WORD_ROW; // its parent's row comes first
    this.panel.repaint();
  }

  frame(/** @type {number} */ node) {
    const { cells, panel: { layout, round } } = this;
    const at = (/** @type {number} */ share) => Math.max(0, Math.min(1, (share - this.from) / this.span)) * this.room;
    const left = at(cells.left[node]);
    const full = at(cells.left[node] + cells.width[node]) - left;
    const least = round.kept.has(node) ? MIN_KEPT_WIDTH : 0;
    return { x: MARGIN.left + left, y: this.top + layout.columns[node] * this.row,
      wide: Math.max(least, full > 4 ? full - 1 : full), high: this.row > 6 ? this.row - 1 : this.row };
  }

  at(/** @type {number} */ node) {
    const { x, y, wide, high } = this.frame(node);
    return [x + wide / 2, y + high / 2];
  }

  /** @param {number} x @param {number} y */
  nearest(x, y) {
    const { round } = this.panel;
    const within = (/** @type {number} */ node) => {
      const { x: left, y: top, wide } = this.frame(node);
      return this.shown(node) && y >= top && y < top + this.row && x >= left && x < left + wide;
    };
    const found = round.keep.find(within) ?? Array.from({ length: round.n }, (_, node) => node).find(within);
    return found ?? null;
  }

  node(/** @type {number} */ node) {
    const { x, y, wide, high } = this.frame(node);
    const lit = this.lit(node);
    const fade = lit ? 1 : (Math.round(opacityOf(this.panel.ink(node), 0.4) * 10) / 10).toFixed(1);
    const d = box(x.toFixed(1), y.toFixed(1), wide.toFixed(1), high.toFixed(1));
    return path(`cp-node is-cell is-${lit ? "accepted" : "rejected"} o-${this.panel.round.origin(node)}`, d, { "stroke-opacity": fade });
  }

  axis() {
    if (this.row < LABEL.row) return [];
    return Array.from({ length: this.panel.layout.columnCount }, (_, column) =>
      text("cp-axis-text", String(column), MARGIN.left / 2, this.top + (column + 0.5) * this.row + 3.5));
  }

  bonus(/** @type {number} */ tail) {
    if (!this.reached(tail)) return [];
    const { x, y, wide } = this.frame(tail);
    const size = Math.max(2, Math.min(7, this.row / 2 - 2));
    const d = `M${(x + wide / 2).toFixed(1)},${(y + this.row).toFixed(1)}l${size},${size} -${size},${size} -${size},-${size}Z`;
    return [path("cp-bonus", d)];
  }

  cellLabels(/** @type {number[]} */ shown) {
    const { round } = this.panel;
    if (this.row < LABEL.row) return [];
    const size = this.row < 13 ? "small" : "normal";
    return shown.flatMap((node) => {
      const { x, y, wide, high } = this.frame(node);
      const words = wide < LABEL.room ? "" : clip(round.show(round.tokens[node]), wide - 6, FONT[size]);
      const look = `cp-cell-text is-${size}${this.lit(node) ? " is-accepted" : ""}`;
      return words ? [text(look, words, x + 3, y + high / 2 + 3.5, { "aria-hidden": "true" })] : [];
    });
  }

  /** @param {number | null} selected @param {number[]} matches */
  select(selected, matches) {
    const there = selected !== null && selected < this.panel.round.n && this.shown(selected);
    const outline = (/** @type {string} */ look) => (/** @type {number} */ node) => {
      const { x, y, wide, high } = this.frame(node);
      return path(look, box(x - 1, y - 1, wide + 2, high + 2));
    };
    render(this.chosen, there ? this.panel.round.path(selected).slice(1).map(outline("cp-chosen")) : []);
    render(this.panel.marked, [...(there ? [selected] : []).map(outline("cp-ring")),
      ...matches.filter((node) => this.shown(node)).map(outline("cp-found"))]);
  }
}
