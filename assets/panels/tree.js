// The draft tree: left to right by depth, the kept path straight along the top.

import { button, clip, html, ORIGIN_NAME, probability, put, sparing, spoken } from "../shared/ink.js";
import { Earned, rankOf } from "./earned.js";
import { Camera, layoutOf, neighbour } from "./layout.js";
import { Panel, placeIn } from "./panel.js";
import { standOf, TreeMarks } from "./tree_marks.js";
import { define } from "../shared/define.js";

const SWIFT = { grow: 250, walk: 150 }; // milliseconds
const SCENES = { guess: { grow: 2600, walk: 0 }, verify: { grow: 0, walk: 1600 } }; // of the film: one after the other
const PATH_ROOM = 240; // pixels for the path in a tooltip
const TIP_FONT = "12px system-ui, sans-serif";
const NEAR = 14; // pixels within which the pointer means a node

class TreePanel extends Panel {
  constructor(host, stage) {
    super(host, stage, "tree");
    this.sheet({ role: "tree", "aria-label": "Draft tree" });
    this.marks = new TreeMarks(this.canvas, this.drawing, this.marked);
    this.camera = new Camera(stage);
    this.folded = new Set();
    this.focus = 0;
    this.rejectedTreeShown = false;
    this.earned = null; // an Earned, where nodes are inked by what their places earned
    this.addButtons();
    this.listen();
  }

  addButtons() {
    const bar = html("div", "cp-tools is-low", this.host); // the frame takes it into its head, off the drawing
    this.bar = bar;
    const about = "Show or hide the tree that was not chosen";
    this.rejectedTreeButton = button(bar, "other tree", about, () => this.toggleRejectedTree());
    this.earnedButton = button(bar, "earned", "Ink by how often rows of the same rank, depth and drafter were kept in this run, instead of by probability",
      () => this.toggleEarned());
    button(bar, "fit", "Fit the tree into the panel", () => this.fit());
    button(bar, "−", "Zoom out", () => this.zoom(1 / 1.35));
    button(bar, "+", "Zoom in", () => this.zoom(1.35));
  }

  draw(round) {
    cancelAnimationFrame(this.frame);
    const scene = SCENES[this.stage.scene];
    const fresh = round !== this.round;
    const there = this.begin(round, "Press Run, or open a recording: the tree of each round grows here.");
    this.bar.hidden = !there;
    if (!there) {
      this.marks.clearItems();
      return;
    }
    if (fresh) this.start(round);
    this.arrange();
    const moves = (fresh || scene) && this.stage.animate && !this.stage.reducedMotion && round.n > 1;
    if (moves) this.grow(scene || SWIFT);
    else this.paint(null, scene && !scene.walk ? 1 : Infinity);
  }

  start(round) {
    this.folded.clear();
    this.focus = 0;
    this.matches = [];
    const kept = round.keep.length - 1;
    put(this.canvas, { "aria-label": `Draft tree of round ${round.index + 1}: ${round.n - 1} drafted nodes, ${kept} accepted, `
      + `bonus '${spoken(round, round.bonus)}'` });
  }

  // The rejected tree's nodes follow the tree's own as further children of the same root.
  arrange() {
    const round = this.round;
    this.rejectedTree = (round.rejectedTrees || [])[0] || null;
    this.rejectedTreeButton.hidden = !this.rejectedTree;
    this.rejectedTreeButton.setAttribute("aria-pressed", String(this.rejectedTreeShown));
    this.earnedButton.setAttribute("aria-pressed", String(Boolean(this.earned)));
    this.earnedButton.hidden = this.stage.mode === "story" || round.n < 2;
    if (this.earned) this.earned.count(this.stage.rounds);
    const extra = this.rejectedTree && this.rejectedTreeShown ? this.rejectedTree.tokens.length - 1 : 0;
    this.parents = new Int32Array(round.n + extra);
    this.parents.set(round.parents);
    for (let node = 1; node <= extra; node++) {
      const parent = this.rejectedTree.parents[node];
      this.parents[round.n + node - 1] = parent === 0 ? 0 : round.n + parent - 1;
    }
    this.layout = layoutOf(this.parents, round.kept, round.keep[round.keep.length - 1], this.folded);
    if (!this.camera.held) this.fitCamera();
  }

  size() {
    return [this.host.clientWidth || 640, this.host.clientHeight || 360];
  }

  fitCamera() {
    const [width, height] = this.size();
    this.camera.fit(width, height, this.layout.columnCount, this.layout.rowCount, (column) => standOf(this.round, column));
  }

  paint(limit, lit) {
    const [width, height] = this.size();
    const round = this.round;
    const rejectedTree = this.rejectedTree;
    this.setSize(width, height);
    this.limit = limit;
    this.lit = lit;
    this.marks.draw({
      round, width, height, limit, lit, layout: this.layout, camera: this.camera, parents: this.parents,
      rank: this.rank, folded: this.folded, focus: this.focus, rejectedTreeOrigin: rejectedTree ? `drafter${rejectedTree.drafter}` : "root",
      tokens: (node) => (node < round.n ? round.tokens[node] : rejectedTree.tokens[node - round.n + 1]),
      hidden: (node) => this.below(node),
      ink: (node) => (this.earned ? this.earned.share(round, node) : Math.exp(round.logprobs[node])),
    });
    this.select(this.stage.selection);
  }

  repaint() {
    if (!this.round) return;
    this.paint(this.limit, this.lit);
    this.stage.tell("camera");
  }

  // Nodes appear from the most probable on, which is the best-first order; then the walk lights up.
  grow({ grow, walk }) {
    const round = this.round;
    const order = Array.from({ length: round.n }, (_, node) => node)
      .sort((one, other) => round.logprobs[other] - round.logprobs[one] || one - other);
    this.rank = new Int32Array(round.n);
    order.forEach((node, place) => { this.rank[node] = place; });
    const began = performance.now();
    const steps = round.keep.length + 1;
    const step = (now) => {
      const past = Math.max(0, now - began);
      if (past >= grow + walk) return this.paint(null, walk ? Infinity : 1);
      const limit = Math.max(1, Math.ceil((round.n * past) / grow));
      this.paint(past < grow ? limit : null, past < grow ? 1 : 1 + (steps * (past - grow)) / walk);
      this.frame = requestAnimationFrame(step);
      return undefined;
    };
    this.paint(grow ? 1 : null, 1);
    this.frame = requestAnimationFrame(step);
  }

  select({ node, pinned }) {
    this.canvas.classList.toggle("is-pinned", pinned);
    if (this.round) this.marks.select(node, this.matches);
  }

  resize() {
    if (this.camera.held) this.repaint();
    else this.fit();
  }

  fit() {
    if (!this.round) return;
    this.fitCamera();
    this.repaint();
  }

  // The buttons zoom around the middle of the kept path, as far as it is in sight: it is never zoomed away.
  zoom(factor) {
    if (!this.round) return;
    const [width, height] = this.size();
    const { camera, layout, round } = this;
    const end = camera.x(layout.columns[round.keep[round.keep.length - 1]]);
    const [left, right] = [Math.max(0, camera.x(0)), Math.min(width, end)];
    const across = left < right ? (left + right) / 2 : width / 2;
    const down = camera.top >= 0 && camera.top <= height ? camera.top : height / 2;
    if (camera.zoom(factor, across, down)) this.repaint();
  }

  toggleRejectedTree() {
    this.rejectedTreeShown = !this.rejectedTreeShown;
    this.arrange();
    this.repaint();
  }

  toggleEarned() {
    this.earned = this.earned ? null : new Earned();
    this.arrange();
    this.repaint();
  }

  below(node) {
    return this.round.children[node].reduce((sum, child) => sum + 1 + this.below(child), 0);
  }

  fold(node, folded) {
    if (!this.round.children[node].length || folded === this.folded.has(node)) return;
    if (folded) this.folded.add(node);
    else this.folded.delete(node);
    this.arrange();
    this.repaint();
  }

  nearest(x, y) {
    let best = null;
    let least = NEAR * NEAR;
    for (let node = 0; node < this.round.n; node++) {
      if (this.layout.rows[node] < 0) continue;
      const [right, down] = this.marks.at(node);
      const far = (right - x) ** 2 + (down - y) ** 2;
      if (far < least) [best, least] = [node, far];
    }
    return best;
  }

  // Marks every node whose token contains the text and goes to the first; asked again, to the next.
  search(text) {
    const round = this.round;
    const wanted = String(text || "").toLowerCase();
    if (!round) return { count: 0, place: 0, node: null };
    const within = (form) => String(form).toLowerCase().includes(wanted);
    const has = (id) => within(round.text(id)) || within(round.show(id));
    this.matches = wanted ? Array.from(round.tokens.keys()).filter((node) => has(round.tokens[node])) : [];
    this.place = wanted === this.wanted ? (this.place + 1) % Math.max(1, this.matches.length) : 0;
    this.wanted = wanted;
    const node = this.matches.length ? this.matches[this.place] : null;
    if (node !== null) this.reveal(node);
    this.repaint();
    return { count: this.matches.length, place: this.place, node };
  }

  reveal(node) {
    for (const step of this.round.path(node)) if (step !== node) this.folded.delete(step);
    this.arrange();
    const [x, y] = this.marks.at(node);
    const [width, height] = this.size();
    const seen = x > 10 && x < width - 10 && y > 10 && y < height - 10;
    if (!seen) this.camera.centre(this.layout.columns[node], this.layout.rows[node], width, height);
    this.stage.hover(node);
  }

  // A click pins a node but leaves the focus where it was, so the page's own keys go on working; Tab enters the tree, and
  // then the arrows follow its shape.
  listen() {
    this.grip = null; // what the pointer drags
    this.later = sparing(() => this.repaint()); // one repaint a frame, however many events arrive in it
    const on = (name, act, options) => this.canvas.addEventListener(name, (event) => this.round && act(event), options);
    on("pointerdown", (event) => this.take(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", () => { this.grip = null; });
    on("pointerleave", () => this.leave());
    on("mousedown", (event) => event.preventDefault());
    on("dblclick", (event) => this.flip(this.at(event)));
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("keydown", (event) => this.key(event));
    on("focusin", (event) => this.focused(event));
  }

  at(event) {
    const [x, y] = placeIn(this.canvas, event);
    const node = this.nearest(x, y);
    return node === null ? null : { node, x, y };
  }

  wordsOf({ node }) {
    return wordsOf(this.round, node, this.earned);
  }

  take(event) {
    if (event.button !== 0) return;
    this.grip = { x: event.clientX, y: event.clientY, moved: false, id: event.pointerId };
  }

  move(event) {
    if (!this.grip) return this.point(event);
    const right = event.clientX - this.grip.x;
    const down = event.clientY - this.grip.y;
    if (!this.grip.moved && Math.hypot(right, down) < 4) return undefined;
    if (!this.grip.moved) this.canvas.setPointerCapture(this.grip.id);
    Object.assign(this.grip, { x: event.clientX, y: event.clientY, moved: true });
    this.tip.hide();
    this.camera.pan(right, down);
    return this.later();
  }

  release(event) {
    const dragged = this.grip && this.grip.moved;
    this.grip = null;
    if (dragged || event.button !== 0) return;
    this.press(event);
  }

  leave() {
    if (!this.grip) super.leave();
  }

  flip(at) {
    if (at) this.fold(at.node, !this.folded.has(at.node));
  }

  wheel(event) {
    const steps = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    const [x, y] = placeIn(this.canvas, event);
    if (!this.camera.zoom(Math.exp(-steps * 0.0016), x, y)) return;
    event.preventDefault();
    this.tip.hide();
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.focus;
    const next = neighbour(this.round, this.layout, node, event.key);
    if (next !== undefined) this.go(next);
    else if (event.key === "+" || event.key === "=") this.fold(node, false);
    else if (event.key === "-") this.fold(node, true);
    else if (event.key === "Enter") this.stage.pin(node);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  go(node) {
    if (node === null) return;
    this.focus = node;
    this.marks.focus(node);
  }

  focused(event) {
    const node = Number(event.target.getAttribute("data-node"));
    if (!event.target.hasAttribute("data-node")) return;
    this.focus = node;
    this.stage.hover(node);
  }
}

// A node in words, for its tooltip.
function wordsOf(round, node, earned) {
  const chance = Math.exp(round.logprobs[node]);
  const depth = round.depths[node];
  const lines = [round.show(round.tokens[node]), `row ${node}, depth ${depth}, position ${round.start + depth}`];
  if (node === 0) return [...lines, "root: the target's own token from the round before"];
  const parent = round.parents[node];
  const path = round.path(node).slice(0, -1).filter(Boolean).map((step) => round.show(round.tokens[step]));
  if (path.length) lines[1] += `, after ${clip(path.join(""), PATH_ROOM, TIP_FONT)}`;
  const step = Math.exp(round.logprobs[node] - round.logprobs[parent]);
  const given = probability(Math.exp(round.offered[node]));
  lines.push(`${ORIGIN_NAME[round.origin(node)]}, sibling ${rankOf(round, node) + 1} of ${round.children[parent].length}: q ${probability(step)}, of the path ${probability(chance)}`);
  lines.push(`target: p ${given}, its first two ${round.gap[parent].toFixed(2)} nats apart here`);
  lines.push(whyOf(round, node));
  if (earned) lines.push(`rows at this place: ${earned.at(round, node).kept} of ${earned.at(round, node).seen} kept in this run`);
  return lines;
}

// Kept, or why not.
function whyOf(round, node) {
  const parent = round.parents[node];
  if (round.trials) return round.kept.has(node) ? "accepted in its trial" : "rejected: its trial failed, or was not made";
  if (round.kept.has(node)) return "accepted: the target chose it";
  if (!round.kept.has(parent)) return "rejected: what stands before it was";
  const place = round.keep.indexOf(parent) + 1;
  const taken = place < round.keep.length ? round.tokens[round.keep[place]] : round.bonus;
  return `rejected: the target chose ${round.show(taken)} here`;
}

define({
  name: "tree",
  title: "Draft tree",
  place: { row: "upper", share: 1.5 },
  caption: "Guesses after the root, depth by depth; the accepted path runs along the top.",
  legend: [
    { glyph: "●✓", label: "accepted" }, { glyph: "○", label: "rejected" },
    { glyph: "◆", label: "bonus", color: "--target", title: "The target's own next token, after the last accepted node" },
    { glyph: "■", label: "drafter 1", color: "--drafter1", origin: "drafter1" },
    { glyph: "■", label: "drafter 2", color: "--drafter2", origin: "drafter2" },
    { glyph: "■", label: "both", color: "--both", origin: "both", title: "Guessed by both drafters" },
    { glyph: "┄", label: "not chosen", rejectedTree: true, title: "The method routed drafts a tree with each drafter and verifies only one; the other is dashed" },
  ],
  create: (host, stage) => new TreePanel(host, stage),
});
