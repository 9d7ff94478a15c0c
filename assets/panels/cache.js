// The cache's rows on a strip: where each is drawn, and their fates in words.

import { box, clip, group, joinPaths, MONO, path, put, render, short, text, textWidth } from "../shared/ink.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { define } from "../shared/define.js";

const KEPT = { least: 9, share: 0.6 }; // a kept slot's width and what all of them may take, where slots are narrow
const MAX_WIDTH = 40;

// Where each slot of the pass begins, and where the last ends. A thousand slots leave none wide enough to be seen, so
// the kept ones are drawn wider then, and the dropped ones share what is left.
/** @param {Round} round @param {number} room */
export function edgesOf(round, room) {
  const even = Math.min(MAX_WIDTH, room / round.n);
  const wide = Math.max(even, Math.min(KEPT.least, (KEPT.share * room) / round.keep.length));
  const dropped = round.n - round.keep.length;
  const narrow = dropped ? Math.min(even, (room - wide * round.keep.length) / dropped) : 0;
  const edges = new Float64Array(round.n + 1);
  for (let node = 0; node < round.n; node++) edges[node + 1] = edges[node] + (round.kept.has(node) ? wide : narrow);
  return { edges, uneven: wide > even };
}

// How many kept rows already lie where they belong, how many are moved there, and how many are dropped.
/** @param {number} still @param {number} moved @param {number} dropped @param {boolean} brief */
export function rowWords(still, moved, dropped, brief) {
  const where = [still && `${still} in place`, moved && `${moved} moved`, dropped && `${dropped} dropped`].filter(Boolean);
  return (brief ? "" : "rows: ") + where.join(", ");
}

// What layers do that keep a state and no rows, and nothing if the target has none.
/** @param {Header | null} header @param {number} kept @param {boolean} brief */
export function replayWords(header, kept, brief) {
  const layers = (header && header.recurrent_layers) || 0;
  const where = brief ? "" : ` in ${layers} recurrent ${layers > 1 ? "layers" : "layer"}`;
  return layers ? `; ${kept} ${kept > 1 ? "steps" : "step"} replayed${where}` : "";
}

// The KV cache around a round: its slots after the verify pass, and after all but the kept rows were dropped.
const LEFT = 10;
const PREFIX = 58;
const TOP = { y: 31, height: 17 };
const LOW = { height: 23, least: 84, most: 168, foot: 32, footWithBonus: 50 };
const CELL = { most: 58 };
const NUMBER_ROOM = 17; // pixels between two row numbers

/** @import { Pointed } from "./panel.js" */
/** @typedef {{ y: number, height: number }} Strip */

class CachePanel extends DrawnPanel {
  words = /** @type {Mark[]} */ ([]);
  roomy = false;
  low = /** @type {Strip} */ ({ y: 0, height: LOW.height });
  width = 0;
  x = LEFT + PREFIX + 3;
  edges = new Float64Array(1); // of the slots, in pixels from x
  uneven = false;
  cell = 0;

  /** @param {HTMLElement} host @param {Stage} stage */
  constructor(host, stage) {
    super(host, stage, "cache", { role: "img" }, "KV cache");
    this.listen();
  }

  draw(/** @type {Round | null} */ round) {
    const fresh = round !== this.round;
    if (!this.begin(round, "Here you see which cache rows stay after a verify pass.")) return;
    this.measure();
    this.words = [];
    this.drawWords();
    render(this.drawing, [group(this.slots()), group(this.moves(), "cp-moved"), group(this.words)]);
    this.select(this.stage.selection);
    if (fresh && this.stage.animate && !this.stage.reducedMotion) this.slide();
  }

  measure() {
    const width = this.host.clientWidth || 360;
    const height = Math.max(this.host.clientHeight || 240, LOW.least + LOW.height + LOW.foot);
    this.roomy = height >= LOW.least + LOW.height + LOW.footWithBonus;
    const foot = this.roomy ? LOW.footWithBonus : LOW.foot;
    this.low = { y: Math.min(LOW.most, height - LOW.height - foot), height: LOW.height };
    this.width = width;
    Object.assign(this, edgesOf(this.round, width - this.x - LEFT));
    this.cell = Math.min(CELL.most, (width - this.x - LEFT) / Math.max(1, this.round.keep.length));
    this.setSize(width, height);
  }

  /** @param {string} words @param {number} x @param {number} y @param {string} look */
  text(words, x, y, look) {
    this.words.push(text(look, words, x, y));
  }

  slots() {
    const { round, edges } = this;
    const slot = (/** @type {number} */ node) => {
      const wide = edges[node + 1] - edges[node];
      const inset = wide >= 4 ? 0.5 : 0;
      return path(`cp-slot ${round.kept.has(node) ? "is-kept" : "is-dropped"} o-${round.origin(node)}`,
        box((this.x + edges[node] + inset).toFixed(2), TOP.y, Math.max(wide - 2 * inset, 0.3).toFixed(2), TOP.height));
    };
    const [kept, dropped] = [true, false].map((is) => Array.from(round.tokens.keys()).filter((node) => round.kept.has(node) === is));
    const end = this.x + round.keep.length * this.cell;
    const free = Math.max(0, Math.min(this.width - LEFT, this.x + edges[round.n]) - end);
    return [
      ...[TOP, this.low].map(({ y, height }) => path("cp-slot is-prefix", box(LEFT, y, PREFIX, height))),
      ...joinPaths([...dropped, ...kept].map(slot)),
      path("cp-slot is-free", free > 6 ? box(end + 2, this.low.y, free - 2, LOW.height) : "")];
  }

  // The kept rows on their way, and where they end.
  moves() {
    const { round, cell, edges, low } = this;
    const kept = round.keep.map((node, place) => ({
      node, look: `o-${round.origin(node)}`, still: node === place,
      from: this.x + (edges[node] + edges[node + 1]) / 2, to: this.x + (place + 0.5) * cell }));
    const bend = (TOP.y + TOP.height + low.y) / 2;
    let last = -Infinity;
    for (const { node, still, from, to } of kept) {
      const token = short(round.show(round.tokens[node]), cell - 4, `10.5px ${MONO}`);
      if (token) this.text(token, to, low.y + 16, "is-mid");
      const tight = textWidth(String(node), "700 10px system-ui, sans-serif") > cell - 2 ? "is-tight" : "";
      this.text(String(node), to, low.y + LOW.height + 13, `cp-slot-number is-mid ${tight} ${still ? "" : "is-moved"}`);
      if (from - last < NUMBER_ROOM) continue;
      this.text(String(node), from, TOP.y - 5, "cp-slot-number is-mid");
      last = from;
    }
    return [
      group(kept.map(({ look, still, from, to }) => path(`cp-move ${look} ${still ? "is-still" : ""}`,
        `M${from},${TOP.y + TOP.height + 1}C${from},${bend} ${to},${bend} ${to},${low.y - 2}`))),
      group(kept.map(({ look, to }) => /** @type {Mark} */ (["rect", { class: `cp-slot is-kept ${look}`,
        x: (to - cell / 2 + 1).toFixed(1), y: low.y, width: Math.max(1, cell - 2).toFixed(1), height: LOW.height, rx: 3 }])))];
  }

  drawWords() {
    const { round } = this;
    const kept = round.keep.length;
    const still = round.keep.filter((node, place) => node === place).length;
    const after = round.start + round.n;
    this.text("after verify", LEFT, TOP.y - 19, "cp-strip-name");
    const right = this.width - LEFT;
    const y = this.low.y + LOW.height + 28;
    const wide = this.uneven ? ", the kept ones drawn wider" : "";
    this.text(`${round.start} + ${round.n} = ${after} slots${this.width > 330 ? wide : ""}`, right, TOP.y - 19, "cp-strip-size is-end");
    this.text("after keep", LEFT, this.low.y - 8, "cp-strip-name");
    for (const strip of [TOP, this.low]) {
      const middle = strip.y + strip.height / 2 + 3.5;
      this.text(`prefix ${round.start}`, LEFT + PREFIX / 2, middle, "cp-slot-prefix is-mid");
    }
    this.text("row kept", LEFT + PREFIX, this.low.y + LOW.height + 13, "cp-slot-number is-end");
    const replayed = replayWords(this.stage.header, kept, false);
    const brief = this.width < (replayed ? 560 : 380);
    this.text(`${rowWords(still, kept - still, round.n - kept, brief)}: ${round.start + kept} slots${replayWords(this.stage.header, kept, brief)}`, LEFT, y, "cp-strip-size");
    const bonus = clip(round.show(round.bonus), 90, `11px ${MONO}`);
    const last = this.stage.value.end && this.stage.value.end.reason === "stop" && round === this.stage.rounds.at(-1);
    const next = last ? "ends the text: it needs no slot" : "has no slot yet: it is the next root";
    if (this.roomy) this.text(`◆ ${bonus} ${next}`, LEFT, y + 17, "cp-strip-size");
    put(this.canvas, { "aria-label": `Cache of round ${round.index + 1}: ${round.start} slots before, ${after} after verify, `
      + `${round.start + kept} after keep; kept rows ${round.keep.join(", ")}; `
      + rowWords(still, kept - still, round.n - kept, false) + replayed });
  }

  slide() {
    this.drawing.querySelector(".cp-moved").animate(
      [{ opacity: 0, transform: `translateY(${TOP.y - this.low.y}px)` }, { opacity: 1, transform: "none" }],
      { duration: 160, delay: 240, fill: "backwards", easing: "ease-out" });
  }

  at(/** @type {MouseEvent} */ event) {
    const [x, y] = placeIn(this.canvas, event);
    const within = (/** @type {Strip} */ strip) => y >= strip.y - 14 && y <= strip.y + strip.height + 16;
    const top = within(TOP) ? this.edges.findIndex((edge) => edge > x - this.x) - 1 : -1;
    const low = within(this.low) ? this.round.keep[Math.floor((x - this.x) / this.cell)] : undefined;
    const node = top >= 0 ? top : low;
    return node === undefined ? null : { node, x, y };
  }

  wordsOf(/** @type {Pointed & { node: number }} */ { node }) {
    const { round } = this;
    const place = round.keep.indexOf(node);
    const fate = place < 0 ? "dropped" : place === node ? "stays" : `moves to slot ${round.start + place}`;
    return [round.show(round.tokens[node]), `row ${node}, slot ${round.start + node}: ${fate}`];
  }

  marksOf(/** @type {number} */ node) {
    const place = this.round.keep.indexOf(node);
    /** @param {number} x @param {number} width @param {Strip} strip */
    const around = (x, width, strip) => box(x - 1, strip.y - 2, width + 2, strip.height + 4);
    const top = around(this.x + this.edges[node], Math.max(3, this.edges[node + 1] - this.edges[node]), TOP);
    return [path("cp-slot-mark", place < 0 ? top : top + around(this.x + place * this.cell, this.cell, this.low))];
  }
}

define({
  name: "cache",
  title: "KV cache",
  caption: "Accepted rows stay, after the prefix.",
  legend: [
    { glyph: "■", label: "kept", title: "A row of the accepted path; it stays" },
    { glyph: "□", label: "dropped", title: "A row of a rejected node; its slot is free again" },
    { glyph: "━", label: "moves", title: "A kept row that is moved to its place right after the prefix" },
    { glyph: "┄", label: "in place", title: "A kept row that already lies where it belongs" },
  ],
  create: (host, stage) => new CachePanel(host, stage),
});
