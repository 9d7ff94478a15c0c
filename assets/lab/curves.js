// τ and tokens per second: by node budget, and by round of the run on the page.

import { showLine } from "./forms.js";
import { Plot, RUN } from "./plots.js";
import { html, methodColour, throttled, write } from "../shared/ink.js";
import { settingOf } from "../shared/round.js";

// The run that streams, as curves over its rounds: the figure comes from Python, its numbers from the stage.
const RECENT_ROUNDS = 8;
const BETWEEN_DRAWS_MS = 120;

/** @typedef {ReturnType<typeof curvesOf>} RoundCurves */

// The curves of a run's rounds: cumulative τ and tokens per second, and both over the latest rounds.
export function curvesOf(/** @type {Round[]} */ rounds) {
  const sums = [{ tokens: 0, timed: 0, seconds: 0 }]; // before each round; `timed` are the tokens of rounds whose time is known
  for (const { keep: { length }, seconds: parts, spent } of rounds) {
    const { tokens, timed, seconds } = sums[sums.length - 1];
    sums.push({ tokens: tokens + length, timed: timed + (Object.keys(parts).length ? length : 0), seconds: seconds + spent });
  }
  const over = (/** @type {number} */ width) => sums.slice(1).map((to, index) => {
    const count = Math.min(width, index + 1);
    const from = sums[index + 1 - count];
    const seconds = to.seconds - from.seconds;
    return { tau: (to.tokens - from.tokens) / count, speed: seconds > 0 ? (to.timed - from.timed) / seconds : null };
  });
  const [all, recent] = [over(Infinity), over(RECENT_ROUNDS)];
  return {
    x: rounds.map((_, index) => index + 1), "tau.all": all.map(({ tau }) => tau), "tau.recent": recent.map(({ tau }) => tau),
    "speed.all": all.map(({ speed }) => speed), "speed.recent": recent.map(({ speed }) => speed),
  };
}

/** @type {Record<string, string>} */
const STATE_WORDS = { running: "running", done: "done", stopped: "stopped", error: "ended by an error" };

export class Live {
  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.stage = lab.stage;
    this.plot = new Plot(lab, parent, "live", "This run", "{τ} and {tokens/s} by round, drawn while the text is written.");
    this.notice = html("p", { class: "lab-notice", role: "status" });
    this.headline = html("p", "lab-live-headline");
    this.plot.body.before(this.notice, this.headline);
    // A run reports every update; a plot is drawn a few times a second, and only while it is on the screen.
    this.stage.on("lines state run", throttled(() => lab.shown && this.draw(), BETWEEN_DRAWS_MS));
  }

  draw() {
    const { rounds, header, value, pending, refusal } = this.stage;
    const { runRig, unasked, setup } = this.lab;
    showLine(this.notice, pending ? pending.message : refusal || (value.state === "error" ? value.message : ""));
    this.notice.classList.toggle("lab-error", !pending);
    this.plot.box.classList.toggle("is-other-rig", Boolean(runRig));
    if (!header || !rounds.length || unasked) {
      write(this.headline, "");
      this.plot.say(runRig ? `No run of ${setup.rig} yet` : "No run yet", "The curves grow with the text of a run.", RUN);
      return;
    }
    const { recorded, figuresBeforeRepetition: { tau }, speed: { text }, slowed } = this.stage;
    const setting = header.pace === "auto" ? `${header.method}, auto up to ${header.budget} nodes` : settingOf(header);
    const speed = text && `${text} tokens/s${slowed ? " on a busy machine" : ""}`;
    const state = recorded ? "a recording" : STATE_WORDS[value.state];
    write(this.headline, [runRig, `${setting}: τ ${tau.toFixed(2)}`, speed, `${rounds.length} rounds`, state].filter(Boolean).join(", "));
    this.plot.draw(this.filledFigure(curvesOf(rounds), header));
  }

  /** @param {RoundCurves} curves @param {Header} header @returns {Figure} */
  filledFigure(curves, header) {
    const { stage, lab: { setup: { live } } } = this;
    const color = methodColour(header.method);
    const plain = stage.speedup ? Number(stage.speedup.plain_speed) : null;
    const data = live.data.map((/** @type {any} */ trace) => {
      if (trace.meta === "speed.plain") {
        const ends = plain ? [1, curves.x.length] : [];
        return { ...trace, x: ends, y: ends.map(() => plain), showlegend: Boolean(plain) };
      }
      return { ...trace, x: curves.x, y: curves[/** @type {keyof RoundCurves} */ (trace.meta)], line: { ...trace.line, color } };
    });
    const summary = `${settingOf(header)} after ${curves.x.length} rounds: τ ${curves["tau.all"].at(-1)?.toFixed(2)}.`;
    return { data, layout: { ...live.layout, uirevision: stage.value.run }, summary };
  }
}

// τ and tokens per second against the node budget: measured settings, predictions, the run in progress.
export class Curves {
  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.stage = lab.stage;
    this.plot = new Plot(lab, parent, "curves", "By node budget", "{τ} and {tokens/s}: medians with {95 %} intervals. Faint horizontal lines: {auto}.");
    this.doubt = html("p", { class: "lab-notice", hidden: true });
    this.plot.body.before(this.doubt);
    this.plot.onPoint = ({ customdata: [budget, method, , pace] = [] }) => { // its setting goes into the page's controls
      if (Number.isInteger(budget) && !lab.progress.other_rig) lab.apply({ method, budget, pace });
    };
    this.stage.on("lines options run", throttled(() => lab.shown && this.draw(), 250));
  }

  draw() {
    const { busy, results: { curves }, progress, setup, sweep } = this.lab;
    if (!curves) return;
    showLine(this.doubt, curves.predicted.withheld);
    if (!curves.count) {
      if (busy) this.plot.say("Measuring", "The first points come in a moment.");
      else this.plot.say(`Nothing measured with ${setup.rig} yet`, "Measure compares the form's methods and budgets.", sweep.measureAction);
      return;
    }
    const { figure } = curves;
    const position = progress.other_rig ? null : this.axisPosition(figure); // the shown run is not of that rig
    const rule = {
      type: "line", xref: "x2", yref: "paper", x0: position, x1: position, y0: 0, y1: 1, layer: "below",
      line: { color: "var(--quiet)", width: 1, dash: "dot" },
    };
    const data = figure.data.map((trace) => this.filledTrace(trace, position));
    this.plot.draw({ ...figure, data, layout: { ...figure.layout, shapes: position === null ? [] : [rule] } });
  }

  // The setting of the live run, else of the controls.
  get setting() {
    const { header, settings, live } = this.stage;
    return (live && header) || settings;
  }

  // The position of that setting on the axis of budgets; null if it has none.
  axisPosition(/** @type {import("../types.d.ts").CurvesFigure} */ { zero, auto }) {
    const { budget, pace } = this.setting;
    if (pace === "auto") return auto;
    if (typeof budget !== "number" || !Number.isInteger(budget)) return null;
    return budget >= 1 ? budget : zero;
  }

  /** The current run, on top of what was measured. @param {Record<string, unknown>} trace @param {number | null} position */
  filledTrace(trace, position) {
    const { rounds, header, recorded, figuresBeforeRepetition: { tau }, speed } = this.stage;
    if (!String(trace.meta).startsWith("running.") || !rounds.length || recorded || this.lab.runRig || position === null) return trace;
    const { budget, pace = "fixed" } = this.setting;
    const value = trace.meta === "running.tau" ? tau : speed.value;
    return header && header.budget === budget && header.pace === pace && value ? { ...trace, x: [position], y: [value] } : trace;
  }
}
