// The draft tree: left to right by depth, the kept path straight along the top.

import { button, probability, put, textWidth, throttled, spoken } from "../shared/ink.js";
import { factsOf, NodeSheet } from "./facts.js";
import { Icicle } from "./icicle.js";
import { Camera, layoutOf, neighbour, SIDES } from "./layout.js";
import { DrawnPanel, placeIn, zoomOf } from "./panel.js";
import { labelForm, NAME_FONT, PATH_FONT, TreeMarks } from "./tree_marks.js";
import { define } from "../shared/define.js";
import { counted, nextGuesses } from "../shared/round.js";

const GROWTH_MS = { grow: 190, walk: 110 }; // a round that follows sooner is not animated
/** @type {Record<string, { grow: number, walk: number }>} */
const SCENES = { guess: { grow: 1600, walk: 0 }, verify: { grow: 0, walk: 1600 } }; // in the film's scenes
// Lines that runs share: how long such a run is at most, how wide a line, and how many lines there are.
const LINES = [[1, 1], [1, 180], [1, 380], [2, 300], [2, Infinity], [3, 380], [3, Infinity], [5, 380], [5, Infinity], [99, Infinity], [99, Infinity, 1]]
  .map(([longest, width, count = Infinity]) => ({ longest, width, count }));
const MIN_ROW = 12; // pixels
const FOLDED_PARTS = [0, 0.25, 0.5, 0.75, 0.9]; // of the forks, if rows are too low
const MAX_NAME = 120; // pixels of a drafted node's name
const MARK = { before: 8, gap: 11, or: 14, count: 30, cut: 42 }; // pixels from a mark to its name, from a name to the next mark, more to another run's, of the number of nodes without room, of a cut name with its mark
const SEEN = ["after", "cache", "target", "budget"]; // facts that a tip leaves to other panels, or it would cover too much
export const ICICLE_NODES = 128; // a larger tree is an icicle unless a person chooses

// Names of runs one after the other, as far as there is room; then numbers, each of the nodes whose names have none.
class NameLine {
  items = /** @type {RunItem[]} */ ([]);
  reach = 0;
  counting = /** @type {RunItem | null} */ (null); // the number to which nodes are added

  /** @param {number} column @param {number} end of what stands before it, in pixels from the column @param {number} room from there */
  constructor(column, end, room) {
    this.column = column;
    this.end = end;
    this.room = room;
  }

  /** @param {number} node @param {number[]} below it, if it has no room @param {number} width of its name
   *  @param {number} reserve pixels for what comes after it @param {boolean} isFirst of its run */
  add(node, below, width, reserve, isFirst) {
    const start = this.end + (isFirst && this.items.length ? MARK.or : 0);
    const room = Math.min(width, this.room - start - reserve); // the last name may be cut
    const hasName = !below.length && (isFirst || !this.counting) && room >= (reserve ? width : Math.min(width, MARK.cut));
    const joins = !hasName && this.counting !== null && (!isFirst || start + MARK.count > this.room);
    /** @type {RunItem} */
    const item = { node, column: this.column, offset: joins ? this.end - MARK.count : start, room: hasName ? room : 0, unnamed: [], follows: isFirst && this.items.length > 0 };
    this.items.push(item, ...below.map((other) => ({ ...item, node: other, unnamed: [] })));
    if (!joins) {
      this.counting = hasName ? null : item;
      this.end = start + (hasName ? room + MARK.gap : MARK.count);
    }
    this.counting?.unnamed.push(node, ...below);
  }
}

export class TreePanel extends DrawnPanel {
  focus = 0;
  rejectedTree = /** @type {Round["rejectedTrees"][number] | null} */ (null);
  rejectedTreeShown = false;
  unverifiedOrigin = "drafter1";
  // The tree that is drawn: guesses that were not verified follow the round's own nodes.
  unverified = /** @type {ReturnType<typeof nextGuesses>} */ ({ parents: [], tokens: [] });
  parents = new Int32Array(1);
  layout = layoutOf(new Int32Array(1), new Set(), 0);
  lines = LINES[0]; // that the layout has
  width = 640;
  height = 360;
  scale = 1; // of the drawing: a small tree is drawn larger
  narrowFrom = Infinity; // the first column in which a name has no room before the next one
  rank = new Int32Array(1); // of each node in the best-first order
  limit = /** @type {number | null} */ (null); // how many nodes of that order are drawn so far; null: all
  litColumns = Infinity; // columns of the kept path that the walk has reached
  frame = 0;
  drawnSince = -Infinity; // when the shown round was drawn first, in milliseconds
  asIcicle = /** @type {boolean | null} */ (null); // what a person chose
  drag = /** @type {{ x: number, y: number, moved: boolean, id: number } | null} */ (null)
  clicks = { count: 0, node: /** @type {number | null} */ (null) }; // a double click uses the first click's node, because the drawing may move between clicks
  scheduleRepaint = throttled(() => this.repaint()); // one repaint a frame, however many events arrive in it
  waiting = "Press Run, or open a recording: the tree of each round grows here.";
  marks = /** @type {TreeMarks} */ (new TreeMarks(this));
  camera = new Camera(this.stage);
  sheet = new NodeSheet(this.host);

  constructor(/** @type {HTMLElement} */ host, /** @type {Stage} */ stage) {
    super(host, stage, "tree", "", { role: "tree", "aria-label": "Draft tree" });
    const { bar } = this;
    this.rejectedTreeButton = button(bar, "other tree", "Show or hide the tree that was not chosen",
      () => this.toggle(() => { this.rejectedTreeShown = !this.rejectedTreeShown; }));
    this.icicleButton = button(bar, "icicle", "Draw each node as wide as its branch has nodes, depth downwards; the accepted path is never narrow", () => {
      this.asIcicle = !this.isIcicle;
      this.draw(this.round);
    });
    button(bar, "fit", "Fit the tree into the panel", () => this.fit());
    button(bar, "−", "Zoom out", () => this.zoom(1 / 1.35));
    button(bar, "+", "Zoom in", () => this.zoom(1.35));
    this.branchButton = button(this.sheet.head, "go on from here", "Force the text up to the pinned node, and let the target go on from there: a new run",
      () => this.stage.pinned !== null && this.stage.emit("branch", this.stage.pinned));
    stage.on("hits", () => this.select(stage.selection));
    stage.on("pin", (node) => node !== null && this.reveal(node));
  }

  draw(/** @type {Round | null} */ round) {
    cancelAnimationFrame(this.frame);
    super.draw(round);
    if (!this.round.n) this.marks.drawItems(); // none
  }

  drawRound(/** @type {Round} */ round, /** @type {boolean} */ isNew) {
    const scene = SCENES[this.stage.scene];
    const followsSoon = performance.now() - this.drawnSince < GROWTH_MS.grow + GROWTH_MS.walk;
    if (isNew) {
      this.focus = 0;
      this.drawnSince = performance.now();
      if (this.marks instanceof Icicle) this.marks.widen();
      put(this.canvas, { "aria-label": `Draft tree of round ${round.index + 1}: ${round.n - 1} drafted nodes, ${round.keep.length - 1} accepted, `
        + `bonus '${spoken(round, round.bonus)}'` });
    }
    this.icicleButton.hidden = round.n < 2;
    this.icicleButton.setAttribute("aria-pressed", String(this.isIcicle));
    if (this.marks instanceof Icicle !== this.isIcicle) {
      this.marks.remove();
      this.marks = this.isIcicle ? new Icicle(this) : new TreeMarks(this);
    }
    this.layOut();
    const moves = (scene || (isNew && !followsSoon)) && this.stage.animate && !this.stage.reducedMotion && round.n > 1;
    if (moves) this.grow(scene || GROWTH_MS);
    else this.paint(null, scene && !scene.walk ? 1 : Infinity);
  }

  get isIcicle() {
    return this.asIcicle ?? this.round.n > ICICLE_NODES;
  }

  layOut() {
    const round = this.round;
    this.rejectedTree = round.rejectedTrees[0] ?? null;
    this.unverifiedOrigin = this.rejectedTree?.drafter === 2 ? "drafter2" : "drafter1";
    this.rejectedTreeButton.hidden = !this.rejectedTree;
    this.rejectedTreeButton.setAttribute("aria-pressed", String(this.rejectedTreeShown));
    if (this.rejectedTree && this.rejectedTreeShown && !this.isIcicle) {
      const [, ...tokens] = this.rejectedTree.tokens; // both trees have one root; its nodes follow those of the round
      const [, ...parents] = this.rejectedTree.parents;
      this.unverified = { tokens, parents: parents.map((parent) => (parent === 0 ? 0 : round.n + parent - 1)) };
    } else this.unverified = this.isIcicle ? { parents: [], tokens: [] } : nextGuesses(round);
    this.parents = Int32Array.of(...round.parents, ...this.unverified.parents);
    this.layout = layoutOf(this.parents, round.kept, round.keep[round.keep.length - 1]);
    const { camera, layout: { columnCount, rowCount } } = this;
    this.measure();
    if (!camera.held) this.scale = this.isIcicle ? 1 : camera.scaleFor(this.width * this.scale, this.height * this.scale, columnCount, rowCount);
    if (Number(this.canvas.style.zoom || 1) !== this.scale) this.canvas.style.zoom = String(this.scale);
    this.measure();
    const row = (this.height - 60) / rowCount; // about
    camera.spreads = row > MIN_ROW;
    if (camera.held) camera.arrange(this.columnNeeds(), round.keep.length);
    else camera.fitColumns(this.width, this.columnNeeds(), round.keep.length, () => labelForm(round, camera));
    this.wrapLines();
    if (!camera.held) camera.row = camera.rowFor(this.height, this.layout.rowCount);
  }

  // Puts runs into the first of these lines with which rows are high enough; else folds the least likely forks, part by part.
  wrapLines(tried = LINES) {
    const { round, camera, layout: { children } } = this;
    if (this.isIcicle) return;
    const forks = Array.from(children.keys()).filter((node) => children[node].filter((child) => !round.kept.has(child)).length > 1 && node < round.n);
    forks.sort((one, other) => round.logprobs[one] - round.logprobs[other]);
    for (const part of camera.zoomed > 1 ? [0] : FOLDED_PARTS) {
      const flowing = this.flow(new Set(forks.slice(0, part * forks.length)));
      for (const lines of part ? [this.lines] : tried) {
        const layout = layoutOf(this.parents, round.kept, round.keep[round.keep.length - 1], flowing, lines.longest, (runs) => this.wrap(runs, flowing, lines));
        if ((!part && lines === tried[0]) || layout.rowCount < this.layout.rowCount) Object.assign(this, { lines, layout });
        if (camera.rowFor(this.height, this.layout.rowCount) >= MIN_ROW) return;
      }
    }
  }

  // The pixels that the names of each column but the last ask for: those of branches, and half of those on the accepted path.
  columnNeeds() {
    const { round, layout: { columns, children, columnCount } } = this;
    const needs = new Array(columnCount).fill(0);
    for (const [node, column] of this.isIcicle ? [] : columns.entries()) {
      const word = round.show(this.tokenOf(node));
      const isKept = round.kept.has(node);
      const need = isKept ? Math.min(MAX_NAME, textWidth(word, PATH_FONT) / 2 + 8) : children[node].length ? this.wideOf(node) + MARK.gap : 0;
      needs[column] = Math.max(needs[column], need);
    }
    return needs.slice(0, -1);
  }

  wideOf(/** @type {number} */ node) {
    return MARK.before + Math.min(MAX_NAME, textWidth(this.round.show(this.tokenOf(node)), NAME_FONT)) + 2;
  }

  // Pixels from a column to the right end of the view, before it was zoomed.
  roomFrom(/** @type {number} */ column) {
    return this.width - (this.camera.x(column) - this.camera.left) / this.camera.zoomed - SIDES.left - 8;
  }

  /** Where drafted nodes stand from the first narrow column on: after their parents' names. If a name has no room, a number stands
   *  for its node and all below it; one also stands for all that is drafted below a `folded` node. @param {Set<number>} folded */
  flow(folded) {
    const { camera, round, parents, layout: { columns, children } } = this;
    const gapOf = (/** @type {number} */ column) => (camera.x(column + 1) - camera.x(column)) / camera.zoomed;
    const isNarrow = (/** @type {number} */ column, /** @type {number} */ node) => !round.kept.has(node) && children[node].length > 0 && gapOf(column) < this.wideOf(node) + MARK.gap - 1;
    this.narrowFrom = Math.min(...Array.from(columns).filter(isNarrow)); // Infinity without one
    const places = /** @type {Layout["places"]} */ (new Map());
    const numbers = /** @type {Map<number, RunItem>} */ (new Map()); // by the nodes for which they stand
    for (let node = 1; node < parents.length; node++) {
      if (round.kept.has(node)) continue;
      const folds = folded.has(parents[node]);
      if (columns[node] < this.narrowFrom && !folds && !numbers.has(parents[node])) continue;
      const [above, number] = [places.get(parents[node]), numbers.get(parents[node])];
      if (number) {
        number.unnamed.push(node);
        numbers.set(node, number);
        places.set(node, { ...number, node, unnamed: [] });
        continue;
      }
      const { column, offset } = above ? { column: above.column, offset: above.offset + above.room + MARK.gap } : { column: columns[node], offset: 0 };
      const line = new NameLine(column, offset, folds ? 0 : camera.zoomed > 1 ? Infinity : this.roomFrom(column) * camera.zoomed); // one pans to the names
      line.add(node, [], this.wideOf(node), children[node].length ? MARK.count : 0, true);
      const [item] = line.items;
      places.set(node, item);
      if (!item.room) numbers.set(node, item);
      if (folds) numbers.set(parents[node], item);
    }
    return places;
  }

  /** Runs below one node in lines; numbers stand for the nodes whose names have no room.
   *  @param {number[][]} runs @param {Layout["places"]} flowing @param {typeof LINES[number]} lines */
  wrap(runs, flowing, { width, count }) {
    if (!runs.length) return [];
    const { camera, layout: { columns, columnCount } } = this;
    const own = columns[runs[0][0]];
    const { column, offset } = flowing.get(runs[0][0]) ?? { column: own, offset: 0 };
    const fitted = this.roomFrom(column);
    const room = camera.zoomed > 1 ? Infinity : fitted * camera.zoomed;
    const lines = /** @type {NameLine[]} */ ([]);
    let filled = Infinity;
    for (const [place, run] of runs.entries()) {
      const widths = run.map((node) => this.wideOf(node));
      const wide = widths.reduce((sum, one) => sum + one + MARK.gap, 0);
      if (lines.length < count && filled + wide - MARK.gap > Math.min(width, fitted - offset)) {
        lines.push(new NameLine(column, offset, room));
        filled = 0;
      }
      filled += wide + MARK.or;
      const line = lines[lines.length - 1];
      const isLast = lines.length < count || place === runs.length - 1;
      for (const [step, node] of run.entries()) line.add(node, flowing.get(node)?.unnamed.slice(1) ?? [], widths[step], isLast && step === run.length - 1 ? 0 : MARK.or + MARK.count, !step);
      if (flowing.has(run[0])) line.reach = columnCount - own - 1;
      while (own + line.reach + 1 < camera.stops.length && camera.x(column) + line.end > camera.turn(own + line.reach + 1)) line.reach++;
    }
    return lines;
  }

  measure() {
    const { wide, high } = this.sheet.room;
    this.width = (this.room.width - wide) / this.scale;
    this.height = (this.room.height - high) / this.scale;
  }

  paint(/** @type {number | null} */ limit, /** @type {number} */ litTo) {
    this.measure();
    this.setSize(this.width, this.height);
    this.limit = limit;
    this.litColumns = litTo;
    this.marks.update();
    this.select(this.stage.selection);
  }

  tokenOf(/** @type {number} */ node) {
    const { round, unverified } = this;
    return node < round.n ? round.tokens[node] : unverified.tokens[node - round.n];
  }

  // How strongly a node is drawn, from 0 to 1.
  ink(/** @type {number} */ node) {
    return Math.exp(this.round.logprobs[node]);
  }

  repaint() {
    if (!this.round.n) return;
    if (this.camera.held) this.wrapLines([this.lines]);
    this.paint(this.limit, this.litColumns);
    this.stage.emit("camera");
  }

  // Nodes appear from the most probable on, which is the best-first order; then the walk lights up.
  grow(/** @type {typeof GROWTH_MS} */ { grow, walk }) {
    const round = this.round;
    const order = Array.from(round.tokens.keys()).sort((one, other) => round.logprobs[other] - round.logprobs[one] || one - other);
    this.rank = new Int32Array(round.n);
    order.forEach((node, place) => { this.rank[node] = place; });
    const began = performance.now();
    const steps = round.keep.length + 1;
    const step = (/** @type {number} */ now) => {
      const past = Math.max(0, now - began);
      if (past >= grow + walk) return this.paint(null, walk ? Infinity : 1);
      const limit = Math.max(1, Math.ceil((round.n * past) / grow));
      this.paint(past < grow ? limit : null, past < grow ? 1 : 1 + (steps * (past - grow)) / walk);
      this.frame = requestAnimationFrame(step);
    };
    this.paint(grow ? 1 : null, 1);
    this.frame = requestAnimationFrame(step);
  }

  select(/** @type {NodeSelection} */ { node, pinned }) {
    this.canvas.classList.toggle("is-pinned", pinned);
    this.branchButton.hidden = !pinned || !node || !this.stage.canBranch;
    if (!this.round.n) return;
    const { stage, stage: { foundTokens, keyNode }, sheet, round } = this;
    this.marks.select(node, Array.from(round.tokens.keys()).filter((one) => foundTokens.has(round.tokens[one]) || (one === keyNode && !pinned)));
    const before = sheet.box.hidden;
    if (stage.pinned === null) sheet.box.hidden = true;
    else sheet.show(round.show(round.tokens[stage.pinned]), factsOf(round, stage.pinned));
    if (sheet.box.hidden === before) return; // else the drawing gives the sheet its room
    this.tip.hide();
    this.resize();
  }

  resize() {
    if (this.round.n) this.layOut();
    this.repaint();
  }

  fit() {
    this.camera.held = false;
    this.widen();
    this.resize();
  }

  // Leaves a part of the icicle for all of it. Returns whether there was more to see.
  widen() {
    const wider = this.marks instanceof Icicle && this.marks.widen();
    if (wider) this.repaint();
    return wider;
  }

  // The buttons zoom around the middle of the kept path, as far as it is in sight: it is never zoomed away.
  zoom(/** @type {number} */ factor) {
    const { camera, layout, round, width, height } = this;
    const across = (camera.x(0) + camera.x(layout.columns[round.keep[round.keep.length - 1]])) / 2;
    const [x, y] = [Math.min(width, Math.max(0, across)), Math.min(height, Math.max(0, camera.top))];
    if (round.n && this.marks.zoom(factor, x, y)) this.repaint();
  }

  toggle(/** @type {() => unknown} */ change) {
    change();
    this.resize();
  }

  // Brings a pinned node into view.
  reveal(/** @type {number} */ node) {
    const { marks } = this;
    const [x, y] = marks.at(node);
    if (marks instanceof Icicle && !marks.shown(node)) marks.open(node, true);
    else if (!marks.isInView(node)) marks.pan(this.width / 2 - x, this.height / 2 - y);
    this.repaint();
  }

  // A click pins a node but leaves the focus where it was, so the page's own keys go on working; Tab enters the tree, and
  // then the arrows follow its shape.
  listen() {
    this.on("pointerdown", ({ button: which, clientX: x, clientY: y, pointerId: id }) => { this.drag = which ? null : { x, y, moved: false, id }; });
    this.on("pointermove", (event) => this.move(event));
    this.on("pointerup", (event) => this.release(event));
    this.on("pointercancel", () => { this.drag = null; });
    this.on("pointerleave", () => !this.drag && this.onLeave());
    this.on("mousedown", (event) => {
      event.preventDefault();
      this.clicks = { count: event.detail, node: event.detail > 1 ? this.clicks.node : this.pointedAt(event)?.node ?? null };
    });
    this.on("dblclick", () => {
      const { node } = this.clicks;
      if (node !== null) this.marks.open(node);
    });
    this.on("wheel", (event) => this.wheel(event), { passive: false });
    this.on("keydown", (event) => this.key(event));
    this.on("focusin", ({ target }) => {
      const name = target instanceof Element && target.getAttribute("data-node");
      if (!name) return;
      this.focus = Number(name);
      this.stage.hover(this.focus);
    });
  }

  pointedAt(/** @type {MouseEvent} */ event) {
    const node = this.marks.nearest(...placeIn(this.canvas, event));
    return node === null ? null : { node };
  }

  tipLines(/** @type {Pointed & { node: number }} */ { node }) {
    const { round } = this;
    const unnamed = this.marks.unnamedAt(node).toSorted((one, other) => round.logprobs[other] - round.logprobs[one]);
    const likeliest = unnamed.slice(0, 4).map((one) => `${round.show(round.tokens[one])} ${probability(Math.exp(round.logprobs[one]))}`);
    const below = Array.from(unnamed.length ? round.tokens.keys() : []).filter((one) => round.path(one).some((step) => unnamed.includes(step)));
    if (unnamed.length) return [`${counted(below.length + unnamed.filter((one) => one >= round.n).length, "guess", "guesses")} without room: click to zoom in`, likeliest.join(" · ")];
    const facts = factsOf(round, node).filter(([name]) => !SEEN.includes(name));
    return [round.show(round.tokens[node]), ...facts.map((fact) => fact.join(" "))];
  }

  // The branch of the node, its path from the root and all below it.
  boxesToSpare() {
    const { round, marks, scale, stage: { selection: { node } } } = this;
    if (node === null) return [];
    const branch = Array.from(round.tokens.keys()).filter((one) => round.path(node).includes(one) || (node && round.path(one).includes(node)));
    const boxes = branch.filter((one) => marks.shown(one)).map((one) => marks.boxOf(one));
    return [...super.boxesToSpare(), ...boxes.map(({ x, y, width, height }) => (
      { x: x * scale, y: y * scale, width: width * scale, height: height * scale }))];
  }

  onPointer(/** @type {MouseEvent} */ event) {
    super.onPointer(event);
    if (this.stage.selection.pinned) this.tip.hide(); // its sheet says the same
  }

  move(/** @type {PointerEvent} */ event) {
    if (!this.drag) return this.onPointer(event);
    const zoom = zoomOf(this.canvas);
    const [right, down] = [(event.clientX - this.drag.x) / zoom, (event.clientY - this.drag.y) / zoom];
    if (!this.drag.moved && Math.hypot(right, down) < 4) return;
    if (!this.drag.moved) this.canvas.setPointerCapture(this.drag.id);
    Object.assign(this.drag, { x: event.clientX, y: event.clientY, moved: true });
    this.tip.hide();
    this.marks.pan(right, down);
    this.scheduleRepaint();
  }

  release(/** @type {PointerEvent} */ event) {
    const dragged = this.drag && this.drag.moved;
    this.drag = null;
    if (dragged || event.button !== 0) return;
    if (event.pointerType === "mouse" && this.clicks.count > 1) this.stage.pin(this.clicks.node);
    else if (this.marks.follow(this.pointedAt(event)?.node ?? -1)) this.clicks.node = null;
    else this.onClick(event);
  }

  wheel(/** @type {WheelEvent} */ event) {
    const steps = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    const [x, y] = placeIn(this.canvas, event);
    if (!this.marks.zoom(Math.exp(-steps * 0.0016), x, y)) return;
    event.preventDefault();
    this.tip.hide();
    this.scheduleRepaint();
  }

  key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.focus;
    const next = neighbour(this.round, this.layout, node, event.key);
    if (next !== undefined) this.marks.focus(next ?? node);
    else if (event.key === "+" || event.key === "=") this.marks.open(node, true);
    else if (event.key === "-") this.marks.open(node, false);
    else if (event.key !== "Enter") return;
    else if (!this.marks.follow(node)) this.stage.pin(node);
    event.preventDefault();
    event.stopPropagation();
  }
}

define({
  name: "tree",
  title: "Draft tree",
  place: { row: "upper", share: 1.5 },
  caption: "Depth by depth; the accepted path comes first.",
  legend: [
    { glyph: "■", label: "drafter 1", color: "--drafter1", origin: "drafter1" },
    { glyph: "■", label: "drafter 2", color: "--drafter2", origin: "drafter2" },
    { glyph: "■", label: "both", color: "--both", origin: "both", title: "Guessed by both drafters" },
    { glyph: "◆", label: "bonus", color: "--target", title: "The target's own next token, after the last accepted node" },
    { glyph: "●✓", label: "accepted" }, { glyph: "○", label: "rejected" },
    { glyph: "|2", label: "or, at depth 2", when: ({ round }) => Boolean(round && round.n > 24), title: "Between guesses of one depth, with the same parent, that share a line" },
    { glyph: "+9", label: "without room", when: ({ round }) => Boolean(round && round.n > 24), title: "So many guesses have no room for names there: a click zooms in" },
    { glyph: "┄", label: "not verified", when: ({ run, round }) => run.present.unverified || Boolean(round && nextGuesses(round).tokens.length), title: "Dashed: the drafter's next guesses, which the node budget left out; or the tree that the method routed did not choose" },
  ],
  create: (host, stage) => new TreePanel(host, stage),
});
