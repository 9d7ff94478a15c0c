// The draft tree: left to right by depth, the kept path straight along the top.

import { button, Empty, html, put, spoken, svg, Tip } from "./ink.js";
import { Camera, layoutOf } from "./layout.js";
import { TreeHands } from "./tree_hands.js";
import { TreeLabels, TreeMarks } from "./tree_marks.js";
import { stillOfSvg } from "../stage/picture.js";
import { define } from "../stage/stage.js";

const GROW_MS = 250;
const WALK_MS = 150;
const NEAR = 14; // pixels within which the pointer means a node

class TreePanel {
  constructor(host, stage) {
    this.host = host;
    this.stage = stage;
    host.classList.add("cp-host", "cp-tree");
    this.canvas = svg("svg", { class: "cp-svg", role: "tree", "aria-label": "Draft tree" }, host);
    this.marks = new TreeMarks(this.canvas);
    this.camera = new Camera(stage);
    this.empty = new Empty(host);
    this.tip = new Tip(host);
    this.folded = new Set();
    this.selection = { node: null, pinned: false };
    this.focus = 0;
    this.ghostShown = false;
    this.addButtons();
    new TreeHands(this);
  }

  addButtons() {
    const bar = html("div", "cp-tools is-low", this.host); // the frame takes it into its head, off the drawing
    this.bar = bar;
    const about = "Show or hide the tree that was not chosen";
    this.ghostButton = button(bar, "other tree", about, () => this.toggleGhost());
    button(bar, "fit", "Fit the tree into the panel", () => this.fit());
    button(bar, "−", "Zoom out", () => this.zoom(1 / 1.35));
    button(bar, "+", "Zoom in", () => this.zoom(1.35));
  }

  draw(round) {
    cancelAnimationFrame(this.frame);
    const fresh = round !== this.round;
    this.round = round;
    this.canvas.style.display = round ? "" : "none";
    this.bar.hidden = !round;
    if (!round) {
      this.marks.items.clear();
      this.empty.say("No round yet", "Press Run, or open a recording: the tree of each round grows here.");
      return;
    }
    this.empty.hide();
    if (fresh) this.begin(round);
    this.arrange();
    if (fresh && this.stage.animate && !this.stage.reducedMotion && round.n > 1) this.grow();
    else this.paint(null, Infinity);
  }

  begin(round) {
    this.folded.clear();
    this.focus = 0;
    this.matches = [];
    this.tip.hide();
    const kept = round.keep.length - 1;
    this.canvas.setAttribute("aria-label",
      `Draft tree of round ${round.index + 1}: ${round.n - 1} drafted nodes, ${kept} accepted, `
      + `bonus '${spoken(round, round.bonus)}'`);
  }

  // The ghost's nodes follow the tree's own as further children of the same root.
  arrange() {
    const round = this.round;
    this.ghost = (round.ghosts || [])[0] || null;
    this.ghostButton.hidden = !this.ghost;
    this.ghostButton.setAttribute("aria-pressed", String(this.ghostShown));
    const extra = this.ghost && this.ghostShown ? this.ghost.tokens.length - 1 : 0;
    this.parents = new Int32Array(round.n + extra);
    this.parents.set(round.parents);
    for (let node = 1; node <= extra; node++) {
      const parent = this.ghost.parents[node];
      this.parents[round.n + node - 1] = parent === 0 ? 0 : round.n + parent - 1;
    }
    this.layout = layoutOf(this.parents, round.kept, round.keep[round.keep.length - 1], this.folded);
    if (!this.camera.held) this.fitCamera();
  }

  // In the story a rejected guess says its token only when it is pointed at.
  get quiet() {
    return this.stage.mode === "story" && !this.host.closest(".is-full");
  }

  size() {
    return [this.host.clientWidth || 640, this.host.clientHeight || 360];
  }

  fitCamera() {
    const [width, height] = this.size();
    const stand = (column) => TreeLabels.stand(this.round, column);
    this.camera.fit(width, height, this.layout.columnCount, this.layout.rowCount, stand);
  }

  paint(limit, lit) {
    const [width, height] = this.size();
    const round = this.round;
    const ghost = this.ghost;
    put(this.canvas, { width, height, viewBox: `0 0 ${width} ${height}` });
    this.limit = limit;
    this.lit = lit;
    this.marks.draw({
      round, width, height, limit, lit, layout: this.layout, camera: this.camera, parents: this.parents,
      rank: this.rank, folded: this.folded, focus: this.focus, ghostOrigin: ghost ? `drafter${ghost.drafter}` : "root",
      tokens: (node) => (node < round.n ? round.tokens[node] : ghost.tokens[node - round.n + 1]),
      hidden: (node) => this.below(node), quiet: this.quiet,
    });
    this.marks.select(this.selection.node);
    this.marks.find(this.matches);
  }

  repaint() {
    if (!this.round) return;
    this.paint(this.limit, this.lit);
    this.stage.tell("camera");
  }

  // Nodes appear from the most probable on, which is the best-first order; then the walk lights up.
  grow() {
    const round = this.round;
    const order = Array.from({ length: round.n }, (_, node) => node)
      .sort((one, other) => round.logprobs[other] - round.logprobs[one] || one - other);
    this.rank = new Int32Array(round.n);
    order.forEach((node, place) => { this.rank[node] = place; });
    const began = performance.now();
    const steps = round.keep.length + 1;
    const step = (now) => {
      const past = Math.max(0, now - began);
      if (past >= GROW_MS + WALK_MS) return this.paint(null, Infinity);
      const limit = Math.max(1, Math.ceil((round.n * past) / GROW_MS));
      this.paint(past < GROW_MS ? limit : null, past < GROW_MS ? 1 : 1 + (steps * (past - GROW_MS)) / WALK_MS);
      this.frame = requestAnimationFrame(step);
      return undefined;
    };
    this.paint(1, 1);
    this.frame = requestAnimationFrame(step);
  }

  select(selection) {
    this.selection = selection || { node: null, pinned: false };
    this.canvas.classList.toggle("is-pinned", Boolean(this.selection.pinned));
    if (this.round && this.layout) this.marks.select(this.selection.node);
  }

  resize() {
    if (!this.round) return;
    if (!this.camera.held) this.fitCamera();
    this.repaint();
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

  toggleGhost() {
    this.ghostShown = !this.ghostShown;
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
    this.stage.hover({ node });
  }

  svg() {
    return this.round ? stillOfSvg(this.canvas) : null;
  }
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
    { glyph: "┄", label: "not chosen", ghost: true, title: "The method routed drafts a tree with each drafter and verifies only one; the other is dashed" },
  ],
  create: (host, stage) => new TreePanel(host, stage),
});
