// τ and tokens per second against the node budget: measured settings, predictions, the run in progress.

import { showLine } from "./forms.js";
import { Plot } from "./plots.js";
import { html, throttled } from "../shared/ink.js";

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
