// The node budget, tuned by eye: τ and tokens per second against it, and the tree of the shown round at any of it.

import { button, group, html, inTurn, path, put, render, sparing, text, write } from "../shared/ink.js";
import { Panel, placeIn } from "./panel.js";
import { counted, rateText, usedOf } from "../shared/round.js";
import { define } from "../shared/define.js";

const MAX_NODES = 1024; // nodes at the right end
const EDGE = { left: 36, right: 12, top: 15, bottom: 18, between: 20 };
const TICKS = [0, 2, 8, 32, 128, 1024];
const LOOK_MS = 900; // between two looks at a run in progress
const PLOTS = [["tau", "τ, tokens per round", 1], ["speed", "tokens per second", 0]];

// Where a budget stands on the axis, from 0 to 1: plain decoding, then a step for each power of two.
export const shareOf = (budget) => (budget < 1 ? 0 : (1 + Math.log2(Math.min(budget, MAX_NODES))) / (1 + Math.log2(MAX_NODES)));

// The budget at a place of the axis.
export function budgetAt(share) {
  const power = Math.max(0, Math.min(1, share)) * (1 + Math.log2(MAX_NODES)) - 1;
  return power < -0.5 ? 0 : Math.round(2 ** Math.max(0, power));
}

// The value of a predicted curve at a budget, between its neighbours; beyond its ends the last.
export function readAt(budgets, values, budget) {
  const after = budgets.findIndex((one) => one >= budget);
  if (after <= 0) return values.at(after);
  const [low, high] = [shareOf(budgets[after - 1]), shareOf(budgets[after])];
  const share = (shareOf(budget) - low) / (high - low);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

// What the budget that is tried out changes in the round that is shown.
function seenWords({ tried, round, actual }) {
  if (tried === null || round === actual) return "";
  const [now, then] = [round.keep.length, actual.keep.length];
  return `This round keeps ${now} tokens ${now === then ? "either way" : `instead of ${then}`}. `;
}

function predictedWords(forecast, chosen) {
  const at = (name, digits) => {
    const [mean, low, high] = ["mean", "low", "high"].map((side) => readAt(forecast.budgets, forecast[name][side], chosen).toFixed(digits));
    return `${mean} (${low} to ${high})`;
  };
  const speed = forecast.speed ? `, ${at("speed", 0)} tokens/s` : "";
  return `At ${counted(chosen, "node")} τ ${at("tau", 1)}${speed}: predicted from ${forecast.rounds} rounds${forecast.withheld ? ", its speed is not" : ""}.`;
}

const measuredWords = ({ budget, tau, speed, printed }, withheld) =>
  `At ${counted(budget, "node")} τ ${tau.toFixed(2)}${speed ? `, ${printed} tokens/s` : ""}: measured in this run${withheld ? ", its speed-up is withheld" : ""}.`;

class BudgetPanel extends Panel {
  constructor(host, stage) {
    super(host, stage, "budget");
    this.forecast = null; // {run, budgets, tau, speed, plain, withheld}
    this.head = html("div", "cp-budget-said", host);
    this.back = button(this.head, "as it was run", "Show the tree as it was run", () => stage.tune(null));
    this.said = html("p", { role: "status" }, this.head);
    this.sheet({ role: "slider", tabindex: 0, "aria-label": "Node budget to try out", "aria-valuemin": 0, "aria-valuemax": MAX_NODES });
    this.look = inTurn(() => this.ask());
    const later = sparing(() => this.look(), LOOK_MS);
    stage.on("value compared state", later);
    stage.on("pins", () => this.draw(stage.round));
    stage.on("settings", () => {
      if (stage.tried !== null && stage.settings.budget !== stage.tried) stage.tune(stage.settings.budget);
      this.draw(stage.round);
    });
    this.hands();
  }

  hands() {
    const { stage } = this;
    const at = (event) => budgetAt((placeIn(this.canvas, event)[0] - EDGE.left) / (this.width - EDGE.left - EDGE.right));
    const drag = (event) => this.canvas.hasPointerCapture(event.pointerId) && this.tryOut(at(event));
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.canvas.addEventListener("pointermove", drag);
    this.canvas.addEventListener("pointerup", () => stage.tell("budget", this.chosen));
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 2, ArrowUp: 2, ArrowLeft: 0.5, ArrowDown: 0.5 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.tryOut(this.chosen ? Math.min(MAX_NODES, Math.floor(this.chosen * by)) : Number(by > 1));
      stage.tell("budget", this.chosen);
    });
  }

  get chosen() {
    const { tried, settings, header } = this.stage;
    return tried ?? settings.budget ?? (header ? header.budget : 0);
  }

  // Shows the round as it would have been at a budget.
  tryOut(budget) {
    if (!this.round) return;
    this.stage.tune(budget);
    this.draw(this.stage.round);
  }

  async ask() {
    const { stage } = this;
    const { run } = stage.value;
    if (!stage.server || !this.host.offsetParent || !stage.rounds.length || !stage.header.drafters.length) return;
    const of = [run, stage.rounds.length, stage.live, stage.against?.plain_speed, stage.withheld].join(" ");
    if (this.forecast?.of === of) return;
    const answer = await stage.server.budgets({ run, live: stage.live });
    if (run !== stage.value.run) return;
    this.forecast = { run, of, ...answer };
    this.draw(stage.round);
  }

  draw(round) {
    const { stage } = this;
    const { header } = stage;
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    const there = this.begin(round, "Here you see what other budgets would bring, while a run goes on.");
    this.head.hidden = !there;
    if (!there || !this.width) return;
    if (this.forecast?.run !== stage.value.run) this.forecast = null;
    if (!this.forecast) this.look();
    const pins = Object.entries(stage.pins).map(([pin, point]) => ({ ...point, pin }));
    const pinned = new Set([stage.value.run, ...pins.map(({ run }) => run)]);
    const points = [...stage.kept.filter(({ run }) => !pinned.has(run)), this.own(header), ...pins];
    this.back.hidden = stage.tried === null;
    write(this.said, this.words()); // first: the drawings begin below it
    this.setSize(this.width, this.height);
    put(this.canvas, { "aria-valuenow": this.chosen, "aria-valuetext": this.words() });
    const plots = PLOTS.map(([name, label, plain], place) =>
      this.plot({ name, label, plain: plain || this.plainSpeed(), place }, points));
    render(this.drawing, [...plots.map((marks) => group(marks)), group(this.marker())]);
  }

  own(header) {
    const { measured: { tau }, speed } = this.stage;
    const used = usedOf(header, this.stage.rounds);
    return { run: this.stage.value.run, budget: header.drafters.length ? used : 0, tau, speed: speed.value, printed: speed.text };
  }

  plainSpeed() {
    const { against } = this.stage;
    return against ? Number(against.plain_speed) : (this.forecast && this.forecast.plain) || 0;
  }

  x(budget) {
    return EDGE.left + shareOf(budget) * (this.width - EDGE.left - EDGE.right);
  }

  // One of the two drawings: what was predicted, plain decoding, and the points that were measured.
  plot({ name, label, plain, place }, points) {
    const tall = (this.height - this.top - EDGE.bottom - EDGE.between - EDGE.top) / 2;
    const low = this.top + EDGE.top + tall + place * (tall + EDGE.between);
    const curve = this.forecast && this.forecast[name];
    const most = Math.max(...points.map((point) => point[name] || 0), plain, ...(curve ? curve.mean : [0]));
    const y = (value) => low - (tall * Math.min(value / most, 1.1)) / 1.1;
    const across = (look, height) => path(look, `M${EDGE.left},${height}H${this.width - EDGE.right}`);
    const heading = curve || !plain ? label : `${label}, measured`;
    const marks = [across("cp-budget-axis", low), text("", heading, EDGE.left, low - tall - 5)];
    if (!most) return marks; // a loop elsewhere that has no clock yet
    marks.push(text("is-end", most >= 20 ? rateText(most) : most.toFixed(1), EDGE.left - 5, y(most) + 4));
    if (place) marks.push(...TICKS.map((tick) => this.tick(tick, low + 14)));
    if (plain) marks.push(across("cp-budget-plain", y(plain)));
    if (curve) marks.push(...this.curve(curve, y));
    return [...marks, ...points.filter((point) => point[name] > 0).flatMap((point) => this.point(point, y(point[name])))];
  }

  tick(budget, y) {
    return text(budget === MAX_NODES ? "is-end" : "is-mid", budget ? budget.toLocaleString("en") : "plain", this.x(budget), y);
  }

  curve(curve, y) {
    const along = (side) => this.forecast.budgets.map((budget, at) => `${this.x(budget)},${y(curve[side][at])}`);
    return [path("cp-budget-band", `M${along("low").join("L")}L${along("high").reverse().join("L")}Z`),
      path("cp-budget-curve", `M${along("mean").join("L")}`)];
  }

  point({ budget, tau, speed, printed, title, pin }, y) {
    const fast = speed ? `${printed} tokens/s` : "its speed-up is withheld";
    const words = `${title || "this run"}: ${counted(budget, "node")}, τ ${tau.toFixed(2)}, ${fast}, measured`;
    const look = title ? { class: "cp-budget-point", r: 3.5 } : { class: "cp-budget-point is-own", r: 4.5 };
    const dot = ["circle", { ...look, cx: this.x(budget), cy: y }, [["title", {}, words]]];
    return pin ? [dot, text("cp-budget-pin", pin, this.x(budget) + 6, y - 5)] : [dot];
  }

  get top() {
    return this.head.offsetHeight;
  }

  // The budget that Run would use.
  marker() {
    const [x, floor] = [this.x(this.chosen), this.height - EDGE.bottom];
    return [path("cp-budget-chosen", `M${x},${this.top}V${floor}`),
      ["circle", { class: "cp-budget-handle", cx: x, cy: floor, r: 5 }]];
  }

  words() {
    const { chosen, forecast, stage } = this;
    const { tried, tuneError } = stage;
    const error = tuneError || (forecast && forecast.error);
    put(this.said, { title: forecast && forecast.withheld ? forecast.withheld : null });
    if (error) return error;
    const own = this.own(stage.header);
    if (chosen === own.budget && tried === null) return measuredWords(own, stage.withheld);
    return `${seenWords(stage)}${forecast && forecast.tau && chosen >= 1 ? predictedWords(forecast, chosen) : ""}`;
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
