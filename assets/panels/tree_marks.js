// Draws the draft tree from the panel's state: edges, nodes, the bonus, labels. Edges that look the same are one path, and so
// are nodes: a path for each of a thousand nodes would be slow.

/** @import { Camera } from "./layout.js" */
/** @import { TreePanel } from "./tree.js" */

import { box, clip, describe, group, joinPaths, MONO, path, render, opacityOf, svg, text, textWidth } from "../shared/ink.js";
import { DeferredDrawing } from "./panel.js";

const ITEMS_PER_FRAME = 128
const KEPT_RADIUS = 7;
const TICK = "M-2.9,0.2 L-0.9,2.4 L3,-2.3";
export const PATH_FONT = `600 12.5px ${MONO}`;
export const NAME_FONT = `10.5px ${MONO}`; // of drafted nodes
const SMALL_FONT = `9px ${MONO}`; // if rows are closer than lines
const ROOT_LEFT = 28; // pixels that the root's label may reach to the left, or it would leave the panel
const MIN_STAGGERED_WIDTH = 30; // pixels of a column; labels in narrower ones are slanted
const SLANT = { degrees: -52, maxWidth: 68 };
const POINTER_RADIUS = 14; // pixels
const ZOOM = 1.6;
const BEND = 11; // pixels in which an edge bends after a name
const MAX_LABELS = 120; // of drafted nodes in view, the likeliest first
const AXIS_HEIGHT = 18;
const MIN_LABEL_ROW = 7; // pixels; lower rows have no names

/** How the kept path's labels stand in the columns. @param {Round} round @param {Camera} camera @returns {LabelForm} */
export function labelForm(round, camera) {
  const ids = [...round.keep.map((node) => round.tokens[node]), round.bonus];
  const gap = (/** @type {number} */ one, /** @type {number} */ other) => (one in ids && other in ids ? camera.x(other) - camera.x(one) : Infinity);
  const roomOf = (/** @type {number} */ column, /** @type {number} */ step) => Math.min(gap(column - step, column), gap(column, column + step)) - 7;
  const fits = (/** @type {number} */ step) => ids.every((id, column) => textWidth(round.show(id), PATH_FONT) < roomOf(column, step));
  if (fits(1)) return "flat";
  return fits(2) || ids.every((_, column) => gap(column, column + 1) >= MIN_STAGGERED_WIDTH) ? "staggered" : "slanted";
}

export class TreeMarks {
  radius = 0; // of a node
  grounds = ""; // behind the drafted nodes' labels
  names = /** @type {Map<number, Box & { isWhole: boolean }>} */ (new Map()); // of drafted nodes that have one, or a number of nodes
  nextItem = 0; // the first node whose item is not drawn yet
  deferredItems = new DeferredDrawing(() => this.drawSomeItems());

  constructor(/** @type {TreePanel} */ panel) {
    this.panel = panel;
    this.lines = svg("g", {}, panel.drawing);
    this.chosen = svg("g", {}, panel.drawing);
    this.points = svg("g", {}, panel.drawing);
    this.items = svg("g", { class: "cp-items", role: "presentation" }, panel.canvas);
  }

  // Draws the tree; the items follow as soon as there is time.
  update() {
    this.draw();
    this.nextItem = 0;
    this.deferredItems.begin();
  }

  draw() {
    const { camera, parents, round, layout: { columns, places } } = this.panel;
    const gaps = camera.stops.slice(1).map((stop, column) => (stop - camera.stops[column]) * camera.column);
    this.radius = Math.min(5.5, 0.42 * Math.min(...gaps), 0.22 * camera.column, Math.max(1.3, Math.min(2.4, camera.row * 0.36), camera.row * 0.24));
    const shown = Array.from(parents.keys()).filter((node) => this.shown(node));
    const kept = shown.filter((node) => node && this.isLit(node));
    const edges = shown.filter((node) => node && !this.isLit(node) && !places.get(node)?.follows).map((node) => this.edge(node));
    const nodes = shown.filter((node) => places.get(node)?.room !== 0).map((node) => this.node(node));
    const ticks = kept.map((node) => path("cp-tick", TICK, { transform: `translate(${this.at(node)})` }));
    const startsLater = (/** @type {RunItem | undefined} */ place) => camera.row >= MIN_LABEL_ROW && place?.follows && (place.room > 0 || place.unnamed.length > 0);
    const high = Math.min(9, camera.row - 3);
    const dividers = shown.filter((node) => startsLater(places.get(node))).map((node) => [...this.at(node), columns[node]]);
    render(this.lines, [path("cp-or", dividers.map(([x, y]) => `M${x - this.radius - 15},${y - high / 2}v${high}`).join("")), group(joinPaths(edges)), path("cp-walk", kept.map((node) => this.curve(node)).join(""))]);
    this.grounds = "";
    this.names.clear();
    const labels = this.labels(shown);
    render(this.points, [path("cp-name-ground", this.grounds),
      group(joinPaths(nodes)), group(ticks), group(this.bonus(round.keep[round.keep.length - 1])), group(labels),
      group(this.axis()), group(dividers.map(([x, y, depth]) => text("cp-axis-text is-end is-small", String(depth), x - this.radius - 3, y)))]);
  }

  /** The node nearest to a point of the panel, null if none is near. @param {number} x @param {number} y @returns {number | null} */
  nearest(x, y) {
    const { round, layout } = this.panel;
    const isMarked = (/** @type {number} */ node) => layout.places.get(node)?.room !== 0 || this.names.has(node);
    const distances = Array.from(round.tokens.keys()).filter(isMarked).map((node) => {
      const [right, down] = this.at(node);
      const name = this.names.get(node);
      return { node, distance: Math.hypot(Math.max(right - x, 0, x - (name ? name.x + name.width : right)), down - y) };
    });
    const [best] = distances.sort((one, other) => one.distance - other.distance);
    return best?.distance < POINTER_RADIUS ? best.node : null;
  }

  // Zooming and panning, which the icicle overrides. A returned boolean says whether anything changed.
  /** @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    return this.panel.camera.zoom(factor, x, y);
  }

  pan(/** @type {number} */ right, /** @type {number} */ down) {
    this.panel.camera.pan(right, down);
  }

  /** Zooms in to a node, or out. @param {number} node @param {boolean} [zoomsIn] */
  open(node, zoomsIn = true) {
    const [x, y] = this.at(node);
    this.panel.camera.zoom(zoomsIn ? ZOOM : 1 / ZOOM, x, y);
    this.panel.tip.hide();
    this.panel.repaint();
  }

  /** The nodes for which a number stands. @param {number} node */
  unnamedAt(node) {
    return this.panel.layout.places.get(node)?.unnamed ?? [];
  }

  // Zooms in to the nodes for which a number stands. Returns whether it did.
  follow(/** @type {number} */ node) {
    if (!this.unnamedAt(node).length) return false;
    this.pan(this.panel.width / 4 - this.at(node)[0], 0);
    this.open(node);
    return true;
  }

  // Takes everything off the panel, for another drawing of the tree.
  remove() {
    this.deferredItems.end();
    for (const part of [this.lines, this.chosen, this.points, this.items]) part.remove();
  }

  shown(/** @type {number} */ node) {
    const { rank, limit } = this.panel;
    return limit === null || rank[node] < limit;
  }

  isLit(/** @type {number} */ node) {
    const { round, litColumns, layout } = this.panel;
    return round.kept.has(node) && layout.columns[node] < litColumns;
  }

  at(/** @type {number} */ node) {
    const { camera, layout } = this.panel;
    const { column, offset } = layout.places.get(node) ?? { column: layout.columns[node], offset: 0 };
    return [camera.x(column) + offset, camera.y(layout.rows[node])];
  }

  /** The part of the panel that a node takes with its edge. @param {number} node @returns {Box} */
  boxOf(node) {
    const { parents } = this.panel;
    const [x, y] = this.at(node);
    const [left, above] = node ? this.at(parents[node]) : [x, y];
    return { x: left - 8, y: Math.min(y, above) - 8, width: x - left + 16, height: Math.abs(y - above) + 16 };
  }

  // All curves between two columns bend at the same abscissas, so that they keep their order and never cross.
  curve(/** @type {number} */ node) {
    const { camera, layout: { columns, places }, parents } = this.panel;
    const [x, y] = this.at(node);
    const [start, above] = this.at(parents[node]);
    if (above === y) return `M${start.toFixed(1)},${y.toFixed(1)}H${x.toFixed(1)}`;
    const { column = columns[node], offset = 0 } = places.get(node) ?? {};
    const end = camera.x(column) + offset;
    const turn = offset ? end - BEND : camera.turn(column);
    const middle = (turn + end) / 2;
    return `M${start.toFixed(1)},${above.toFixed(1)}H${turn.toFixed(1)}C${middle.toFixed(1)},${above.toFixed(1)} `
      + `${middle.toFixed(1)},${y.toFixed(1)} ${end.toFixed(1)},${y.toFixed(1)}H${x.toFixed(1)}`;
  }

  axis() {
    const { camera, layout, width, narrowFrom } = this.panel;
    const count = Math.min(layout.columnCount, narrowFrom + 1); // what is deeper stands in no column
    const ground = camera.held ? [path("cp-name-ground", box(0, 0, width, AXIS_HEIGHT))] : []; // else nothing is so high up
    const first = camera.left < 24 || camera.x(1) < camera.left + 30 ? "0" : "depth 0"; // if it fits
    let end = -Infinity;
    const names = Array.from({ length: count }, (_, column) => text("cp-axis-text is-mid", column ? String(column) : first, camera.x(column), 13));
    const numbers = names.filter(([, { x }], column) => { // that do not touch the one before
      const isFree = Number(x) - end > 10 + (column > 9 ? 6 : 0);
      if (isFree) end = Number(x);
      return isFree;
    });
    return [...ground, ...numbers];
  }

  edge(/** @type {number} */ node) {
    const { round, unverifiedOrigin } = this.panel;
    const d = this.curve(node);
    if (node >= round.n) return path(`cp-edge o-${unverifiedOrigin} is-unverified`, d, { "stroke-width": 1, "stroke-opacity": 0.5 });
    const ink = this.panel.ink(node);
    const weight = Math.round(3 * opacityOf(ink, 0)) / 3; // few kinds, of which each is one path
    return path(`cp-edge o-${round.origin(node)}`, d, { "stroke-width": 0.7 + 1.7 * weight, "stroke-opacity": 0.4 + 0.55 * weight });
  }

  node(/** @type {number} */ node) {
    const { round, unverifiedOrigin } = this.panel;
    const lit = this.isLit(node);
    const radius = lit ? KEPT_RADIUS : this.radius;
    const [x, y] = this.at(node);
    const arc = `a${radius},${radius} 0 1 0`;
    const d = `M${(x - radius).toFixed(1)},${y.toFixed(1)}${arc} ${2 * radius},0${arc} ${-2 * radius},0`;
    if (node >= round.n) return path(`cp-node is-unverified o-${unverifiedOrigin}`, d, { "stroke-opacity": 0.55 });
    const fade = lit ? 1 : (Math.round(opacityOf(this.panel.ink(node), 0.45) * 10) / 10).toFixed(1);
    return path(`cp-node is-${lit ? "accepted" : "rejected"} o-${round.origin(node)}`, d, { "stroke-opacity": fade });
  }

  // Whether the walk has reached the bonus, which hangs on the last kept node.
  bonusReached(/** @type {number} */ tail) {
    const { layout, litColumns } = this.panel;
    return this.shown(tail) && litColumns > layout.columns[tail] + 1;
  }

  bonus(/** @type {number} */ tail) {
    if (!this.bonusReached(tail)) return [];
    const { camera, layout } = this.panel;
    const start = camera.x(layout.columns[tail]);
    const left = (camera.x(layout.columns[tail] + 1) - 8).toFixed(1);
    return [path("cp-bonus", `M${start + 8},${camera.top}H${left}M${left},${camera.top}l8,-8 8,8 -8,8Z`)];
  }

  // Labels the kept path, then the most probable other nodes while there is space for their labels.
  labels(/** @type {number[]} */ shown) {
    const { panel, panel: { camera, layout, round, width, height } } = this;
    const kept = round.keep.filter((node) => this.shown(node) && this.isLit(node)); // what the walk has not reached is a guess
    const form = camera.held ? labelForm(round, camera) : camera.form;
    const path = kept.map((node) => this.pathLabel(round.tokens[node], layout.columns[node], round.origin(node), form));
    const tail = round.keep[round.keep.length - 1];
    if (this.bonusReached(tail)) path.push(this.pathLabel(round.bonus, layout.columns[tail] + 1, "root", form));
    const inFull = (/** @type {number} */ y) => y > AXIS_HEIGHT + 10 && y < height - 6;
    const marks = path.filter(([, { x, y }]) => !camera.held || (Number(y) > AXIS_HEIGHT - 8 && Number(x) > 20 && Number(x) < width - 20));
    if (panel.limit !== null && !panel.stage.scene) return marks; // it grows too quickly to be read
    const inkOf = (/** @type {number} */ node) => (node < round.n ? panel.ink(node) : 0);
    if (camera.row < MIN_LABEL_ROW) return marks;
    marks.push(...shown.filter((node) => layout.places.get(node)?.unnamed.length).map((node) => this.countLabel(node)));
    const isNamed = (/** @type {number} */ node) => !this.isLit(node) && layout.places.get(node)?.room !== 0;
    const guesses = shown.filter((node) => this.isInView(node) && isNamed(node) && inFull(this.at(node)[1]));
    guesses.sort((one, other) => inkOf(other) - inkOf(one));
    return [...marks, ...guesses.slice(0, MAX_LABELS).flatMap((node) => this.guessLabel(node, inkOf(node)))];
  }

  isInView(/** @type {number} */ node) {
    const [x, y] = this.at(node);
    return x > 0 && x < this.panel.width && y > 0 && y < this.panel.height;
  }

  /** @param {number} id @param {number} column @param {Origin} origin @param {LabelForm} form */
  pathLabel(id, column, origin, form) {
    const { round, camera } = this.panel;
    if (form === "slanted") {
      const [x, y] = [camera.x(column) + 3, camera.top - 11];
      const transform = `rotate(${SLANT.degrees} ${x.toFixed(1)} ${y.toFixed(1)})`;
      return label(clip(round.show(id), SLANT.maxWidth, PATH_FONT), x, y, `is-path is-slanted o-${origin}`, { transform });
    }
    const step = form === "staggered" ? 2 : 1; // two lines of labels give each twice the width
    const raised = step === 2 && column % 2 ? 13 : 0;
    const ids = [...round.keep.map((node) => round.tokens[node]), round.bonus];
    const spaceTo = (/** @type {number} */ other) => {
      if (other < 0 || other >= ids.length) return Infinity;
      const distance = Math.abs(camera.x(other) - camera.x(column)) - 6;
      const needed = Math.min(distance, textWidth(round.show(ids[other]), PATH_FONT)); // of the other
      return column ? 2 * distance - needed : Math.min(2 * distance - needed, distance - needed / 2 + ROOT_LEFT);
    };
    const words = clip(round.show(id), Math.min(spaceTo(column - step), spaceTo(column + step)), PATH_FONT);
    const x = Math.max(camera.x(column), camera.x(0) - ROOT_LEFT + textWidth(words, PATH_FONT) / 2);
    return label(words, x, camera.top - 14 - raised, `is-path o-${origin}`);
  }

  // How many nodes have no room at the end of a line: one can point at the number.
  countLabel(/** @type {number} */ node) {
    const [x, y] = this.at(node);
    const words = `+${this.unnamedAt(node).length}`;
    this.names.set(node, { x: x - 2, y, width: textWidth(words, NAME_FONT), height: 10, isWhole: false });
    return label(words, x - 2, y + 3.5, "is-fold");
  }

  // The name of a drafted node stands right of it, on its own edge, but over no other name.
  guessLabel(/** @type {number} */ node, /** @type {number} */ ink) {
    const { round, camera, layout, width } = this.panel;
    const [left, y] = this.at(node);
    const [font, line, className] = camera.row < 10 ? [SMALL_FONT, 7.2, "is-small"] : [NAME_FONT, 10, ""];
    const [child] = layout.children[node];
    const room = layout.places.get(node)?.room ?? 0;
    const x = left + this.radius + 3;
    const token = round.show(this.panel.tokenOf(node));
    const next = room || child === undefined ? left + room : this.at(child)[0] - this.radius - 4;
    const words = clip(token, Math.min(next, width) - x, font);
    if (!words || (words.endsWith("…") && words.length < 4)) return [];
    const name = { x, y, width: textWidth(words, font), height: line, isWhole: words === token };
    const meets = (/** @type {Box} */ other) => Math.abs(other.y - y) < line && x < other.x + other.width + 3 && other.x < x + name.width + 3;
    if (Array.from(this.names.values()).some(meets)) return [];
    this.names.set(node, name);
    this.grounds += box((x - 2).toFixed(1), (y - line / 2 + 1).toFixed(1), (name.width + 3).toFixed(1), line - 2); // no edge is seen through the name
    const fade = node >= round.n ? 0.6 : opacityOf(ink, 0.66).toFixed(2);
    return [label(words, x, y + 3.5, className, { "fill-opacity": fade, "data-label": node })];
  }

  drawItems() {
    this.deferredItems.end();
    this.nextItem = 0;
    while (this.drawSomeItems()) continue;
  }

  // For screen readers, focus and pointer: an unpainted circle per node, each a treeitem with a name. Returns whether more follow.
  drawSomeItems() {
    const { round, focus } = this.panel;
    const first = this.nextItem;
    this.nextItem += ITEMS_PER_FRAME;
    const part = this.items.children[first / ITEMS_PER_FRAME] ?? svg("g", { role: "presentation" }, this.items);
    render(part, Array.from(round.tokens.keys()).slice(first, this.nextItem).map((node) => {
      const [x, y] = this.at(node);
      return ["circle", {
        class: "cp-item", role: "treeitem",
        cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(4, this.radius),
        tabindex: node === focus ? 0 : -1, "data-node": node, "aria-level": round.depths[node] + 1,
        "aria-label": describe(round, node),
      }];
    }));
    if (this.nextItem < round.n) return true;
    while (part.nextSibling) part.nextSibling.remove();
    return false;
  }

  focus(/** @type {number} */ node) {
    this.panel.focus = node;
    this.drawItems();
    this.items.querySelector(`[data-node="${node}"]`).focus({ preventScroll: true });
  }

  // Marks the selected node with a ring, its path and its label, if it has none yet; and the nodes that a search found.
  select(/** @type {number | null} */ selected, /** @type {number[]} */ matches) {
    const { round, layout: { places } } = this.panel;
    const isShown = selected !== null && selected < round.n && this.shown(selected);
    const radius = Math.max(5, this.radius + 2.5);
    const found = matches.filter((node) => this.shown(node)).map((node) => this.circle("cp-found", node, radius));
    const steps = isShown ? round.path(selected).slice(1).filter((node) => !places.get(node)?.follows) : []; // no line leads through siblings
    render(this.chosen, [path("cp-chosen", steps.map((node) => this.curve(node)).join(""))]);
    render(this.panel.marked, [...(isShown ? this.ringMarks(selected) : []), ...found]);
  }

  ringMarks(/** @type {number} */ node) {
    const { round, width } = this.panel;
    if (this.isLit(node)) return [this.circle("cp-ring", node, 10.5)];
    const [x, y] = this.at(node);
    const [side, anchor] = x > width - 90 ? [x - 10, "end"] : [x + 10, "start"];
    const name = label(round.show(round.tokens[node]), side, y - 8, "is-named", { "text-anchor": anchor });
    return [...(this.names.get(node)?.isWhole ? [] : [name]), this.circle("cp-ring", node, this.radius + 2.5)];
  }

  /** @param {string} className @param {number} node @param {number} r @returns {Mark} */
  circle(className, node, r) {
    const [x, y] = this.at(node);
    return ["circle", { class: className, cx: x.toFixed(1), cy: y.toFixed(1), r }];
  }
}

/** @param {string} words @param {number} x @param {number} y @param {string} className @param {Attributes} [more] */
function label(words, x, y, className, more) {
  return text(`cp-label ${className}`, words, x, y, { "aria-hidden": "true", ...more });
}
