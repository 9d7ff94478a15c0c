// The KV cache around a round: its slots after the verify pass, and after all rows but the kept ones were dropped.

import { box, clip, group, joinPaths, MONO, path, put, render, text, textWidth } from "../shared/ink.js";
import { slotWords } from "./facts.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { counted } from "../shared/round.js";
import { define } from "../shared/define.js";

const NARROW_KEPT = { minWidth: 9, maxShare: 0.6 }; // if slots are narrow: pixels of a kept one, and all kept ones' share of the room
const MAX_WIDTH = 40;

// Where each slot of the pass begins, and where the last ends. A thousand slots leave none wide enough to be seen, so
// the kept ones are drawn wider then, and the dropped ones share what is left.
export function edgesOf(/** @type {Round} */ round, /** @type {number} */ room) {
  const even = Math.min(MAX_WIDTH, room / round.n);
  const wide = Math.max(even, Math.min(NARROW_KEPT.minWidth, (NARROW_KEPT.maxShare * room) / round.keep.length));
  const dropped = round.n - round.keep.length;
  const narrow = dropped ? Math.min(even, (room - wide * round.keep.length) / dropped) : 0;
  const edges = new Float64Array(round.n + 1);
  for (let node = 0; node < round.n; node++) edges[node + 1] = edges[node] + (round.kept.has(node) ? wide : narrow);
  return { edges, uneven: wide > even };
}

/** How many rows stay in place, move, and are dropped; and the steps that recurrent layers replay.
 *  @param {Round} round @param {number} layers that are recurrent */
function rowWords({ n, keep }, layers) {
  const still = keep.filter((node, place) => node === place).length;
  const counts = [[still, "in place"], [keep.length - still, "moved"], [n - keep.length, "dropped"]];
  const rows = counts.filter(([count]) => count).map((part) => part.join(" ")).join(", ");
  return { rows, replayed: layers ? `; ${counted(keep.length, "step")} replayed in ${counted(layers, "recurrent layer")}` : "" };
}

const LEFT = 10;
const PREFIX = 58;
const FIRST = LEFT + PREFIX + 3; // where the pass's own slots begin
const TOP = { y: 31, height: 17 };
const LOW = { min: 74, max: 320, foot: 32, line: 11, bonus: 17 }; // the strip of what is kept; under it numbers and words
const CELL = { max: 84, narrow: 24, height: 23, tall: 40 }; // in a narrow cell the token is written upwards
const TOKEN_FONT = `10.5px ${MONO}`;
const SIZE_FONT = "11px system-ui, sans-serif";
const NUMBER_FONT = "700 10px system-ui, sans-serif";
const NUMBER_GAP = 4; // pixels between two row numbers

/** @typedef {{ y: number, height: number }} Strip */

/** The row numbers that do not run into the one before.
 *  @template {{ words: string, x: number }} RowNumber @param {RowNumber[]} numbers */
function withoutOverlaps(numbers) {
  let free = -Infinity;
  return numbers.filter(({ words, x }) => {
    const half = textWidth(words, NUMBER_FONT) / 2;
    if (x - half < free) return false;
    free = x + half + NUMBER_GAP;
    return true;
  });
}

class CachePanel extends DrawnPanel {
  low = /** @type {Strip} */ ({ y: 0, height: CELL.height });
  width = 0;
  edges = new Float64Array(1); // of the slots, in pixels from FIRST
  uneven = false;
  cell = 0;
  secondLine = 0; // pixels of the row numbers' second line, if they need one
  waiting = "Here you see which cache rows stay after a verify pass.";

  drawRound(/** @type {Round} */ round, /** @type {boolean} */ isNew) {
    const room = (this.width = this.room.width) - FIRST - LEFT;
    this.cell = Math.min(CELL.max, room / Math.max(1, round.keep.length));
    const numbers = this.keptNumbers();
    this.secondLine = withoutOverlaps(numbers).length < numbers.length ? LOW.line : 0;
    const foot = LOW.foot + this.secondLine;
    const tall = this.cell < CELL.narrow ? Math.max(CELL.height, Math.min(CELL.tall, this.room.height - LOW.min - foot)) : CELL.height;
    const height = Math.max(this.room.height, LOW.min + tall + foot);
    this.low = { y: Math.min(LOW.max, Math.max(LOW.min, height - tall - foot - LOW.bonus)), height: tall };
    Object.assign(this, edgesOf(round, room));
    this.setSize(this.width, height);
    render(this.drawing, [group(this.slots()), group(this.moves(), "cp-moved"), group(this.tokens()), group(this.numbers()),
      group(this.words(height))]);
    if (!isNew || !this.stage.animate || this.stage.reducedMotion) return;
    this.drawing.querySelector(".cp-moved").animate(
      [{ opacity: 0, transform: `translateY(${TOP.y - this.low.y}px)` }, { opacity: 1, transform: "none" }],
      { duration: 160, delay: 240, fill: "backwards", easing: "ease-out" });
  }

  slots() {
    const { round, edges, low } = this;
    const slot = (/** @type {number} */ node) => {
      const wide = edges[node + 1] - edges[node];
      const inset = wide >= 4 ? 0.5 : 0;
      return path(`cp-slot ${round.kept.has(node) ? "is-kept" : wide < 2 ? "is-dropped is-thin" : "is-dropped"} o-${round.origin(node)}`,
        box((FIRST + edges[node] + inset).toFixed(2), TOP.y, Math.max(wide - 2 * inset, 0.3).toFixed(2), TOP.height));
    };
    const [kept, dropped] = [true, false].map((is) => Array.from(round.tokens.keys()).filter((node) => round.kept.has(node) === is));
    const end = FIRST + round.keep.length * this.cell;
    const free = Math.min(this.width - LEFT, FIRST + edges[round.n]) - end;
    return [
      ...[TOP, low].map(({ y, height }) => path("cp-slot is-prefix", box(LEFT, y, PREFIX, height))),
      ...joinPaths([...dropped, ...kept].map(slot)),
      path("cp-slot is-free", free > 6 ? box(end + 2, low.y, free - 2, low.height) : "")];
  }

  // The middle of a row's slot after the pass, and of the slot that the kept row at a place moves to.
  slotMiddle(/** @type {number} */ node) {
    return FIRST + (this.edges[node] + this.edges[node + 1]) / 2;
  }

  keptMiddle(/** @type {number} */ place) {
    return FIRST + (place + 0.5) * this.cell;
  }

  // The kept rows on their way, and where they end.
  moves() {
    const { round, cell, low } = this;
    const bend = (TOP.y + TOP.height + low.y) / 2;
    const curve = (/** @type {number} */ node, /** @type {number} */ place) => {
      const [from, to] = [this.slotMiddle(node), this.keptMiddle(place)];
      return path(`cp-move o-${round.origin(node)} ${node === place ? "is-still" : ""}`,
        `M${from},${TOP.y + TOP.height + 1}C${from},${bend} ${to},${bend} ${to},${low.y - 2}`);
    };
    /** @param {number} node @param {number} place @returns {Mark} */
    const end = (node, place) => ["rect", { class: `cp-slot is-kept o-${round.origin(node)}`, x: (this.keptMiddle(place) - cell / 2 + 1).toFixed(1),
      y: low.y, width: Math.max(1, cell - 2).toFixed(1), height: low.height, rx: 3 }];
    return [group(round.keep.map(curve)), group(round.keep.map(end))];
  }

  tokens() {
    const { round, cell, low } = this;
    const narrow = cell < CELL.narrow;
    return round.keep.map((node, place) => {
      const x = this.keptMiddle(place) + (narrow ? 3.5 : 0);
      const y = low.y + low.height / 2 + (narrow ? 0 : 4);
      const words = cell < 9 ? "" : clip(round.show(round.tokens[node]), (narrow ? low.height : cell) - 4, TOKEN_FONT);
      return text("is-mid", words, x, y, { transform: narrow ? `rotate(-90 ${x.toFixed(1)} ${y.toFixed(1)})` : null });
    });
  }

  keptNumbers() {
    return this.round.keep.map((node, place) => ({ words: String(node), x: this.keptMiddle(place), moved: node !== place, line: place % 2 }));
  }

  // The kept rows' numbers over both strips' slots; below, on two lines if one is too short for them.
  numbers() {
    const { round: { keep }, low, secondLine } = this;
    const above = withoutOverlaps(keep.map((node) => ({ words: String(node), x: this.slotMiddle(node) })));
    const below = this.keptNumbers();
    const inLine = (/** @type {number} */ line) => withoutOverlaps(below.filter((one) => one.line === line));
    const shown = secondLine ? [...inLine(0), ...inLine(1)].sort((one, other) => one.x - other.x) : below;
    const y = low.y + low.height + 13;
    return [
      ...above.map(({ words, x }) => text("cp-slot-number is-mid", words, x, TOP.y - 5)),
      ...shown.map(({ words, x, moved, line }) => text(`cp-slot-number is-mid ${moved ? "is-moved" : ""}`, words, x, y + secondLine * line)),
      text("cp-slot-number is-end", "row kept", LEFT + PREFIX, y)];
  }

  words(/** @type {number} */ height) {
    const { round, low, stage } = this;
    const kept = round.keep.length;
    const after = round.start + round.n;
    const right = this.width - LEFT;
    const y = low.y + low.height + 28 + this.secondLine;
    const room = right - LEFT - textWidth("after verify", SIZE_FONT) - 12;
    const total = `${round.start} + ${round.n} = ${after} slots`;
    const size = [...(this.uneven ? [`${total}, the kept ones drawn wider`] : []), total].find((words) => textWidth(words, SIZE_FONT) < room) ?? String(after);
    const { rows, replayed } = rowWords(round, stage.header?.recurrent_layers || 0);
    const slots = `${round.start + kept} slots`;
    const sums = `${rows}: ${slots}`;
    const summary = [sums + replayed, sums, rows].find((words) => textWidth(words, SIZE_FONT) < right - LEFT) ?? slots;
    const bonus = clip(round.show(round.bonus), 90, SIZE_FONT);
    const last = stage.run.end?.reason === "stop" && round === stage.rounds.at(-1);
    const next = last ? "ends the text: no slot" : "has no slot yet: it is the next root";
    put(this.canvas, { "aria-label": `Cache of round ${round.index + 1}: ${round.start} slots before, ${after} after verify, `
      + `${round.start + kept} after keep; kept rows ${round.keep.join(", ")}; rows: ${rows}${replayed}` });
    return [
      text("cp-strip-name", "after verify", LEFT, TOP.y - 19),
      text("cp-strip-size is-end", size, right, TOP.y - 19),
      text("cp-strip-name", "after keep", LEFT, low.y - 8),
      ...[TOP, low].map((strip) => text("cp-slot-prefix is-mid", `prefix ${round.start}`, LEFT + PREFIX / 2, strip.y + strip.height / 2 + 3.5)),
      text("cp-strip-size", summary, LEFT, y),
      ...(y + LOW.bonus < height ? [text("cp-strip-size", `◆ ${bonus} ${next}`, LEFT, y + LOW.bonus)] : [])];
  }

  pointedAt(/** @type {MouseEvent} */ event) {
    const [x, y] = placeIn(this.canvas, event);
    const within = (/** @type {Strip} */ strip) => y >= strip.y - 14 && y <= strip.y + strip.height + 16;
    const top = within(TOP) ? this.edges.findIndex((edge) => edge > x - FIRST) - 1 : -1;
    const low = within(this.low) ? this.round.keep[Math.floor((x - FIRST) / this.cell)] : undefined;
    const node = top >= 0 ? top : low;
    return node === undefined ? null : { node };
  }

  tipLines(/** @type {Pointed & { node: number }} */ { node }) {
    return [this.round.show(this.round.tokens[node]), `row ${node}, ${slotWords(this.round, node)}`];
  }

  marksOf(/** @type {number} */ node) {
    const place = this.round.keep.indexOf(node);
    /** @param {number} x @param {number} width @param {Strip} strip */
    const around = (x, width, strip) => box(x - 1, strip.y - 2, width + 2, strip.height + 4);
    const top = around(FIRST + this.edges[node], Math.max(3, this.edges[node + 1] - this.edges[node]), TOP);
    return [path("cp-slot-mark", place < 0 ? top : top + around(FIRST + place * this.cell, this.cell, this.low))];
  }
}

define({
  name: "cache",
  title: "KV cache",
  caption: "Accepted rows stay.",
  legend: [
    { glyph: "■", label: "kept", title: "A row of the accepted path; it stays" },
    { glyph: "□", label: "dropped", title: "A row of a rejected node; its slot is free again" },
    { glyph: "━", label: "moves", title: "A kept row that is moved to its place right after the prefix" },
    { glyph: "┄", label: "in place", title: "A kept row that already lies where it belongs" },
  ],
  create: (host, stage) => new CachePanel(host, stage, "cache", "KV cache"),
});
