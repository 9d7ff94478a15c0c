// The node budget, tuned by eye: τ and tokens per second against it, and the tree of the shown round at any of it.

import { button, group, html, inTurn, path, put, render, sparing, text, write } from "../shared/ink.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { counted, rateText, usedOf } from "../shared/round.js";
import { define } from "../shared/define.js";

const MAX_NODES = 1024; // nodes at the right end
const EDGE = { left: 36, right: 12, top: 15, bottom: 18, between: 20 };
const TICKS = [0, 2, 8, 32, 128, 1024];
const LOOK_MS = 900; // between two looks at a run in progress
/** The two drawings, one above the other: a figure, its words, and its value for plain decoding (0: measured).
 *  @typedef {{ name: "tau" | "speed", label: string, plain: number }} Plot */
/** @type {Plot[]} */
const PLOTS = [{ name: "tau", label: "τ, tokens per round", plain: 1 }, { name: "speed", label: "tokens per second", plain: 0 }];

// Where a budget stands on the axis, from 0 to 1: plain decoding, then a step for each power of two.
export function shareOf(/** @type {number} */ budget) {
  return budget < 1 ? 0 : (1 + Math.log2(Math.min(budget, MAX_NODES))) / (1 + Math.log2(MAX_NODES));
}

// The budget at a place of the axis.
export function budgetAt(/** @type {number} */ share) {
  const power = Math.max(0, Math.min(1, share)) * (1 + Math.log2(MAX_NODES)) - 1;
  return power < -0.5 ? 0 : Math.round(2 ** Math.max(0, power));
}

/** The value of a predicted curve at a budget, between its neighbours; beyond its ends the last.
 *  @param {number[]} budgets @param {number[]} values @param {number} budget */
export function readAt(budgets, values, budget) {
  const after = budgets.findIndex((one) => one >= budget);
  if (after <= 0) return values[after < 0 ? values.length - 1 : 0];
  const [low, high] = [shareOf(budgets[after - 1]), shareOf(budgets[after])];
  const share = (shareOf(budget) - low) / (high - low);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

// What the budget that is tried out changes in the round that is shown.
function roundWords(/** @type {Stage} */ { tried, round, actual }) {
  if (tried === null || round === actual || !round || !actual) return "";
  const [now, then] = [round.keep.length, actual.keep.length];
  return `This round keeps ${now} tokens ${now === then ? "either way" : `instead of ${then}`}. `;
}

/** @param {BudgetForecast} forecast @param {number} chosen */
function predictedWords(forecast, chosen) {
  if (!forecast.tau || chosen < 1) return "";
  /** @param {Band} band @param {number} digits */
  const at = (band, digits) => {
    const [mean, low, high] = [band.mean, band.low, band.high].map((values) => readAt(forecast.budgets, values, chosen).toFixed(digits));
    return `${mean} (${low} to ${high})`;
  };
  const speed = forecast.speed ? `, ${at(forecast.speed, 0)} tokens/s` : "";
  return `At ${counted(chosen, "node")} τ ${at(forecast.tau, 1)}${speed}: predicted from ${forecast.rounds} rounds${forecast.withheld ? ", its speed is not" : ""}.`;
}

/** @param {RunPoint} point @param {string} withheld */
const measuredWords = ({ budget, tau, speed, printed }, withheld) =>
  `At ${counted(budget, "node")} τ ${tau.toFixed(2)}${speed ? `, ${printed} tokens/s` : ""}: measured in this run${withheld ? ", its speed-up is withheld" : ""}.`;

class BudgetPanel extends DrawnPanel {
  width = 0;
  height = 0;
  // Of a run, and what it was made from.
  forecast = /** @type {(BudgetForecast & { run: string, from: string }) | null} */ (null);

  /** @param {HTMLElement} host @param {Stage} stage */
  constructor(host, stage) {
    super(host, stage, "budget", { role: "slider", tabindex: 0, "aria-label": "Node budget to try out", "aria-valuemin": 0, "aria-valuemax": MAX_NODES });
    this.head = html("div", "cp-budget-head");
    this.canvas.before(this.head);
    this.back = button(this.head, "as it was run", "Show the tree as it was run", () => stage.tune(null));
    this.words = html("p", { role: "status" }, this.head);
    this.look = inTurn(() => this.ask());
    const later = sparing(() => this.look(), LOOK_MS);
    stage.on("value compared state", later);
    stage.on("pins", () => this.draw(stage.round));
    stage.on("settings", () => {
      if (stage.tried !== null && stage.settings.budget !== stage.tried) stage.tune(stage.settings.budget ?? null);
      this.draw(stage.round);
    });
    const drag = (/** @type {PointerEvent} */ event) => {
      if (!this.canvas.hasPointerCapture(event.pointerId)) return;
      const [x] = placeIn(this.canvas, event);
      this.tryOut(budgetAt((x - EDGE.left) / (this.width - EDGE.left - EDGE.right)));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.canvas.addEventListener("pointermove", drag);
    this.canvas.addEventListener("pointerup", () => stage.tell("budget", this.chosen));
    this.canvas.addEventListener("keydown", (event) => {
      const by = ["ArrowRight", "ArrowUp"].includes(event.key) ? 2 : ["ArrowLeft", "ArrowDown"].includes(event.key) ? 0.5 : 0;
      if (!by) return;
      event.preventDefault();
      this.tryOut(this.chosen ? Math.min(MAX_NODES, Math.floor(this.chosen * by)) : Number(by > 1));
      stage.tell("budget", this.chosen);
    });
  }

  get chosen() {
    const { tried, settings, header } = this.stage;
    return tried ?? settings.budget ?? header?.budget ?? 0;
  }

  // Shows the round as it would have been at a budget.
  tryOut(/** @type {number} */ budget) {
    if (!this.round.n) return;
    this.stage.tune(budget);
    this.draw(this.stage.round);
  }

  async ask() {
    const { stage } = this;
    const { run } = stage.value;
    if (!stage.server || !this.host.offsetParent || !stage.rounds.length || !stage.header?.drafters.length) return;
    const from = [run, stage.rounds.length, stage.live, stage.against?.plain_speed, stage.withheld].join(" ");
    if (this.forecast?.from === from) return;
    const answer = await stage.server.budgets({ run, live: stage.live });
    if (run !== stage.value.run) return;
    this.forecast = { run, from, ...answer };
    this.draw(stage.round);
  }

  draw(/** @type {Round | null} */ round) {
    const { stage } = this;
    const { header } = stage;
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    const known = this.begin(round, "Here you see what other budgets would bring, while a run goes on.");
    this.head.hidden = !known;
    if (!known || !header || !this.width) return;
    if (this.forecast?.run !== stage.value.run) this.forecast = null;
    if (!this.forecast) this.look();
    const pins = Object.entries(stage.pins).map(([pin, point]) => ({ ...point, pin }));
    const pinned = new Set([stage.value.run, ...pins.map(({ run }) => run)]);
    const own = this.own(header);
    const points = [...stage.kept.filter(({ run }) => !pinned.has(run)), own, ...pins];
    this.back.hidden = stage.tried === null;
    const words = this.wordsFor(own);
    put(this.words, { title: this.forecast?.withheld || null });
    write(this.words, words); // first: the drawings begin below it
    this.setSize(this.width, this.height);
    put(this.canvas, { "aria-valuenow": this.chosen, "aria-valuetext": words });
    const plots = PLOTS.map(({ name, label, plain }, place) => this.plot({ name, label, plain: plain || this.plainSpeed() }, place, points));
    render(this.drawing, [...plots.map((marks) => group(marks)), group(this.marker())]);
  }

  /** The run that is shown, as a point. @param {Header} header @returns {RunPoint} */
  own(header) {
    const { measured: { tau }, speed } = this.stage;
    const used = usedOf(header, this.stage.rounds);
    return { run: this.stage.value.run, budget: header.drafters.length ? used : 0, tau, speed: speed.value, printed: speed.text };
  }

  plainSpeed() {
    const { against } = this.stage;
    return against ? Number(against.plain_speed) : this.forecast?.plain ?? 0;
  }

  x(/** @type {number} */ budget) {
    return EDGE.left + shareOf(budget) * (this.width - EDGE.left - EDGE.right);
  }

  /** One of the two drawings: what was predicted, plain decoding, and the points that were measured.
   *  @param {Plot} plot @param {number} place @param {(RunPoint & { pin?: string })[]} points @returns {Mark[]} */
  plot({ name, label, plain }, place, points) {
    const tall = (this.height - this.top - EDGE.bottom - EDGE.between - EDGE.top) / 2;
    const low = this.top + EDGE.top + tall + place * (tall + EDGE.between);
    const curve = this.forecast?.[name];
    const budgets = this.forecast?.budgets ?? [];
    const most = Math.max(...points.map((point) => point[name] || 0), plain, ...(curve ? curve.mean : [0]));
    const y = (/** @type {number} */ value) => low - (tall * Math.min(value / most, 1.1)) / 1.1;
    /** @param {string} look @param {number} height */
    const across = (look, height) => path(look, `M${EDGE.left},${height}H${this.width - EDGE.right}`);
    const heading = curve || !plain ? label : `${label}, measured`;
    const marks = [across("cp-budget-axis", low), text("", heading, EDGE.left, low - tall - 5)];
    if (!most) return marks; // a loop elsewhere that has no clock yet
    marks.push(text("is-end", most >= 20 ? rateText(most) : most.toFixed(1), EDGE.left - 5, y(most) + 4));
    if (place) marks.push(...TICKS.map((tick) => this.tick(tick, low + 14)));
    if (plain) marks.push(across("cp-budget-plain", y(plain)));
    if (curve) {
      const along = (/** @type {number[]} */ values) => values.map((value, at) => `${this.x(budgets[at])},${y(value)}`);
      marks.push(path("cp-budget-band", `M${along(curve.low).join("L")}L${along(curve.high).reverse().join("L")}Z`),
        path("cp-budget-curve", `M${along(curve.mean).join("L")}`));
    }
    return [...marks, ...points.flatMap((point) => (point[name] ? this.dot(point, y(point[name])) : []))];
  }

  /** @param {number} budget @param {number} y */
  tick(budget, y) {
    return text(budget === MAX_NODES ? "is-end" : "is-mid", budget ? budget.toLocaleString("en") : "plain", this.x(budget), y);
  }

  /** @param {RunPoint & { pin?: string }} point @param {number} y @returns {Mark[]} */
  dot({ budget, tau, speed, printed, title, pin }, y) {
    const fast = speed ? `${printed} tokens/s` : "its speed-up is withheld";
    const words = `${title || "this run"}: ${counted(budget, "node")}, τ ${tau.toFixed(2)}, ${fast}, measured`;
    const look = title ? { class: "cp-budget-point", r: 3.5 } : { class: "cp-budget-point is-own", r: 4.5 };
    /** @type {Mark} */
    const dot = ["circle", { ...look, cx: this.x(budget), cy: y }, [["title", {}, words]]];
    return pin ? [dot, text("cp-budget-pin", pin, this.x(budget) + 6, y - 5)] : [dot];
  }

  get top() {
    return this.head.offsetHeight;
  }

  /** The budget that Run would use. @returns {Mark[]} */
  marker() {
    const [x, floor] = [this.x(this.chosen), this.height - EDGE.bottom];
    return [path("cp-budget-chosen", `M${x},${this.top}V${floor}`),
      ["circle", { class: "cp-budget-handle", cx: x, cy: floor, r: 5 }]];
  }

  wordsFor(/** @type {RunPoint} */ own) {
    const { chosen, forecast, stage } = this;
    const error = stage.tuneError || forecast?.error;
    if (error) return error;
    if (chosen === own.budget && stage.tried === null) return measuredWords(own, stage.withheld);
    return `${roundWords(stage)}${forecast ? predictedWords(forecast, chosen) : ""}`;
  }
}

define({
  name: "budget",
  title: "Budget",
  place: { row: "upper", share: 0.6 },
  caption: "Click or drag to try one.",
  legend: [
    { glyph: "●", label: "this run", title: "Measured: the run that is shown" }, { glyph: "○", label: "earlier", title: "Measured: your earlier runs" },
    { glyph: "╌", label: "predicted", title: "What the drafts of this run would have kept at every budget, with the range that holds eight times in ten. Speed follows from what a pass costs here" },
    { glyph: "─", label: "plain", title: "Plain decoding" },
  ],
  when: (stage) => Boolean(stage.server) && stage.mode === "workbench" && stage.header !== null && stage.header.drafters.length > 0,
  create: (host, stage) => new BudgetPanel(host, stage),
});
