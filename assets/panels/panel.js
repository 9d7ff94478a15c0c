// What every panel has: its host, a tip at the pointer, and a sentence if it has nothing to show.

import { html, put, render, svg } from "../shared/ink.js";
import { stillOfSvg } from "../shared/picture.js";

const TIP_STEPS = 12; // places that a tip tries along each side of its host

// A box over its host, hidden unless it has something to say.
class Overlay {
  constructor(/** @type {HTMLElement} */ host, /** @type {string} */ look) {
    this.host = host;
    this.box = html("div", { class: look, hidden: true }, host);
  }

  hide() {
    this.box.hidden = true;
  }
}

class Tip extends Overlay {
  /** Shows the tip near a point of the host, where it covers as little as possible of what it explains.
   *  @param {number} x @param {number} y @param {string[]} lines @param {Box[]} explained */
  show(x, y, lines, explained) {
    const { box, host: { clientWidth, clientHeight, scrollLeft, scrollTop } } = this;
    box.replaceChildren(...lines.map((line, place) => html("div", place ? "cp-tip-more" : "cp-tip-first", null, line)));
    box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = box;
    const pointed = /** @type {Box} */ ({ x: x - 8, y: y - 8, width: 20, height: 24, weight: 5 });
    const steps = (/** @type {number} */ room) => Array.from({ length: TIP_STEPS + 1 }, (_, step) => 4 + (Math.max(0, room - 8) * step) / TIP_STEPS);
    const places = steps(clientWidth - width).flatMap((left) => steps(clientHeight - height).map((top) => {
      const place = { x: left, y: top, width, height };
      const covered = [...explained, pointed].reduce((sum, part) => sum + (part.weight ?? 1000) * overlap(place, part), 0);
      const distance = Math.max(left - x, x - left - width, 0) + Math.max(top - y, y - top - height, 0);
      return { ...place, cost: covered + distance };
    }));
    const best = places.reduce((one, other) => (other.cost < one.cost ? other : one));
    Object.assign(box.style, { left: `${scrollLeft + best.x}px`, top: `${scrollTop + best.y}px` });
  }
}

/** Square pixels that two boxes share. @param {Box} one @param {Box} other */
function overlap(one, other) {
  const wide = Math.min(one.x + one.width, other.x + other.width) - Math.max(one.x, other.x);
  const high = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
  return Math.max(0, wide) * Math.max(0, high);
}

// What a panel shows instead of its drawing before there is a round, or if a method has nothing to show in it.
export class Empty extends Overlay {
  say(/** @type {string} */ headline, /** @type {string} */ more) {
    this.box.replaceChildren(html("div", "cp-empty-first", null, headline), html("div", "", null, more));
    this.box.hidden = false;
  }
}

const DEFER_MS = 90;

// Draws details 90 ms after the last change, a chunk of one of them a frame until `act` returns false: scrubbing skips
// them, and no frame gets long.
export class DeferredDrawing {
  static unfinished = /** @type {Set<DeferredDrawing>} */ (new Set());
  static frame = 0;
  timer = 0; // 0 once it is due

  constructor(/** @type {() => boolean} */ act) {
    this.act = act;
  }

  begin() {
    this.end();
    DeferredDrawing.unfinished.add(this);
    this.timer = setTimeout(() => {
      this.timer = 0;
      DeferredDrawing.later();
    }, DEFER_MS);
  }

  static later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const due = Array.from(this.unfinished).find(({ timer }) => !timer);
      if (!due) return;
      this.unfinished.delete(due);
      this.later(); // first, so that one that fails stops no other
      if (due.act()) this.unfinished.add(due);
    });
  }

  end() {
    DeferredDrawing.unfinished.delete(this);
    clearTimeout(this.timer);
  }
}

/** What a panel holds while there is no round to draw: a round without nodes. @type {Round} */
const NO_ROUND = {
  n: 0, tokens: new Int32Array(), parents: new Int32Array(), depths: new Int32Array(), children: [], logprobs: new Float32Array(),
  drafters: new Int32Array(), index: 0, start: 0, elapsed: 0, keep: [], kept: new Set(), fate: [], bonus: 0, trials: null, alternatives: null,
  choice: new Int32Array(), choiceLogprobs: new Float32Array(), entropy: new Float32Array(), gap: new Float32Array(),
  offered: new Float32Array(), rejectedTrees: [], drafts: [], scores: [], seconds: {}, spent: 0, shared: null, method: "",
  budget: null, split: "", engine: "", chunked: false, drafterNames: [], path: () => [], text: () => "", show: () => "", origin: () => "root",
};

const UNSEEN = { width: 430, height: 270 }; // pixels of a host that is not shown

export class Panel {
  round = NO_ROUND;
  hostSize = /** @type {PanelView["hostSize"]} */ (null);
  waiting = ""; // what the panel says before there is a round

  /** `label` names the host if it scrolls: then keys have to reach it.
   *  @param {HTMLElement} host @param {Stage} stage @param {string} name */
  constructor(host, stage, name, label = "") {
    this.host = host;
    this.stage = stage;
    host.classList.add("cp-host", `cp-${name}`);
    if (label) put(host, { tabindex: 0, role: "group", "aria-label": `${label} (scrollable)` });
    this.empty = new Empty(host, "cp-empty");
    this.tip = new Tip(host, "cp-tip");
    this.bar = html("div", "cp-tools", host); // buttons: the frame takes them into its head, off the drawing
  }

  // Draws a round, or says that there is none to draw.
  draw(/** @type {Round | null} */ round) {
    const isNew = round !== this.round;
    this.round = round && !round.chunked ? round : NO_ROUND;
    this.bar.hidden = this.round === NO_ROUND;
    this.tip.hide();
    this.empty.hide();
    if (!round) this.empty.say("No round yet", this.waiting);
    else if (round.chunked) this.empty.say("Not known", "This server does not report which of its tokens came in one round.");
    else {
      this.drawRound(round, isNew);
      this.select(this.stage.selection);
    }
  }

  drawRound(/** @type {Round} */ round, /** @type {boolean} */ isNew) {}

  select(/** @type {NodeSelection} */ selection) {}

  // The size of the host. It is read once after each change: between two drawings the browser would lay out the page for it.
  get room() {
    const { clientWidth: width, clientHeight: height } = this.hostSize ?? this.host;
    if (!this.hostSize && width) this.hostSize = { clientWidth: width, clientHeight: height };
    return { width: width || UNSEEN.width, height: height || UNSEEN.height };
  }

  resize() {
    this.draw(this.stage.round);
  }

  /** Scrolls to what stands for a node that was chosen elsewhere; nothing moves under the pointer.
   *  @param {HTMLElement} region @param {Box} place @param {(x: number) => number} snap the place across to one where it may stop */
  scrollTo(region, { x, y, width, height }, snap = (left) => left) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = region;
    if (region.matches(":hover")) return;
    if (x < scrollLeft || x + width > scrollLeft + clientWidth) region.scrollLeft = snap(x + (width - clientWidth) / 2);
    if (y < scrollTop || y + height > scrollTop + clientHeight) region.scrollTop = y + (height - clientHeight) / 2;
  }
}

// A panel that draws an SVG, so that colours follow the theme by themselves, and what is saved is what is seen.
export class DrawnPanel extends Panel {
  /** @param {HTMLElement} host @param {Stage} stage @param {string} name @param {Attributes} attributes of the SVG */
  constructor(host, stage, name, label = "", attributes = { role: "img" }) {
    super(host, stage, name, label);
    this.canvas = svg("svg", { class: "cp-svg", ...attributes }, host);
    this.drawing = svg("g", { class: "cp-drawing" }, this.canvas);
    this.marked = svg("g", { class: "cp-marked" }, this.canvas);
    this.listen();
  }

  setSize(/** @type {number} */ width, /** @type {number} */ height) {
    put(this.canvas, { width, height, viewBox: `0 0 ${width} ${height}` });
  }

  /** Calls `act` for an event of the drawing while there is a round.
   *  @template {keyof SVGElementEventMap} Name @param {Name} name @param {(event: SVGElementEventMap[Name]) => unknown} act
   *  @param {AddEventListenerOptions} [options] */
  on(name, act, options) {
    this.canvas.addEventListener(name, (event) => this.round.n && act(event), options);
  }

  listen() {
    this.on("pointermove", (event) => this.onPointer(event));
    this.on("pointerleave", () => this.onLeave());
    this.on("click", (event) => this.onClick(event));
  }

  /** @param {MouseEvent} event @returns {Pointed | null} */
  pointedAt(event) {
    return null;
  }

  /** @param {Pointed} at @returns {string[]} */
  tipLines(at) {
    return [];
  }

  onPointer(/** @type {MouseEvent} */ event) {
    const at = this.pointedAt(event);
    this.stage.hover(at && at.node);
    const [x, y] = placeIn(this.host, event);
    if (at) this.tip.show(x, y, this.tipLines(at), this.boxesToSpare());
    else this.tip.hide();
  }

  /** What is marked, and less so labels, as boxes of the host as it is scrolled: a tip leaves them free. @returns {Box[]} */
  boxesToSpare() {
    const host = this.host.getBoundingClientRect();
    const zoom = zoomOf(this.host);
    return Array.from(this.canvas.querySelectorAll(".cp-marked > *, .cp-label"), (mark) => {
      const { left, top, width, height } = mark.getBoundingClientRect();
      const weight = mark.matches("[data-label]") ? 0.02 : undefined;
      return { x: (left - host.left) / zoom - 4, y: (top - host.top) / zoom - 4, width: width / zoom + 8, height: height / zoom + 8, weight };
    });
  }

  onClick(/** @type {MouseEvent} */ event) {
    const at = this.pointedAt(event);
    this.stage.pin(at && at.node);
  }

  onLeave() {
    this.tip.hide();
    this.stage.hover(null);
  }

  select(/** @type {NodeSelection} */ { node }) {
    render(this.marked, node !== null && node < this.round.n ? this.marksOf(node) : []);
  }

  /** The marks of a selected node over the drawing. @param {number} node @returns {Mark[]} */
  marksOf(node) {
    return [];
  }

  // The drawing as a picture that stands alone; null if there is nothing to see.
  svg() {
    return this.empty.box.hidden ? stillOfSvg(this.canvas) : null;
  }
}

/** Where an event took place, in pixels of an element. @param {Element} element @param {MouseEvent} event @returns {[x: number, y: number]} */
export function placeIn(element, event) {
  const box = element.getBoundingClientRect();
  const zoom = zoomOf(element);
  return [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom];
}

// How much larger than drawn an element stands on the screen (see ``Frames.zoom``).
export const zoomOf = (/** @type {Element} */ element) => element.currentCSSZoom ?? 1;
