// The draft tree as an icicle: a cell for each node under its parent's, as wide as its branch has nodes; those of the accepted path
// are never narrow. A click opens a bundle of narrow siblings, or leads back to an ancestor (◂) that is wider than the view.

import { box, clip, group, joinPaths, MONO, outline, path, render, opacityOf, text, textWidth } from "../shared/ink.js";
import { counted } from "../shared/round.js";
import { TreeMarks } from "./tree_marks.js";

const MARGIN = { left: 42, top: 2, right: 10, bottom: 6 };
const ROW = { min: 9.5, max: 44 }; // pixels: words fit, and a pan leads to the deepest rows
const MIN_SHARE = { kept: 0.12, bonus: 0.08 }; // of the root's width
const MIN_SPAN = 1e-4; // of the root's width
const LABEL = { row: 9.5, room: 24, opened: 40 }; // pixels of a labelled cell, alone and in an opened bundle
const WORD_ROW = 14; // pixels of a row when zoomed in: high enough for words
const FONT = { small: `9px ${MONO}`, normal: `10.5px ${MONO}` }; // small in rows of under 13 pixels

/** Where each node's cell begins and how wide it is; the root's width is 1. Children share their parent's by the nodes of their
 *  branches, the largest first, after a part for the path's next node, or for the bonus beside the last one's.
 *  @param {Layout["children"]} unsorted @param {number[]} keep */
export function cellsOf(unsorted, keep) {
  const kept = new Set(keep);
  const size = unsorted.length;
  const [left, width, count] = [new Float64Array(size), new Float64Array(size), new Float64Array(size).fill(1)];
  for (let node = size - 1; node >= 0; node--) for (const child of unsorted[node]) count[node] += count[child];
  const children = unsorted.map((list) => list.toSorted((one, other) => Number(kept.has(other)) - Number(kept.has(one)) || count[other] - count[one]));
  width[0] = 1;
  let bonus = 0; // its width
  for (let node = 0; node < size; node++) {
    const isTail = node === keep[keep.length - 1];
    const reserved = isTail ? Math.min(width[node] / 2, MIN_SHARE.bonus) : kept.has(node) ? MIN_SHARE.kept : 0;
    let start = left[node] + (isTail ? reserved : 0);
    if (isTail) bonus = children[node].length ? reserved : width[node];
    for (const child of children[node]) {
      left[child] = start;
      width[child] = ((width[node] - reserved) * count[child]) / (count[node] - 1) + (kept.has(child) ? reserved : 0);
      start += width[child];
    }
  }
  return { left, width, bonus, children };
}

/** @param {string} words @param {string} look @param {number} x @param {number} middle */
const cellText = (words, look, x, middle) => text(`cp-cell-text ${look}`, words, x, middle + 3.5, { "aria-hidden": "true" });

export class Icicle extends TreeMarks {
  cells = cellsOf([[]], [0]);
  bundled = /** @type {Set<number>} */ (new Set()); // nodes in or under a cell that stands for several
  row = ROW.max;
  rowCount = 1; // depths of which something is drawn
  top = MARGIN.top; // of the first row
  from = 0; // the visible part, in widths of the root
  span = 1;

  draw() {
    const { round, layout, height } = this.panel;
    this.cells = cellsOf(layout.children, round.keep);
    const shown = Array.from(round.tokens.keys()).filter((node) => this.shown(node));
    const groups = this.findBundles(shown);
    const single = shown.filter((node) => !this.bundled.has(node));
    this.rowCount = Math.max(round.keep.length, ...[...single, ...groups.flat()].map((node) => layout.columns[node])) + 1;
    const fitting = Math.max(ROW.min, Math.min(ROW.max, (height - MARGIN.top - MARGIN.bottom) / this.rowCount));
    this.row = this.span < 1 ? Math.max(fitting, WORD_ROW) : fitting;
    this.top = Math.min(MARGIN.top, Math.max(this.top, height - MARGIN.bottom - this.row * this.rowCount));
    this.radius = Math.max(1.5, Math.min(6, this.row / 3));
    const [rejected, accepted] = [false, true].map((lit) => single.filter((node) => this.isLit(node) === lit).map((node) => this.node(node)));
    const bundles = groups.map((group) => ({ ...this.boxAround(group), count: group.reduce((sum, node) => sum + 1 + this.descendants(node), 0) }));
    render(this.lines, [group(this.axis()), group(joinPaths(bundles.map((bundle) => outline("cp-bundle", bundle)))),
      group(joinPaths(rejected)), group(joinPaths(accepted))]); // the accepted ones over their neighbours
    const counts = bundles.filter(({ width }) => this.row >= LABEL.row && width > 9).map(({ x, y, width, height: high, count }) => (
      cellText(textWidth(`+${count}`, FONT.small) <= width - 4 ? `+${count}` : "…", "is-small is-quiet", x + 2, y + high / 2)));
    const below = Math.ceil((this.top + this.row * this.rowCount - height) / this.row);
    const more = text("cp-axis-text is-end", below > 0 ? `▾ ${counted(below, "more depth")}` : "", this.panel.width - MARGIN.right, height - 4);
    render(this.points, [more, group(this.bonus(round.keep[round.keep.length - 1])), group(this.cellLabels(single)), group(counts)]);
  }

  /** Groups of siblings too narrow for labels, which are drawn as one cell. @param {number[]} shown */
  findBundles(shown) {
    const { round, parents } = this.panel;
    const min = (LABEL.room * this.span) / this.room;
    this.bundled.clear();
    return shown.flatMap((node) => {
      if (node && this.bundled.has(parents[node])) this.bundled.add(node);
      if (this.bundled.has(node)) return [];
      const narrow = this.cells.children[node].filter((child) => !round.kept.has(child) && super.shown(child) && this.cells.width[child] < min);
      for (const child of narrow) this.bundled.add(child);
      return narrow.some((child) => this.shown(child)) ? [narrow] : [];
    });
  }

  isWider(/** @type {number} */ node) { // than the view
    return this.cells.width[node] > this.span * 1.001;
  }

  get room() {
    return this.panel.width - MARGIN.left - MARGIN.right;
  }

  shown(/** @type {number} */ node) {
    const { cells, from, span } = this;
    return super.shown(node) && cells.left[node] < from + span && cells.left[node] + cells.width[node] > from;
  }

  // Shows a part of the root's width.
  setWindow(/** @type {number} */ from, /** @type {number} */ span) {
    const before = [this.from, this.span];
    this.span = Math.min(1, Math.max(MIN_SPAN, span));
    this.from = Math.max(0, Math.min(1 - this.span, from));
    return this.from !== before[0] || this.span !== before[1];
  }

  widen() {
    return this.setWindow(0, 1);
  }

  /** @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    const share = (x - MARGIN.left) / this.room;
    if (this.span === 1 && factor > 1) this.top = y - ((y - this.top) / this.row) * Math.max(this.row, WORD_ROW); // the row there stays
    return this.setWindow(this.from + this.span * share * (1 - 1 / factor), this.span / factor);
  }

  pan(/** @type {number} */ right, /** @type {number} */ down) {
    this.top += down;
    this.setWindow(this.from - (this.span * right) / this.room, this.span);
  }

  /** Zooms to a cell, or out to its parent. @param {number} node @param {boolean} [zoomsIn] @param {number} [span] of the view */
  open(node, zoomsIn = this.span !== this.cells.width[node], span = this.cells.width[zoomsIn ? node : this.panel.parents[node]]) {
    const cell = zoomsIn ? node : this.panel.parents[node];
    if (!this.setWindow(this.cells.left[cell], span)) return;
    this.panel.tip.hide(); // it told about the view before
    this.top = MARGIN.top - Math.max(0, this.panel.layout.columns[cell] - 1) * WORD_ROW; // its parent's row comes first
    this.panel.repaint();
  }

  /** How many nodes hang below a node. @param {number} node @returns {number} */
  descendants(node) {
    return this.cells.children[node].reduce((sum, child) => sum + 1 + this.descendants(child), 0);
  }

  boxAround(/** @type {number[]} */ bundle) {
    const [first, last] = [this.boxOf(bundle[0]), this.boxOf(bundle[bundle.length - 1])];
    return { ...first, width: last.x + last.width - first.x };
  }

  /** The cells of a bundle. @param {number} node */
  unnamedAt(node) {
    const { bundled, cells: { children }, panel: { parents } } = this;
    return bundled.has(node) ? children[parents[node]].filter((one) => bundled.has(one)) : [];
  }

  // Opens a bundle, so that as many of its cells as possible have names, or leads back to an ancestor. Returns whether it did.
  follow(/** @type {number} */ node) {
    const { cells: { left, width } } = this;
    const bundle = this.unnamedAt(node);
    const spans = bundle.map((one) => left[one] + width[one] - left[bundle[0]]);
    const last = bundle.findLastIndex((one, place) => width[one] * this.room >= LABEL.opened * spans[place]);
    if (last < 0 && !this.isWider(node)) return false;
    if (last < 0) this.open(node, true);
    else this.open(bundle[0], true, Math.min(1.05 * spans[last], spans[spans.length - 1])); // and a part of the next one
    return true;
  }

  boxOf(/** @type {number} */ node) {
    const { cells, panel: { layout } } = this;
    return this.boxAt(cells.left[node], cells.width[node], layout.columns[node]);
  }

  /** @param {number} left @param {number} width in widths of the root @param {number} depth @returns {Box} */
  boxAt(left, width, depth) {
    const [start, end] = [left, left + width].map((share) => Math.max(0, Math.min(1, (share - this.from) / this.span)) * this.room);
    const gap = end - start > 4 ? 1 : 0;
    return { x: MARGIN.left + start, y: this.top + depth * this.row, width: end - start - gap, height: this.row > 6 ? this.row - 1 : this.row };
  }

  at(/** @type {number} */ node) {
    const { x, y, width, height } = this.boxOf(node);
    return [x + width / 2, y + height / 2];
  }

  nearest(/** @type {number} */ x, /** @type {number} */ y) {
    const { round } = this.panel;
    const within = (/** @type {number} */ node) => {
      const { x: left, y: top, width } = this.boxOf(node);
      return this.shown(node) && !this.bundled.has(this.panel.parents[node]) && y >= top && y < top + this.row && x >= left && x < left + width + 1; // with the gap to the next
    };
    const found = Array.from(round.tokens.keys()).find(within) ?? -1; // of a bundle, the likeliest stands for all
    return this.unnamedAt(found).filter((one) => this.shown(one)).toSorted((one, other) => round.logprobs[other] - round.logprobs[one])[0] ?? (found < 0 ? null : found);
  }

  node(/** @type {number} */ node) {
    const { x, y, width, height } = this.boxOf(node);
    const lit = this.isLit(node);
    const fade = lit ? 1 : (Math.round(opacityOf(this.panel.ink(node), 0.4) * 10) / 10).toFixed(1);
    const d = box(x.toFixed(1), y.toFixed(1), width.toFixed(1), height.toFixed(1));
    return path(`cp-node is-cell is-${lit ? "accepted" : "rejected"} o-${this.panel.round.origin(node)}`, d, { "stroke-opacity": fade });
  }

  axis() {
    if (this.row < LABEL.row) return [];
    return Array.from({ length: this.rowCount }, (_, column) =>
      text("cp-axis-text is-mid", column ? String(column) : "depth 0", MARGIN.left / 2, this.top + (column + 0.5) * this.row + 3.5));
  }

  bonus(/** @type {number} */ tail) {
    if (!this.bonusReached(tail)) return [];
    const { round, layout } = this.panel;
    const { x, y, width, height } = this.boxAt(this.cells.left[tail], this.cells.bonus, layout.columns[tail] + 1);
    const size = Math.max(2, Math.min(7, this.row / 2 - 2));
    const words = this.row < LABEL.row ? "" : clip(round.show(round.bonus), width - 2 * size - 6, FONT.normal);
    const middle = y + height / 2;
    return width < 3 * size ? [] : [
      path("cp-bonus", `M${(x + size + 1).toFixed(1)},${(middle - size).toFixed(1)}l${size},${size} -${size},${size} -${size},-${size}Z`),
      cellText(words, "is-bonus", x + 2 * size + 5, middle)];
  }

  cellLabels(/** @type {number[]} */ shown) {
    const { round } = this.panel;
    if (this.row < LABEL.row) return [];
    return shown.map((node) => {
      const { x, y, width, height } = this.boxOf(node);
      const name = `${this.isWider(node) ? "◂ " : ""}${round.show(round.tokens[node])}`;
      const size = this.row < 13 || textWidth(name, FONT.normal) > width - 6 ? "small" : "normal";
      const words = clip(name, width - 6, FONT[size]).replace(/^.{1,3}…$/u, "…"); // too little to be a word
      return cellText(words, `is-${size}${this.isLit(node) ? " is-accepted" : ""}`, x + 3, y + height / 2);
    });
  }

  select(/** @type {number | null} */ selected, /** @type {number[]} */ matches) {
    const { round } = this.panel;
    const drawn = (/** @type {number} */ node) => round.path(node).find((step) => this.bundled.has(step)) ?? node; // for what is below it
    const cellOf = (/** @type {number} */ node) => this.boxAround(this.bundled.has(node) ? this.unnamedAt(node) : [node]);
    const around = (/** @type {string} */ look, /** @type {number[]} */ nodes) => nodes.map((node) => outline(look, cellOf(drawn(node)), 1));
    const isShown = selected !== null && selected < round.n && this.shown(selected);
    render(this.chosen, isShown ? around("cp-chosen", round.path(selected).slice(1)) : []);
    render(this.panel.marked, [...(isShown ? around("cp-ring", [selected]) : []), ...around("cp-found", matches.filter((node) => this.shown(node)))]);
  }
}
