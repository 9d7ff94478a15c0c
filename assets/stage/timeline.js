// A bar per round: as high as the tokens it kept, divided by where its time went. Click, drag, or the arrow keys; zoom by
// the wheel or + and −; a range that is dragged along the ruler is summed up.

import { box, button, group, html, methodColour, path, put, render, roundTicks, throttled, svg, text, write } from "../shared/ink.js";
import { Axis, totalsOf } from "./axis.js";
import { counted, missingWords } from "../shared/round.js";

const STAGES = ["draft", "build", "pack", "verify", "accept", "keep", "other", "loop", "wait"];
/** @type {Record<string, string>} */
const ICONS = {
  first: "M2 2h2.4v12H2zM14 2v12L5.4 8z", back: "M12.5 2v12L3.5 8z", play: "M3.5 1.5v13L14 8z",
  pause: "M3 2h3.6v12H3zM9.4 2H13v12H9.4z", next: "M3.5 2v12l9-6z", last: "M11.6 2H14v12h-2.4zM2 2v12l8.6-6z",
};
const RULER_HEIGHT = 15; // pixels above the bars
const TOP = RULER_HEIGHT + 4;
const BOTTOM = 4;
const TICK_SPACING = 90; // pixels between two numbers of the ruler
const LEFT = 36;
const ZOOM_STEP = 1.25; // a notch of the wheel, or a key
/** @type {Record<string, number>} */
const FACTORS = { "+": 1 / ZOOM_STEP, "=": 1 / ZOOM_STEP, "-": ZOOM_STEP, 0: Infinity };

export class Timeline {
  axis = new Axis();
  scheduleDraw = throttled(() => this.draw());
  selected = /** @type {[first: number, last: number] | null} */ (null);
  run = ""; // the run that the axis was laid out for
  drawnRound = -1; // the current round of the latest drawing
  drawnKey = ""; // identifies what the bars were drawn from
  size = { width: 0, height: 0 }; // of the chart

  /** @param {Stage} stage @param {Player} player @param {HTMLElement} parent */
  constructor(stage, player, parent) {
    this.stage = stage;
    this.player = player;
    this.box = html("section", { class: "cs-timeline", "aria-label": "Timeline" }, parent);
    const how = "Drag to move through the rounds. Drag along the ruler, or Shift and ← →: select a range. Wheel, or + and −: zoom; 0: all";
    this.chart = html("div", { class: "cs-chart", title: how }, this.box);
    this.canvas = svg("svg", { class: "cs-bars", tabindex: 0, role: "slider", "aria-label": "Round", "aria-description": how }, this.chart);
    this.window = svg("svg", { x: LEFT - 2, overflow: "hidden", role: "presentation" }, this.canvas); // a part of the axis at most
    this.background = svg("g", {}, this.window);
    this.bars = svg("g", {}, this.window);
    this.foreground = svg("g", {}, this.window);
    this.scale = svg("g", {}, this.canvas);
    this.tip = html("div", { class: "cs-bar-tip", hidden: true }, this.chart);
    const row = html("div", "cs-transport", this.box);
    /** @param {string} name @param {string} title @param {() => void} act @param {string} [look] */
    const icon = (name, title, act, look) => {
      const item = button(row, "", title, act, look);
      drawIcon(item, name);
      return item;
    };
    icon("first", "First round (Home)", () => player.go(0, {}));
    icon("back", "Previous round (←)", () => player.step(-1));
    this.toggle = icon("play", "Play (Space)", () => player.toggle(), "cs-play");
    icon("next", "Next round (→)", () => player.step(1));
    icon("last", "Last round (End)", () => player.go(stage.rounds.length - 1, {}));
    this.placeLabel = html("span", "cs-place", row);
    const pace = html("span", "cs-pace", row);
    button(pace, "−", "Slower ([)", () => player.changeSpeed(-1));
    this.speed = html("span", { class: "cs-speed", title: "Playback speed; 1× is one round a second. Measured times do not depend on it." }, pace);
    button(pace, "+", "Faster (])", () => player.changeSpeed(1));
    this.newest = button(row, "● newest", "Follow the newest round", () => {
      player.pause();
      stage.go(stage.rounds.length - 1, { follow: true, animate: true });
    }, "cs-newest");
    this.clock = button(row, "by time", "Draw rounds as wide as their engine time", () => {
      this.axis.byTime = !this.axis.byTime;
      this.axis.part = null;
      this.clock.ariaPressed = String(this.axis.byTime);
      this.scheduleDraw();
    }, "cs-by-time");
    this.search = html("span", "cs-search", row);
    this.totals = html("div", { class: "cs-totals", role: "status", "aria-label": "Figures of the selected rounds" }, this.box);
    const key = html("div", { class: "cs-stage-key", title: "The parts of each bar: the share of the round's engine time that each stage took." }, row);
    this.laterKey = html("span", "", key, "not shown yet");
    html("i", "cs-later", this.laterKey);
    for (const name of STAGES.slice(0, -2)) html("i", { style: `background: var(--stage-${name})` }, html("span", "", key, name));
    this.drawTransport();
    stage.on("lines round run ticked hits select play mode", this.scheduleDraw);
    stage.on("lines play state round", () => this.drawTransport());
    new ResizeObserver(([{ contentRect }]) => {
      this.size = contentRect;
      this.scheduleDraw();
    }).observe(this.chart);
    this.listen();
  }

  drawTransport() {
    const { player, stage } = this;
    drawIcon(this.toggle, player.playing ? "pause" : "play");
    this.toggle.title = player.playing ? "Pause (Space)" : "Play (Space)";
    this.toggle.setAttribute("aria-label", this.toggle.title);
    write(this.speed, `${player.speed}×`);
    write(this.placeLabel, placeText(stage));
    this.newest.hidden = !stage.live || stage.following;
  }

  listen() {
    const { canvas, player, stage } = this;
    const seek = (/** @type {PointerEvent} */ event) => {
      const index = this.roundAt(event);
      if (index !== null && index !== stage.current) player.go(index, { push: event.type === "pointerdown" });
    };
    let start = /** @type {number | null} */ (null); // of a selection
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      player.pause();
      const onRuler = event.clientY - canvas.getBoundingClientRect().top < RULER_HEIGHT;
      start = event.shiftKey || onRuler ? this.roundAt(event) : null;
      if (start === null) seek(event);
      this.select(start, start ?? 0);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) {
        if (start === null) seek(event);
        else this.select(start, this.roundAt(event) ?? start);
      }
      if (start === null) this.showTip(event);
      else this.tip.hidden = true;
    });
    canvas.addEventListener("pointerup", () => { start = null; });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (event) => {
      if (stage.mode !== "workbench" || !stage.rounds.length) return; // elsewhere the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? ZOOM_STEP : 1 / ZOOM_STEP, this.pixel(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(/** @type {KeyboardEvent} */ event) {
    const { stage, player } = this;
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    const factor = FACTORS[event.key];
    if (event.ctrlKey || event.metaKey || !stage.rounds.length || !(factor || (step && event.shiftKey))) return;
    event.preventDefault();
    if (factor) return this.zoom(factor, this.axis.x(this.axis.edges[stage.current]));
    const [first, last] = this.selected || [stage.current, stage.current];
    const fixedEnd = stage.current === last ? first : last; // the end that is not moved
    player.step(step);
    this.select(fixedEnd, stage.current);
  }

  zoom(/** @type {number} */ factor, /** @type {number} */ pixel) {
    this.axis.zoom(factor, pixel);
    this.scheduleDraw();
  }

  /** Selects the rounds between two, in any order; none if `start` is null. @param {number | null} start @param {number} end */
  select(start, end) {
    this.selected = start === null ? null : [Math.min(start, end), Math.max(start, end)];
    this.drawTotals();
    this.scheduleDraw();
  }

  // Returns whether rounds were selected.
  unselect() {
    const wasSelected = this.selected !== null;
    if (wasSelected) this.select(null, 0);
    return wasSelected;
  }

  // Writes the totals of the selected rounds.
  drawTotals() {
    const { selected, stage } = this;
    const totals = selected && totalsOf(stage.rounds, selected[0], selected[1]);
    const ms = (/** @type {number} */ seconds) => `${(1000 * seconds).toFixed(1)} ms`;
    const parts = Object.entries(totals?.seconds ?? {}).map(([name, seconds]) => `${name} ${ms(seconds)}`).join(", ");
    write(this.totals, totals ? `${counted(totals.rounds, "round")}: ${totals.tokens} tokens (τ ${(totals.tokens / totals.rounds).toFixed(2)}), `
      + `${ms(totals.spent)}${parts && `: ${parts}`}` : "");
  }

  pixel(/** @type {MouseEvent} */ event) {
    return event.clientX - this.canvas.getBoundingClientRect().left - LEFT;
  }

  roundAt(/** @type {MouseEvent} */ event) {
    return this.stage.rounds.length ? this.axis.at(this.pixel(event)) : null;
  }

  showTip(/** @type {PointerEvent} */ event) {
    const place = this.roundAt(event);
    this.tip.hidden = place === null;
    if (place === null) return;
    const round = this.stage.rounds[place];
    const spent = (1000 * round.spent).toFixed(1);
    const largest = Object.keys(round.seconds).sort((one, other) => round.seconds[other] - round.seconds[one])[0] ?? "nothing";
    this.tip.textContent = round.chunked
      ? `chunk ${round.index + 1}: ${round.keep.length} tokens, ${spent} ms after the one before`
      : `round ${round.index + 1}: ${counted(round.keep.length, "token")} kept of ${counted(round.n, "row")} verified, ${spent} ms, most of it ${largest}`;
    if (this.stage.repetition && place >= this.stage.repetition.round) this.tip.append("; the text repeats itself");
    const missing = this.stage.run.missing(place);
    if (missing) this.tip.append(`. Before it, ${missingWords(missing).toLowerCase()}`);
    const x = LEFT + this.axis.x((this.axis.edges[place] + this.axis.edges[place + 1]) / 2);
    this.tip.style.left = `${Math.max(4, Math.min(x - 40, this.chart.clientWidth - this.tip.offsetWidth - 4))}px`;
  }

  draw() {
    const { size: { width, height }, stage, selected } = this;
    if (!width || !height) return;
    this.updateAxis(width);
    const { current, overlays } = stage;
    const maxTokens = Math.max(4, ...stage.rounds.map((round) => round.keep.length), ...overlays.flatMap(({ lengths = [] }) => lengths));
    const high = height - TOP - BOTTOM;
    put(this.window, { width: width - LEFT + 2, height, viewBox: `${LEFT - 2} 0 ${width - LEFT + 2} ${height}` });
    render(this.scale, [...this.scaleMarks(maxTokens, high, width), ...this.ruler(width)]);
    this.drawBars(high / maxTokens, high);
    /** @param {number} first @param {number} last @param {number} y @param {number} tall */
    const span = (first, last, y, tall) => box(this.x(first), y, this.x(last) - this.x(first), tall);
    const { repetition, rounds } = stage;
    const hidesLater = current >= 0 && current < rounds.length - 1 && (this.player.playing || (stage.mode === "story" && !stage.atRepresentative));
    this.laterKey.hidden = !hidesLater;
    render(this.background, [
      path("cs-repeated", repetition ? span(repetition.round, rounds.length, 0, TOP + high + BOTTOM) : ""),
      path("cs-chosen", selected ? span(selected[0], selected[1] + 1, 0, TOP + high + BOTTOM) : "")]);
    const ticks = overlays.flatMap((run, place) => this.outline(run, place, high / maxTokens, TOP + high));
    const wide = Math.max(3, this.x(current + 1) - this.x(current));
    const found = stage.foundTokens.size ? Array.from(rounds.keys()).filter((index) => rounds[index].tokens.some((id) => stage.foundTokens.has(id))) : [];
    const middle = (/** @type {number} */ index) => (this.x(index) + this.x(index + 1)) / 2;
    render(this.foreground, [
      path("cs-veil", hidesLater ? span(current + 1, rounds.length, 0, height) : ""),
      path("cs-found", found.map((index) => `M${middle(index)},${TOP}l-4,-5h8z`).join("")), group(ticks),
      path("cs-here", stage.round ? box(this.x(current) - 1, TOP - 3, wide, high + 5) : ""),
      path("cs-pointed", this.pointedBox(high, high / maxTokens))]);
    put(this.canvas, {
      "aria-valuemin": 1, "aria-valuemax": Math.max(1, rounds.length), "aria-valuenow": Math.max(1, current + 1),
      "aria-valuetext": this.placeLabel.textContent });
  }

  /** The round of the token that is pointed at, or of a rejected node; in the shown round a kept node's position.
   *  @param {number} high @param {number} unit pixels of a token */
  pointedBox(high, unit) {
    const { selection: { node, round }, current, round: shown } = this.stage;
    const index = round ?? current;
    const wide = Math.max(3, this.x(index + 1) - this.x(index));
    if (node === null || !shown) return round === null ? "" : box(this.x(index), TOP, wide, high);
    if (round !== null || !shown.kept.has(node)) return box(this.x(index), TOP, wide, high);
    return box(this.x(index), TOP + Math.max(0, high - unit * (shown.depths[node] + 1)), wide, Math.max(3, unit));
  }

  // The pixel at which a round begins.
  x(/** @type {number} */ index) {
    return LEFT + this.axis.x(this.axis.edges[index]);
  }

  // Lays the axis out for the rounds so far; another run resets zoom and selection.
  updateAxis(/** @type {number} */ width) {
    const { axis, stage } = this;
    if (stage.value.run !== this.run) {
      this.run = stage.value.run;
      axis.part = null;
      this.selected = null;
      this.drawTotals();
    }
    if (stage.current !== this.drawnRound) axis.show(stage.current);
    this.drawnRound = stage.current;
    const lengths = stage.overlays.map(({ spent = [] }) => (axis.byTime ? spent.reduce((sum, seconds) => sum + seconds, 0) : spent.length));
    axis.layOut(stage.rounds, Math.max(1, width - LEFT - 4), Math.max(0, ...lengths));
  }

  /** What each round kept, divided by the shares of its stages; drawn anew only if it has changed.
   *  @param {number} unit pixels of a token @param {number} high of the most tokens */
  drawBars(unit, high) {
    const { axis, stage: { rounds, value: { run } } } = this;
    const drawn = [run, rounds.length, axis.byTime, axis.from, axis.to, axis.width, unit].join(" ");
    if (drawn === this.drawnKey) return;
    this.drawnKey = drawn;
    const parts = /** @type {Record<string, string>} */ ({}); // of the bars, by stage
    rounds.forEach(({ seconds, spent, keep }, index) => {
      const wide = this.x(index + 1) - this.x(index);
      let bottom = TOP + high;
      for (const name of STAGES) {
        const share = spent ? (seconds[name] ?? 0) / spent : Number(name === "loop");
        if (!share) continue;
        const tall = unit * keep.length * share;
        bottom -= tall;
        parts[name] = (parts[name] ?? "") + box(this.x(index), bottom, Math.max(1, wide - (wide > 4 ? 2 : 0.5)), tall);
      }
    });
    const bars = Object.entries(parts).map(([name, d]) => path("", d, { fill: `var(--stage-${name})` }));
    const gaps = Array.from(rounds.keys()).filter((index) => this.stage.run.missing(index)); // before them a round was not recorded
    render(this.bars, [group(bars),
      path("cs-gaps", gaps.map((index) => `M${this.x(index) - 1.5},${TOP - 4}V${TOP + high + 3}`).join(""))]);
  }

  /** A ticked run as a line over the bars in the colour of its method, and its letter.
   *  @param {RunPoint & { pin: string }} run @param {number} place @param {number} unit @param {number} floor */
  outline({ method, lengths = [], spent = [], pin }, place, unit, floor) {
    const { axis } = this;
    let end = 0; // of the rounds so far, on the axis
    let d = `M${LEFT + axis.x(0)},${floor - unit * (lengths[0] ?? 0)}`;
    lengths.forEach((tokens, index) => {
      d += `V${floor - unit * tokens}`;
      end += axis.byTime ? spent[index] : 1;
      d += `H${LEFT + axis.x(end)}`;
    });
    const colour = methodColour(method);
    const x = Math.min(LEFT + axis.x(end) + 3, this.size.width - 12);
    return [path("cs-outline", `${d}V${floor}`, { stroke: colour, "stroke-dasharray": place ? `${9 - 2 * place} 3` : "none" }),
      text("", pin, x, TOP + 12 + 12 * place, { fill: colour })];
  }

  /** Tokens upwards. @param {number} most @param {number} high @param {number} width */
  scaleMarks(most, high, width) {
    const y = (/** @type {number} */ tokens) => Math.round(TOP + high * (1 - tokens / most)) + 0.5;
    const tokens = [0, most].map((count) =>
      text("", String(count), LEFT - 8, Math.min(y(count), TOP + high - 3) + (count ? 8 : 4), { "text-anchor": "end" }));
    const unit = text("", "tokens", 0, 0, { "text-anchor": "middle", transform: `translate(8 ${TOP + high / 2}) rotate(-90)` });
    return [path("cs-scale", [0, most].map((count) => `M${LEFT - 4},${y(count)}H${width}`).join("")), unit, ...tokens];
  }

  // Rounds, or the engine's time, with their unit.
  ruler(/** @type {number} */ width) {
    const { axis, stage: { rounds } } = this;
    const { byTime, from, to } = axis;
    const numbers = byTime ? roundTicks(from, to, width / TICK_SPACING)
      : [...new Set([1, ...roundTicks(from + 1, Math.min(to, rounds.length), width / TICK_SPACING)])]
        .filter((number) => number > from && Number.isInteger(number));
    const unit = (/** @type {number} */ seconds) => (
      to - from < 1 ? `${Number((1000 * seconds).toPrecision(6))} ms` : `${Number(seconds.toPrecision(6))} s`);
    const places = (rounds.length ? numbers : []).map((number) => (
      { x: LEFT + axis.x(byTime ? number : number - 0.5), words: byTime ? unit(number) : String(number) }));
    const marks = places.filter(({ x }) => x < width - 16)
      .map(({ x, words }) => text("", words, Math.max(x, LEFT + 16), RULER_HEIGHT - 4, { "text-anchor": "middle" }));
    return [path("cs-ruler", box(0, 0, width, RULER_HEIGHT)), path("cs-scale", places.map(({ x }) => `M${x},${RULER_HEIGHT - 2}v4`).join("")),
      text("", byTime ? "time" : "round", 0, RULER_HEIGHT - 4), ...marks];
  }
}

// Which round is shown; of a recording with gaps also which of those that it has.
function placeText(/** @type {Stage} */ { round, current, rounds }) {
  if (!round) return "no round yet";
  const what = round.chunked ? "chunk" : "round";
  const complete = round.index === current && rounds[rounds.length - 1].index === rounds.length - 1;
  return complete ? `${what} ${current + 1} of ${rounds.length}` : `${what} ${round.index + 1}, ${current + 1} of ${rounds.length} recorded`;
}

/** Icons are drawn because not every system has them in its fonts. @param {HTMLElement} button @param {string} name */
function drawIcon(button, name) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  const picture = svg("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": "true" });
  svg("path", { d: ICONS[name], fill: "currentColor" }, picture);
  button.replaceChildren(picture);
}
