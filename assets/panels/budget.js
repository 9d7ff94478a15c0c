// The node budget, tuned by eye: τ and tokens per second against it, and the tree of the shown round at any of it.

import { button, group, html, oneAtATime, methodStyle, path, put, render, roundTicks, throttled, text, write } from "../shared/ink.js";
import { entryBudget } from "./facts.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { picture } from "../shared/picture.js";
import { counted, figuresOf, machineOf, rateText, speedText, usedOf } from "../shared/round.js";
import { define } from "../shared/define.js";
import { autoName, decodedPlainly } from "../stage/slowdown.js";
import { fastestOf, merged, ratioOf, ratiosOf, ratioText, requestOf, verdictOf } from "./fastest.js";

const MAX_AXIS_NODES = 1024; // at the right end of the axis
const MARGIN = { left: 38, right: 14, top: 14, bottom: 20, between: 17 };
const TICKS = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const MIN_TICK_DISTANCE = 27; // pixels
const LAST_TICK_WIDTH = 86; // pixels: the last number has a unit
const Z_80_PERCENT = 1.28; // standard deviations that hold 80 % of a normal distribution
const ROUNDS_SHARE = 0.24; // of a plot's width: the figures after each round; the rest is theirs against the budget
const ROUNDS_GAP = 20; // pixels between the two
const SETTLED_ROUNDS = 4; // before them the figures so far jump, and do not scale the plot
const REFRESH_MS = 900; // between two forecasts of a run in progress
// The two drawings, one above the other: a figure and its words.
const PLOTS = /** @type {const} */ ([{ name: "tau", label: "τ, tokens per round" }, { name: "speed", label: "tokens/s" }]);
/** @typedef {typeof PLOTS[number]} Plot */

// The position of a budget on the axis, from 0 to 1: plain decoding, then a step for each power of two.
export function axisPosition(/** @type {number} */ budget) {
  return budget < 1 ? 0 : (1 + Math.log2(Math.min(budget, MAX_AXIS_NODES))) / (1 + Math.log2(MAX_AXIS_NODES));
}

// The budget at a position on the axis.
export function budgetAtPosition(/** @type {number} */ share) {
  const power = Math.max(0, Math.min(1, share)) * (1 + Math.log2(MAX_AXIS_NODES)) - 1;
  return power < -0.5 ? 0 : Math.round(2 ** Math.max(0, power));
}

/** The value of a curve at a budget, interpolated; beyond its ends the value there.
 *  @param {number[]} budgets @param {number[]} values @param {number} budget */
export function interpolate(budgets, values, budget) {
  const after = budgets.findIndex((one) => one >= budget);
  if (after <= 0 || budgets[after] === budget) return values[after < 0 ? values.length - 1 : after];
  const [low, high] = [axisPosition(budgets[after - 1]), axisPosition(budgets[after])];
  const share = (axisPosition(budget) - low) / (high - low);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

/** The prediction through what the run measured at its own budget: accepted tokens are scaled, a round adds one at least; then
 *  speeds, also through those of `others`, and plain decoding's, which the page slows as much while it draws.
 *  @template {BudgetForecast} Forecast @param {Forecast} forecast
 *  @param {Pick<RunPoint, "budget" | "tau" | "speed" | "printed" | "ratio">} own @param {Ratio[]} [others] @returns {Forecast} */
export function throughOwnPoint(forecast, own, others = []) {
  const { budgets, tau, speed, plain } = forecast;
  if (!tau) return forecast;
  /** @param {Band} band @param {(value: number, part: keyof Band, at: number) => number} act @returns {Band} */
  const each = (band, act) => {
    const of = (/** @type {keyof Band} */ part) => band[part].map((value, at) => act(value, part, at));
    return { mean: of("mean"), low: of("low"), high: of("high") };
  };
  const accepted = interpolate(budgets, tau.mean, own.budget) - 1;
  const share = accepted > 0 ? (own.tau - 1) / accepted : 1;
  const through = { ...forecast, tau: each(tau, (value) => 1 + (value - 1) * share) };
  const byTau = speed && each(speed, (value, part, at) => (value * through.tau[part][at]) / tau[part][at]);
  const there = byTau ? interpolate(budgets, byTau.mean, own.budget) : NaN;
  if (!byTau || Number.isNaN(there)) return { ...through, speed: null }; // not known at the run's own budget
  const pace = (there && drawnSpeed(own) / there) || 1;
  const plainSpeed = own.ratio ? drawnSpeed(own) / own.ratio : plain * pace;
  const paces = others.filter(({ budget }) => budget && budget !== own.budget).map(({ budget, ratio }) => (
    { budget, pace: (ratio * plainSpeed) / interpolate(budgets, byTau.mean, budget) })).filter((one) => Number.isFinite(one.pace));
  const known = [...paces, { budget: own.budget, pace }].sort((one, other) => one.budget - other.budget);
  const paceAt = (/** @type {number} */ budget) => interpolate(known.map((one) => one.budget), known.map((one) => one.pace), budget);
  return { ...through, speed: each(byTau, (value, part, at) => value * paceAt(budgets[at])), plain: plainSpeed };
}

/** A run's speed as it is drawn, also if its speed-up is withheld. @param {Pick<RunPoint, "speed" | "printed">} point */
const drawnSpeed = ({ speed, printed }) => speed ?? Number(printed);

const valueOf = (/** @type {RunPoint} */ point, /** @type {Plot["name"]} */ name) => (name === "tau" ? point.tau : drawnSpeed(point));

/** A run's τ and speed after each of its rounds, by the clock of its printed speed, and the 80 % interval of τ (`low`, `high`).
 *  @param {Round[]} rounds @param {Stage} stage */
function historyOf(rounds, { playsBehind, speedup, comparison }) {
  const clock = speedup && !playsBehind ? comparison?.tracks.seconds?.[0] : undefined; // seconds at which each token appeared
  let [tokens, seconds] = [0, 0];
  /** @type {Record<Plot["name"], number[]>} */
  const running = { tau: [], speed: [] };
  for (const { keep, spent } of rounds) {
    tokens += keep.length;
    seconds = clock ? clock[tokens - 1] : seconds + spent;
    running.tau.push(tokens / (running.tau.length + 1));
    if (seconds) running.speed.push(tokens / seconds);
  }
  const tau = tokens / Math.max(1, rounds.length);
  const spread = rounds.reduce((sum, { keep }) => sum + (keep.length - tau) ** 2, 0);
  const halfWidth = rounds.length > 1 ? Z_80_PERCENT * Math.sqrt(spread / rounds.length / (rounds.length - 1)) : 0;
  return { ...running, low: Math.max(1, tau - halfWidth), high: tau + halfWidth };
}

/** A budget's figures in words: `short` for the panel, `more` for its tip.
 *  @param {BudgetForecast} forecast @param {number} chosen */
export function wordsAt(forecast, chosen) {
  const { measured } = forecast;
  if (measured && chosen > Math.max(...measured.budgets)) return { short: `${counted(chosen, "node")}: not measured for this prompt`, more: "" };
  const { budgets, tau, speed: known } = measured ?? forecast;
  const speed = forecast.withheld && !measured ? null : known;
  if (chosen < 1) return { short: `plain decoding: τ 1${forecast.plain ? `, ${rateText(forecast.plain)} tokens/s` : ""}`, more: "" };
  if (!tau) return { short: "", more: "" };
  if (!measured && chosen > Math.max(...budgets)) return { short: `${counted(chosen, "node")}: not predicted, a round drafted ${forecast.candidates} candidates`, more: forecast.withheld };
  const at = (/** @type {number[]} */ values) => interpolate(budgets, values, chosen);
  const how = !measured ? ", predicted" : budgets.includes(chosen) ? "" : ", about";
  const short = `${counted(chosen, "node")}${how}: τ ${at(tau.mean).toFixed(1)}${speed ? `, ${rateText(at(speed.mean))} tokens/s` : ""}`;
  const range = `τ ${at(tau.low).toFixed(1)} to ${at(tau.high).toFixed(1)}${speed ? `, ${rateText(at(speed.low))} to ${rateText(at(speed.high))} tokens/s` : ""}`;
  const from = measured ? "Measured for this prompt" : `Predicted from the drafts of ${counted(forecast.rounds, "round")}${speed ? " and what a pass costs" : ""}`;
  return { short, more: `${from}: ${range}. ${measured ? "" : forecast.withheld}` };
}

const pointWords = (/** @type {RunPoint} */ point) => [`${point.budget ? counted(point.budget, "node") : point.tau > 1 ? "budget not reported" : "plain decoding"}: τ ${point.tau.toFixed(2)}`, speedText(point)].filter(Boolean).join(", ");

/** @param {number} x @param {number} y @param {string} method @param {string} look @param {string} words @returns {Mark} */
function pointMark(x, y, method, look, words) {
  const { style, mark } = methodStyle(method);
  return ["path", { class: `cp-budget-point ${look}`, d: mark, style, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }, [["title", {}, words]]];
}

class BudgetPanel extends DrawnPanel {
  width = 0;
  height = 0;
  top = 0; // under the figures
  history = historyOf([], this.stage);
  plain = { tau: 1, speed: 0 }; // plain decoding's; 0: unknown
  fastest = /** @type {Ratio[]} */ ([]); // the fixed budgets that are level, which the line under the figures names
  answer = /** @type {(BudgetForecast & { run: string, from: string }) | null} */ (null);
  barBudget = this.stage.settings.budget;
  movedIn = ""; // the run beside which the bar's budget was changed: it is shown then instead of the run's own
  forecast = /** @type {BudgetForecast | null} */ (null); // the answer, through what the run measured
  waiting = "Here you see what other budgets would bring, while a run goes on.";

  constructor(/** @type {HTMLElement} */ host, /** @type {Stage} */ stage) {
    super(host, stage, "budget", "", { role: "slider", tabindex: 0, "aria-label": "Node budget to try out", "aria-valuemin": 0, "aria-valuemax": MAX_AXIS_NODES });
    this.figuresBox = html("div", "cp-budget-head");
    this.canvas.before(this.figuresBox);
    const lines = html("div", "", this.figuresBox);
    this.figuresLine = html("p", { role: "status" }, lines);
    this.fastestLine = html("p", "", lines);
    new ResizeObserver(() => { // its words may take another line
      this.top = this.figuresBox.offsetHeight;
      this.draw(stage.round);
    }).observe(this.figuresBox);
    this.resetButton = button(this.figuresBox, "↺", "Show the tree as it was run", () => { this.movedIn = ""; stage.tryBudget(null); });
    this.useButton = button(this.figuresBox, "Use", "Put this node budget into the bar", () => stage.emit("budget", fastestOf(this.fastest).budget));
    this.refreshForecast = oneAtATime(() => this.fetchForecast());
    stage.on("lines compared state", throttled(() => this.refreshForecast(), REFRESH_MS));
    stage.on("ticked compared scene", () => this.draw(stage.round));
    stage.on("run mode", () => { this.movedIn = ""; });
    stage.on("options", () => {
      const { settings: { budget }, value: { run } } = stage;
      if (this.barBudget !== undefined && budget !== this.barBudget) this.movedIn = run;
      this.barBudget = budget;
      if (stage.budgetPreview.budget !== null && stage.settings.budget !== stage.budgetPreview.budget) stage.tryBudget(stage.settings.budget ?? null);
      this.draw(stage.round);
    });
  }

  listen() {
    const drag = (/** @type {PointerEvent} */ event) => {
      if (!this.canvas.hasPointerCapture(event.pointerId)) return;
      const [x] = placeIn(this.canvas, event);
      this.tryOut(budgetAtPosition((x - this.x(0)) / (this.x(MAX_AXIS_NODES) - this.x(0))));
    };
    this.on("pointerdown", (event) => {
      if (placeIn(this.canvas, event)[0] < this.roundX(1)) return;
      this.canvas.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.on("pointermove", drag);
    this.on("pointerup", () => this.stage.emit("budget", this.chosen));
    this.on("keydown", (event) => {
      const by = ["ArrowRight", "ArrowUp"].includes(event.key) ? 2 : ["ArrowLeft", "ArrowDown"].includes(event.key) ? 0.5 : 0;
      if (!by) return;
      event.preventDefault();
      this.tryOut(this.chosen ? Math.min(MAX_AXIS_NODES, Math.floor(this.chosen * by)) : Number(by > 1));
      this.stage.emit("budget", this.chosen);
    });
  }

  get chosen() {
    const { budgetPreview, header, rounds, value: { run } } = this.stage;
    return budgetPreview.budget ?? (this.movedIn === run ? this.barBudget : null) ?? (header ? usedOf(header, rounds) : 0);
  }

  // Shows the round as it would have been at a budget.
  tryOut(/** @type {number} */ budget) {
    this.stage.tryBudget(budget);
    this.resize();
  }

  async fetchForecast() {
    const { stage, stage: { value: { run } } } = this;
    if (!stage.server || !this.hostSize || !stage.rounds.length || !stage.header?.drafters.length) return;
    const from = [run, stage.rounds.length, stage.live, Boolean(stage.comparing), stage.speedup?.plain_speed, stage.withheld].join(" ");
    if (this.answer?.from === from) return;
    const answer = await stage.server.budgets({ run, live: stage.live });
    if (run !== stage.value.run) return;
    this.answer = { run, from, ...answer };
    this.draw(stage.round);
  }

  drawRound() {
    const { stage, stage: { header } } = this;
    Object.assign(this, this.room);
    if (!header || !this.hostSize) return; // nobody sees it
    const covered = stage.playsBehind ? stage.rounds.slice(0, stage.current + 1) : stage.roundsBeforeRepetition;
    const own = this.currentPoint(header, covered);
    if (this.answer?.run !== stage.value.run) this.answer = null;
    if (!this.answer || !stage.live) this.refreshForecast(); // what it was made from may have changed while nobody saw it
    const { answer } = this;
    this.forecast = answer && throughOwnPoint(answer, own, merged(this.measuredRatios(own).filter(({ name }) => !name)));
    const others = stage.ownRuns.filter((point) => requestOf(point) === requestOf(own) && ![own, ...stage.overlays].some(({ run }) => run === point.run));
    this.plain.speed = Number(stage.speedup?.plain_speed ?? this.forecast?.plain ?? 0);
    const scaled = [...others, ...stage.overlays].map((point) => (point.ratio && stage.speedup ? { ...point, speed: point.ratio * this.plain.speed } : point));
    const points = [...scaled, own];
    this.resetButton.hidden = stage.budgetPreview.budget === null;
    const { short, more } = this.wordsFor(own);
    const words = `${short}. ${more}`;
    put(write(this.figuresLine, short), { title: words }); // first: the drawings begin below it
    this.history = historyOf(covered, stage);
    this.drawFastest(own);
    this.setSize(this.width, this.height);
    put(this.canvas, { "aria-valuenow": this.chosen, "aria-valuetext": words });
    const doubt = own.doubt || (this.forecast && !this.forecast.speed && !this.forecast.measured && "none predicted");
    const plots = PLOTS.map(({ name, label }, place) => this.plot({ name, label: place && doubt ? `${label}, ${doubt}` : label }, place, points));
    const handle = { class: "cp-budget-handle", cx: this.x(this.chosen), cy: this.height - MARGIN.bottom, r: 5 };
    render(this.drawing, [...plots.map((marks) => group(marks)), ["circle", handle]]);
  }

  // With its sentences.
  svg() {
    return this.empty.box.hidden ? picture(this.host, "--panel") : null;
  }

  // The smallest budget at which the selected node is in the tree.
  marksOf(/** @type {number} */ node) {
    const entry = entryBudget(this.round, node);
    if (entry === null || !this.hostSize) return [];
    const [x, low] = [this.x(entry), this.height - MARGIN.bottom];
    return [path("cp-budget-entry", `M${x},${this.top}V${low}`), text(`cp-budget-title ${x > this.width / 2 ? "is-end" : ""}`, `in from ${counted(entry, "node")} on`, x + (x > this.width / 2 ? -3 : 3), low - 4)];
  }

  /** The shown run as a point; while it is played, of the rounds that are `covered`. @param {Header} header @param {Round[]} covered @returns {RunPoint} */
  currentPoint(header, covered) {
    const { playsBehind, rounds, speed: whole, speedup, value: { run } } = this.stage;
    const { tau, tokensPerSecond } = figuresOf(covered);
    const speed = playsBehind ? { text: rateText(tokensPerSecond), value: tokensPerSecond } : whole;
    return { run, machine: machineOf(header), method: header.method, options: header.options, budget: usedOf(header, rounds), tau,
      speed: speed.value, printed: speed.text, doubt: whole.doubt, ratio: speedup?.ratio, range: speedup?.range };
  }

  // Why nothing can be said of the run's budget yet, or "": drawing slows it until it ends, and a recording may have a curve.
  get pending() {
    const { comparing, live, playsBehind, recorded, server, speedup, value: { followed } } = this.stage;
    if (recorded && server && !this.answer) return "…";
    if (comparing && (speedup?.outcome ?? "slower") === "slower") return comparing.endsWith("…") ? `Beside plain decoding: ${comparing}` : comparing;
    return (live || playsBehind) && !speedup && !recorded && !followed ? "Compared with plain decoding after the run" : "";
  }

  // Other settings that were timed after a slower run.
  get timed() {
    return (this.pending ? [] : this.stage.comparison?.others ?? []).filter((other) => !other.dtype && !decodedPlainly(other));
  }

  /** What was measured beside plain decoding for the shown prompt: own runs, and what was timed after a slower one. @param {RunPoint} own */
  measuredRatios(own) {
    const runs = this.stage.ownRuns.filter((one) => one.run !== own.run && requestOf(one) === requestOf(own));
    return [...runs, ...(this.pending ? [] : [own]), ...this.timed].flatMap((one) => ratioOf({ ...one, name: autoName("options" in one ? one.options ?? {} : one) }));
  }

  // Says what may be said of the fastest budget, with a button that takes it.
  drawFastest(/** @type {RunPoint} */ own) {
    const { chosen, pending, forecast, timed, stage: { settings, slowed, withheld } } = this;
    const unknown = pending || (slowed ? "No verdict: the machine was busy" : withheld) || (own.options?.budget === 0 ? "This is plain decoding, the baseline" : "Not compared with plain decoding");
    const predicted = [pending, withheld, forecast?.withheld, forecast?.measured, timed.some((other) => ratioOf(other).length)].some(Boolean) ? [] : ratiosOf(forecast);
    const curve = ratiosOf(forecast?.measured ?? null).filter(({ budget }) => !own.ratio || budget !== own.budget); // once for its own
    const { words, title, level } = verdictOf([...this.measuredRatios(own), ...curve], predicted, unknown);
    this.fastest = level.filter(({ name }) => !name);
    this.useButton.hidden = !this.fastest[0]?.budget || settings.pace === "auto" || fastestOf(level)?.name !== undefined || this.fastest.some(({ budget }) => [chosen, settings.budget].includes(budget));
    put(write(this.fastestLine, `${this.fastest.length ? "▲ " : ""}${words}`), { title: [title, forecast?.withheld].filter(Boolean).join(". ") });
  }

  x(/** @type {number} */ budget) {
    const left = this.roundX(1) + ROUNDS_GAP;
    return left + axisPosition(budget) * (this.width - MARGIN.right - left);
  }

  // The position of a share of the run's rounds, on the axis of rounds.
  roundX(/** @type {number} */ share) {
    return MARGIN.left + share * ROUNDS_SHARE * (this.width - MARGIN.left - MARGIN.right);
  }

  /** One of the two drawings: what was predicted, plain decoding, and what was measured.
   *  @param {{ name: Plot["name"], label: string }} plot @param {number} place @param {(RunPoint & { pin?: string })[]} points @returns {Mark[]} */
  plot({ name, label }, place, points) {
    const { forecast, plain: { [name]: plain } } = this;
    const tall = (this.height - this.top - MARGIN.bottom - MARGIN.between - MARGIN.top) / 2;
    const low = this.top + MARGIN.top + tall + place * (tall + MARGIN.between);
    const { [name]: curve, budgets = [], measured } = forecast ?? {};
    const predicted = curve && !measured ? [...budgets.keys()].filter((at) => curve.mean[at] > 0) : [];
    const flagged = place ? this.fastest.map(({ ratio }) => ratio * plain) : [];
    const maximum = 1.06 * Math.max(...points.map((point) => valueOf(point, name)), plain, ...this.history[name].slice(SETTLED_ROUNDS), ...flagged, ...predicted.map((at) => curve?.mean[at] ?? 0), ...(measured?.[name].high ?? []));
    const chosen = path("cp-budget-chosen", `M${this.x(this.chosen)},${low - tall}V${low}`); // under the points and the titles
    const marks = [...this.budgetAxis(low, place === 1), chosen];
    const title = text("cp-budget-title is-end", label, this.width - MARGIN.right, low - tall - 4);
    if (!maximum) return [...marks, title, text("is-mid", "not known yet", (MARGIN.left + this.width) / 2, low - tall / 2)];
    const y = (/** @type {number} */ value) => low - tall * Math.min(value / maximum, 1);
    const across = (/** @type {string} */ look, /** @type {number} */ height) => (
      path(look, `M${MARGIN.left},${height}H${this.roundX(1)}M${this.x(0)},${height}H${this.width - MARGIN.right}`));
    for (const tick of roundTicks(0, maximum, Math.max(1, Math.min(4, Math.floor(tall / 14))))) {
      marks.push(across(tick ? "cp-budget-grid" : "cp-budget-axis", y(tick)), text("is-end", String(tick), MARGIN.left - 5, y(tick) + 3.5));
    }
    if (plain) marks.push(across("cp-budget-plain", y(plain)));
    if (curve && predicted.length) {
      const along = (/** @type {number[]} */ values) => predicted.map((at) => `${this.x(budgets[at])},${y(values[at])}`);
      marks.push(path("cp-budget-band", `M${along(curve.low).join("L")}L${along(curve.high).reverse().join("L")}Z`),
        path(`cp-budget-curve ${place && forecast?.withheld ? "is-doubtful" : ""}`, `M${along(curve.mean).join("L")}`));
    }
    if (measured) {
      const { mean, low: from, high: to } = measured[name];
      const { style } = methodStyle(this.round.method);
      const at = measured.budgets.map((budget) => this.x(budget).toFixed(1));
      marks.push(path("cp-budget-swept", `M${mean.map((value, place) => `${at[place]},${y(value).toFixed(1)}`).join("L")}`, { style }),
        path("cp-budget-swept", from.map((value, place) => `M${at[place]},${y(value).toFixed(1)}V${y(to[place]).toFixed(1)}`).join(""), { style }));
    }
    marks.push(path("cp-budget-flag", flagged.map((speed, at) => `M${this.x(this.fastest[at].budget)},${y(speed) + 7}l-4,7h8Z`).join(""))); // from below
    const timed = this.timed.filter(({ pace }) => place && pace === "fixed").flatMap((other) => ratioOf({ ...other, name: other.method }));
    for (const { budget, ratio, name = "" } of timed) {
      marks.push(pointMark(this.x(budget), y(ratio * plain), name, "", `${counted(budget, "node")}: ${ratioText(ratio)}× plain, timed after this run`));
    }
    return [...marks, ...points.flatMap((point) => (valueOf(point, name) ? this.pointMarks(point, name, y) : [])), title];
  }

  /** @param {number} y @param {boolean} numbered @returns {Mark[]} */
  budgetAxis(y, numbered) {
    const marks = TICKS.map((tick) => path("cp-budget-axis", `M${this.x(tick)},${y}v3`));
    if (!numbered) return marks;
    const { length } = this.stage.rounds;
    if (length > 1) marks.push(text("is-end", `1–${length} rounds`, this.roundX(1), y + 14));
    let free = -Infinity;
    for (const tick of TICKS) {
      const x = this.x(tick);
      if (x - free < MIN_TICK_DISTANCE || x > this.width - MARGIN.right - LAST_TICK_WIDTH) continue;
      free = tick ? x : x + 8; // "plain" is wider than a number
      marks.push(text("is-mid", tick ? tick.toLocaleString("en") : "plain", x, y + 14));
    }
    return [...marks, text("is-end", `${MAX_AXIS_NODES.toLocaleString("en")} nodes`, this.width - MARGIN.right, y + 14)];
  }

  /** A measured run; of the one that is shown, also how its figure came about.
   *  @param {RunPoint & { pin?: string }} point @param {Plot["name"]} name @param {(value: number) => number} y @returns {Mark[]} */
  pointMarks(point, name, y) {
    const { run, method, budget, speed, title, pin } = point;
    const words = `${title || "this run"}: ${pointWords(point)}, measured${point.ratio && this.stage.speedup && run !== this.stage.value.run ? "; drawn by its ratio to plain decoding" : ""}`;
    const [x, down] = [this.x(budget), y(valueOf(point, name))];
    const { style } = methodStyle(method);
    const doubtful = name === "speed" && speed === null;
    const marks = [pointMark(x, down, method, doubtful ? "is-doubtful" : title ? "" : "is-own", words)];
    if (pin) marks.push(text("cp-budget-pin", pin, x + 6, down - 5));
    if (run !== this.stage.value.run) return marks;
    const { low, high, [name]: soFar } = this.history;
    const rounds = Math.max(1, this.stage.rounds.length - 1);
    const trail = soFar.map((value, place) => `${this.roundX(place / rounds).toFixed(1)},${y(value).toFixed(1)}`);
    if (name === "tau") marks.unshift(path("cp-budget-range", `M${x.toFixed(1)},${y(low).toFixed(1)}V${y(high).toFixed(1)}`, { style }));
    if (trail.length > 1) marks.unshift(path("cp-budget-trail", `M${trail.join("L")}`, { style }));
    return marks;
  }

  wordsFor(/** @type {RunPoint} */ own) {
    const { chosen, forecast, stage, stage: { budgetPreview } } = this;
    const error = budgetPreview.error || forecast?.error;
    if (error) return { short: error, more: "" };
    if (chosen === own.budget && budgetPreview.budget === null) return { short: pointWords(own), more: stage.playsBehind ? "Measured in this run so far." : `Measured in this run. ${stage.withheld}` };
    return forecast ? wordsAt(forecast, chosen) : { short: "", more: "" };
  }
}

define({
  name: "budget",
  title: "Budget",
  place: { row: "upper", share: 0.72 },
  caption: "Click or drag to try one.",
  legend: [
    { glyph: "∿", label: "so far", title: "On the left: the shown run's τ and tokens/s after each of its rounds" },
    { glyph: "●○", label: "runs", title: "Measured. Filled: the shown run, its τ with its 80 % interval. Hollow: your earlier runs, and settings that were timed after a slower one, speeds by their ratio to plain decoding, a mark and a colour for each method" },
    { glyph: "╌", label: "predicted", title: "What this run's drafts would have kept at each budget, with 80 % intervals; speed follows from what a pass costs here" },
    { glyph: "┿", label: "measured", title: "Measured at other budgets with the recording, with 95 % intervals" },
    { glyph: "─", label: "plain", title: "Plain decoding" },
  ],
  when: (stage) => stage.header !== null && stage.header.drafters.length > 0,
  create: (host, stage) => new BudgetPanel(host, stage),
});
