// What every panel has: its host, a tip at the pointer, and a sentence if it has nothing to show.

import { html, put, render, svg } from "../shared/ink.js";
import { stillOfSvg } from "../shared/picture.js";

export class Tip {
  constructor(host) {
    this.host = host;
    this.box = html("div", { class: "cp-tip", hidden: true }, host);
  }

  // At a place of the host as it is scrolled.
  show(x, y, lines) {
    const rows = lines.map((line, place) => html("div", place ? "cp-tip-more" : "cp-tip-first", null, line));
    this.box.replaceChildren(...rows);
    this.box.hidden = false;
    this.box.style.maxWidth = "";
    const right = this.host.clientWidth - this.box.offsetWidth - 4;
    const below = y + 16 + this.box.offsetHeight < this.host.clientHeight;
    this.box.style.left = `${this.host.scrollLeft + Math.max(4, Math.min(x + 12, right))}px`;
    this.box.style.top = `${this.host.scrollTop + Math.max(4, below ? y + 16 : y - this.box.offsetHeight - 10)}px`;
  }

  // Moves it out of what lies between two places, to the side with more room, and no wider than that.
  beside(left, right) {
    const { clientWidth, scrollLeft } = this.host;
    const after = clientWidth - right > left;
    this.box.style.maxWidth = `${Math.max(120, (after ? clientWidth - right : left) - 12)}px`;
    this.box.style.left = `${scrollLeft + (after ? right + 8 : Math.max(4, left - this.box.offsetWidth - 8))}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}

// What a panel shows before there is a round, or if a method has nothing to show in it.
export class Empty {
  constructor(host) {
    this.box = html("div", { class: "cp-empty", hidden: true }, host);
  }

  say(headline, more) {
    this.box.replaceChildren(html("div", "cp-empty-first", null, headline), html("div", "", null, more));
    this.box.hidden = false;
  }

  hide() {
    this.box.hidden = true;
  }
}

// A panel has draw(round) and select({node, pinned}); at(event) and wordsOf(what is there) where it listens to the pointer.
// What it draws is an SVG, so that colours follow the theme by themselves, and what is saved is what is seen.
// `marksOf(node)` are the marks of a selected node over the drawing.
export class Panel {
  // `label` names the host where it scrolls: then keys have to reach it.
  constructor(host, stage, name, label = "") {
    this.host = host;
    this.stage = stage;
    host.classList.add("cp-host", `cp-${name}`);
    if (label) put(host, { tabindex: 0, role: "group", "aria-label": `${label} (scrollable)` });
    this.empty = new Empty(host);
    this.tip = new Tip(host);
  }

  sheet(attributes) {
    this.canvas = svg("svg", { class: "cp-svg", ...attributes }, this.host);
    this.drawing = svg("g", { class: "cp-drawing" }, this.canvas);
    this.marked = svg("g", { class: "cp-marked" }, this.canvas);
  }

  setSize(width, height) {
    put(this.canvas, { width, height, viewBox: `0 0 ${width} ${height}` });
  }

  seen(there) {
    put(this.canvas, { hidden: there ? null : "" });
  }

  // Whether there is a round to draw; if there is none, the panel says what will be here, or that it is not known.
  begin(round, words) {
    const known = Boolean(round) && !round.chunked;
    this.round = known ? round : null;
    this.tip.hide();
    if (this.canvas) this.seen(known);
    if (known) this.empty.hide();
    else if (round) this.empty.say("Not known", "This server does not report which of its tokens came in one round.");
    else this.empty.say("No round yet", words);
    return known;
  }

  listen(drawing) {
    const on = (name, act) => drawing.addEventListener(name, (event) => this.round && act(event));
    on("pointermove", (event) => this.point(event));
    on("pointerleave", () => this.leave());
    on("click", (event) => this.press(event));
  }

  // What lies under the pointer: {node (null if none stands for it), x, y, and more for its words}, or null.
  at(event) {
    return null;
  }

  // The lines of the tip there.
  wordsOf(at) {
    return [];
  }

  point(event) {
    const at = this.at(event);
    this.stage.hover(at ? at.node : null);
    if (at) this.tip.show(at.x, at.y, this.wordsOf(at));
    else this.tip.hide();
  }

  press(event) {
    const at = this.at(event);
    this.stage.pin(at ? at.node : null);
  }

  leave() {
    this.tip.hide();
    this.stage.hover(null);
  }

  draw(round) {}

  select({ node }) {
    const there = this.round && node !== null && node < this.round.n;
    render(this.marked, there ? this.marksOf(node) : []);
  }

  marksOf(node) {
    return [];
  }

  resize() {
    this.draw(this.stage.round);
  }

  // The drawing as a picture that stands alone; null if there is nothing to see.
  svg() {
    return this.canvas.hasAttribute("hidden") ? null : stillOfSvg(this.canvas);
  }
}

// Where an event took place, in pixels of an element.
export function placeIn(element, event) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
