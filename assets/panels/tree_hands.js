// The input of the draft tree: pointer, wheel and keys.
//
// A click pins a node but leaves the focus where it was, so the page's own keys go on working; Tab enters the
// tree, and then the arrows follow its shape: left to the parent, right to the first child, up and down in a column.

import { ORIGIN_NAME, probability } from "./ink.js";

export class TreeHands {
  constructor(panel) {
    this.panel = panel;
    this.grip = null;
    const canvas = panel.canvas;
    const on = (name, act, options) => canvas.addEventListener(name, (event) => panel.round && act(event), options);
    on("pointerdown", (event) => this.take(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", () => { this.grip = null; });
    on("pointerleave", () => this.leave());
    on("mousedown", (event) => event.preventDefault());
    on("dblclick", (event) => this.flip(this.node(event)));
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("keydown", (event) => this.key(event));
    on("focusin", (event) => this.focused(event));
  }

  place(event) {
    const box = this.panel.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  node(event) {
    return this.panel.nearest(...this.place(event));
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
    if (!this.grip.moved) this.panel.canvas.setPointerCapture(this.grip.id);
    Object.assign(this.grip, { x: event.clientX, y: event.clientY, moved: true });
    this.panel.tip.hide();
    this.panel.camera.pan(right, down);
    return this.later();
  }

  // One repaint a frame, however many events arrive in it.
  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.panel.repaint();
    });
  }

  release(event) {
    const dragged = this.grip && this.grip.moved;
    this.grip = null;
    if (dragged || event.button !== 0) return;
    const node = this.node(event);
    this.panel.stage.pin(node === null ? null : { node });
  }

  point(event) {
    const node = this.node(event);
    if (node === this.over) return;
    this.over = node;
    this.panel.stage.hover(node === null ? null : { node });
    if (node === null) this.panel.tip.hide();
    else this.panel.tip.show(...this.place(event), this.words(node));
  }

  words(node) {
    const round = this.panel.round;
    const chance = Math.exp(round.logprobs[node]);
    const depth = round.depths[node];
    const lines = [round.show(round.tokens[node]), `row ${node}, depth ${depth}, position ${round.start + depth}`];
    if (node === 0) return [...lines, "root: the target's own token from the round before"];
    const parent = round.parents[node];
    const step = Math.exp(round.logprobs[node] - round.logprobs[parent]);
    const given = probability(Math.exp(round.offered[node]));
    lines.push(`path probability ${probability(chance)}, this step ${probability(step)}`);
    lines.push(`${ORIGIN_NAME[round.origin(node)]}, ${round.fate[node]}; the target gives it ${given}`);
    return lines;
  }

  leave() {
    if (this.grip) return;
    this.over = undefined;
    this.panel.tip.hide();
    this.panel.stage.hover(null);
  }

  flip(node) {
    if (node !== null) this.panel.fold(node, !this.panel.folded.has(node));
  }

  wheel(event) {
    const steps = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    const [x, y] = this.place(event);
    if (!this.panel.camera.zoom(Math.exp(-steps * 0.0016), x, y)) return;
    event.preventDefault();
    this.panel.tip.hide();
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.panel.focus;
    const moves = {
      ArrowLeft: () => (node === 0 ? null : this.panel.round.parents[node]),
      ArrowRight: () => this.panel.layout.children[node].find((child) => child < this.panel.round.n) ?? null,
      ArrowUp: () => this.beside(node, -1), ArrowDown: () => this.beside(node, 1),
      Home: () => 0, End: () => this.panel.round.keep[this.panel.round.keep.length - 1],
    };
    if (moves[event.key]) this.go(moves[event.key]());
    else if (event.key === "+" || event.key === "=") this.panel.fold(node, false);
    else if (event.key === "-") this.panel.fold(node, true);
    else if (event.key === "Enter") this.panel.stage.pin({ node });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The next node above or below in the same column.
  beside(node, step) {
    const { columns, rows } = this.panel.layout;
    let best = null;
    for (let other = 0; other < this.panel.round.n; other++) {
      const far = (rows[other] - rows[node]) * step;
      if (columns[other] !== columns[node] || rows[other] < 0 || far <= 0) continue;
      if (best === null || far < (rows[best] - rows[node]) * step) best = other;
    }
    return best;
  }

  go(node) {
    if (node === null) return;
    this.panel.focus = node;
    this.panel.marks.items.draw(this.panel.marks);
    this.panel.marks.items.focus(node);
  }

  focused(event) {
    const node = Number(event.target.getAttribute("data-node"));
    if (!event.target.hasAttribute("data-node")) return;
    this.panel.focus = node;
    this.panel.stage.hover({ node });
  }
}
