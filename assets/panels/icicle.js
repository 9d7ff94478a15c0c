// The draft tree as an icicle: a cell for each node under its parent's, as wide as its path is probable. Free space under a
// cell is probability that no node covers. When zoomed in, the ancestors' cells span the whole width: a click leads back.

import { box, clip, group, joinPaths, MONO, outline, path, render, opacityOf, text, textWidth } from "../shared/ink.js";
import { TreeMarks } from "./tree_marks.js";

const MARGIN = { left: 34, top: 6, right: 10, bottom: 6 };
const ROW = { min: 2, max: 44 }; // pixels
const MIN_KEPT_WIDTH = 3; // pixels, so that an improbable accepted path is still seen
const MIN_HOLLOW_WIDTH = 6; // pixels: the outline of a narrower cell would fill it
const MIN_SPAN = 1e-7; // of the root's width
const LABEL = { row: 9.5, room: 24 }; // pixels of a cell from which it is labelled; narrower siblings are one bundle
const WORD_ROW = 14; // pixels of a row when zoomed in: high enough for words
const FONT = { small: `9px ${MONO}`, normal: `10.5px ${MONO}` }; // small in rows of under 13 pixels

/**
 * Where each node's cell begins and how wide it is; the root's width is 1. If the children of two drafters sum to more than
 * their parent's probability, all of them are narrowed by one factor.
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

/** The same cells, with those beside a probable accepted path widened until they have half of the room. What hangs on one node
 *  of the path keeps its proportions. @param {ReturnType<typeof cellsOf>} cells @param {number[]} keep */
export function widened({ left, width }, keep) {
  const edges = [...keep.map((node) => width[node]), 0];
  const power = Math.max(0.3, Math.min(1, Math.log(0.5) / Math.log(1 - edges[keep.length >> 1]))); // half at the path's middle
  const place = (/** @type {number} */ share) => {
    const next = edges.findIndex((edge) => edge <= share);
    if (next < 1) return 1;
    const [low, high] = [edges[next], edges[next - 1]].map((edge) => 1 - (1 - edge) ** power);
    return low + ((high - low) * (share - edges[next])) / (edges[next - 1] - edges[next]);
  };
  const starts = left.map(place);
  return { left: starts, width: width.map((wide, node) => place(left[node] + wide) - starts[node]) };
}

export class Icicle extends TreeMarks {
  cells = cellsOf([0], [[]]);
  row = ROW.max;
  top = MARGIN.top; // of the first row
  from = 0; // the visible part, in widths of the root
  span = 1;

  draw() {
    const { round, layout, height } = this.panel;
    this.cells = widened(cellsOf(round.logprobs, layout.children), round.keep);
    const fitting = Math.max(ROW.min, Math.min(ROW.max, (height - MARGIN.top - MARGIN.bottom) / layout.columnCount));
    this.row = this.span < 1 ? Math.max(fitting, WORD_ROW) : fitting;
    this.top = Math.min(MARGIN.top, Math.max(this.top, height - MARGIN.bottom - this.row * layout.columnCount));
    this.radius = Math.max(1.5, Math.min(6, this.row / 3));
    const shown = Array.from(round.tokens.keys()).filter((node) => this.shown(node));
    const { bundles, bundled } = this.bundlesOf(shown);
    const single = shown.filter((node) => !bundled.has(node));
    const [rejected, accepted] = [false, true].map((lit) => single.filter((node) => this.isLit(node) === lit).map((node) => this.node(node)));
    render(this.lines, [group(this.axis()), group(joinPaths(bundles.map((bundle) => outline("cp-bundle", bundle)))),
      group(joinPaths(rejected)), group(joinPaths(accepted))]); // the accepted ones over their neighbours
    const counted = bundles.filter(({ width, count }) => this.row >= LABEL.row && textWidth(`+${count}`, FONT.small) <= width - 4);
    const counts = counted.map(({ x, y, height, count }) => (
      text("cp-cell-text is-small is-quiet", `+${count}`, x + 2, y + height / 2 + 3, { "aria-hidden": "true" })));
    render(this.points, [group(this.bonus(round.keep[round.keep.length - 1])), group(this.cellLabels(single)), group(counts)]);
  }

  /** Siblings too narrow for labels as one cell, and all nodes in or under such a cell. @param {number[]} shown */
  bundlesOf(shown) {
    const { round, layout, parents } = this.panel;
    const bundled = /** @type {Set<number>} */ (new Set());
    const bundles = /** @type {(Box & { count: number })[]} */ ([]);
    for (const node of shown) {
      if (node && bundled.has(parents[node])) bundled.add(node);
      if (bundled.has(node)) continue;
      const narrow = layout.children[node].filter((child) => !round.kept.has(child) && this.shown(child) && this.boxOf(child).width < LABEL.room);
      if (narrow.length < 2) continue;
      const [first, last] = [this.boxOf(narrow[0]), this.boxOf(narrow[narrow.length - 1])];
      const count = narrow.reduce((sum, child) => sum + 1 + this.panel.descendants(child), 0);
      bundles.push({ ...first, width: last.x + last.width - first.x, count });
      for (const child of narrow) bundled.add(child);
    }
    return { bundles, bundled };
  }

  shareOf(/** @type {number} */ node) {
    const { cells, panel: { layout } } = this;
    return [cells.left[node] + cells.width[node] / 2, (layout.columns[node] + 0.5) / layout.columnCount];
  }

  get view() {
    const high = this.row * this.panel.layout.columnCount;
    return { x: this.from, y: -(this.top - MARGIN.top) / high, width: this.span, height: this.panel.height / high };
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

  reveal() {
    this.widen();
  }

  /** Zooms to a cell, or out to its parent. @param {number} node @param {boolean} [zoomsIn] */
  open(node, zoomsIn = this.span !== this.cells.width[node]) {
    const cell = zoomsIn ? node : this.panel.parents[node];
    if (!this.setWindow(this.cells.left[cell], this.cells.width[cell])) return;
    this.top = MARGIN.top - Math.max(0, this.panel.layout.columns[cell] - 1) * WORD_ROW; // its parent's row comes first
    this.panel.repaint();
  }

  boxOf(/** @type {number} */ node) {
    const { cells, panel: { layout, round } } = this;
    const pixel = (/** @type {number} */ share) => Math.max(0, Math.min(1, (share - this.from) / this.span)) * this.room;
    const left = pixel(cells.left[node]);
    const fullWidth = pixel(cells.left[node] + cells.width[node]) - left;
    const minWidth = round.kept.has(node) ? MIN_KEPT_WIDTH : 0;
    return { x: MARGIN.left + left, y: this.top + layout.columns[node] * this.row,
      width: Math.max(minWidth, fullWidth > 4 ? fullWidth - 1 : fullWidth), height: this.row > 6 ? this.row - 1 : this.row };
  }

  at(/** @type {number} */ node) {
    const { x, y, width, height } = this.boxOf(node);
    return [x + width / 2, y + height / 2];
  }

  nearest(/** @type {number} */ x, /** @type {number} */ y) {
    const { round } = this.panel;
    const within = (/** @type {number} */ node) => {
      const { x: left, y: top, width } = this.boxOf(node);
      return this.shown(node) && y >= top && y < top + this.row && x >= left && x < left + width;
    };
    return [...round.keep, ...round.tokens.keys()].find(within) ?? null;
  }

  node(/** @type {number} */ node) {
    const { x, y, width, height } = this.boxOf(node);
    const lit = this.isLit(node);
    const fade = lit ? 1 : (Math.round(opacityOf(this.panel.ink(node), 0.4) * 10) / 10).toFixed(1);
    const d = box(x.toFixed(1), y.toFixed(1), width.toFixed(1), height.toFixed(1));
    const look = lit ? "is-accepted" : width < MIN_HOLLOW_WIDTH ? "is-rejected is-thin" : "is-rejected";
    return path(`cp-node is-cell ${look} o-${this.panel.round.origin(node)}`, d, { "stroke-opacity": fade });
  }

  axis() {
    if (this.row < LABEL.row) return [];
    return Array.from({ length: this.panel.layout.columnCount }, (_, column) =>
      text("cp-axis-text is-mid", String(column), MARGIN.left / 2, this.top + (column + 0.5) * this.row + 3.5));
  }

  bonus(/** @type {number} */ tail) {
    if (!this.bonusReached(tail)) return [];
    const { x, y, width } = this.boxOf(tail);
    const size = Math.max(2, Math.min(7, this.row / 2 - 2));
    const d = `M${(x + width / 2).toFixed(1)},${(y + this.row).toFixed(1)}l${size},${size} -${size},${size} -${size},-${size}Z`;
    return [path("cp-bonus", d)];
  }

  cellLabels(/** @type {number[]} */ shown) {
    const { round } = this.panel;
    if (this.row < LABEL.row) return [];
    const size = this.row < 13 ? "small" : "normal";
    return shown.flatMap((node) => {
      const { x, y, width, height } = this.boxOf(node);
      const words = width < LABEL.room ? "" : clip(round.show(round.tokens[node]), width - 6, FONT[size]);
      const look = `cp-cell-text is-${size}${this.isLit(node) ? " is-accepted" : ""}`;
      return words ? [text(look, words, x + 3, y + height / 2 + 3.5, { "aria-hidden": "true" })] : [];
    });
  }

  select(/** @type {number | null} */ selected, /** @type {number[]} */ matches) {
    const isShown = selected !== null && selected < this.panel.round.n && this.shown(selected);
    const around = (/** @type {string} */ look, /** @type {number[]} */ nodes) => nodes.map((node) => outline(look, this.boxOf(node), 1));
    render(this.chosen, isShown ? around("cp-chosen", this.panel.round.path(selected).slice(1)) : []);
    render(this.panel.marked, [...(isShown ? around("cp-ring", [selected]) : []), ...around("cp-found", matches.filter((node) => this.shown(node)))]);
  }
}
