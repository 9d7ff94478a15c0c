// τ and tokens per second against the node budget: measured settings, single runs, predictions, the run in progress.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});

  class Curves {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      this.stage = lab.stage;
      this.plot = new Lab.Plot(lab.library, parent, {
        name: "curves", title: "By node budget",
        caption: "{τ} and {tokens/s}: medians with {95 %} intervals; the thin horizontal lines are {auto}.",
      });
      this.origin = html("p", "lab-recorded");
      this.doubt = html("p", "lab-notice");
      this.plot.body.before(this.origin, this.doubt);
      this.tools = html("div", "lab-tools");
      this.plot.tools.prepend(this.tools);
      this.clear = this.tool("Clear runs", "Remove the single runs of this browser from the plot; measurements stay", () => lab.points.clear());
      this.ask = this.tool("Predict all budgets", "Replays the current run's text with every budget: τ is exact, tokens/s are predicted from the cost of a pass", () => lab.predict());
      this.people = new Lab.People(lab, this.tools);
      this.line = Lab.select(this.tools, "Predicted", "The method whose prediction is drawn", () => lab.load());
      this.line.parentElement.hidden = this.doubt.hidden = true;
      this.plot.onPoint = (point) => this.chosen(point);
      for (const event of ["value", "settings", "begin"]) this.stage.on(event, () => this.plan());
      lab.on("shown", () => this.draw());
    }

    tool(label, title, act) {
      return Canopy.ink.button(this.tools, label, title, act);
    }

    predicting(busy) {
      this.ask.disabled = busy;
      this.ask.textContent = busy ? "Predicting …" : "Predict all budgets";
    }

    chosen({ customdata }) {
      if (!customdata) return;
      const [budget, method, , pace] = customdata;
      if (Number.isInteger(budget) && !this.lab.progress.other_rig) this.lab.apply({ method, budget, pace });
    }

    plan() {
      if (this.timer || !this.lab.shown || !this.lab.curves) return;
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.draw();
      }, 250);
    }

    draw() {
      const { curves, points } = this.lab;
      this.clear.hidden = !points.all.length;
      this.ask.hidden = !this.lab.can("what_if") || Boolean(this.lab.progress.other_rig); // it would have no place there
      if (!curves) return;
      this.choices(curves.predicted);
      const { withheld } = curves.predicted;
      this.doubt.hidden = !withheld;
      Canopy.ink.write(this.doubt, withheld);
      const { other_rig: otherRig } = this.lab.progress;
      this.origin.hidden = !this.whence;
      Canopy.ink.write(this.origin, this.whence);
      if (!curves.count) {
        this.plot.say(`Nothing measured with ${this.lab.given.rig} yet`, "Press Measure to measure every setting, or Run to add a point for one.");
        return;
      }
      const { figure } = curves;
      const place = otherRig ? null : this.place; // no run of the loaded rig on another rig's axis
      const shapes = place === null ? [] : [this.rule(place)];
      const data = figure.data.map((trace) => this.filled(trace, place));
      this.plot.draw({ ...figure, data, layout: { ...figure.layout, shapes } });
    }

    choices({ lines, line }) {
      this.line.parentElement.hidden = !lines.length;
      if (document.activeElement !== this.line) Lab.options(this.line, lines.map((name) => [name, name]), line);
    }

    // A measurement of elsewhere says so.
    get whence() {
      const { recorded, other_rig: otherRig } = this.lab.progress;
      if (otherRig) return `◉ Of another rig. ${recorded ? Lab.recordedOn(recorded) : `Measured with ${otherRig}.`}`;
      return recorded ? `◉ ${Lab.recordedOn(recorded)} Nothing was measured on this machine yet.` : "";
    }

    // The setting that runs, or that the controls name.
    get setting() {
      const { header, settings, live } = this.stage;
      return live ? header : settings;
    }

    // Where that setting stands on the axis; null where it has no place there.
    get place() {
      const { budget, pace } = this.setting;
      const { zero, auto } = this.lab.curves.figure;
      if (pace === "auto") return auto;
      if (!Number.isInteger(budget)) return null;
      return budget >= 1 ? Math.log2(budget) : zero;
    }

    rule(x) {
      return {
        type: "line", xref: "x2", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "below",
        line: { color: "var(--quiet)", width: 1, dash: "dot" },
      };
    }

    // The current run, on top of what was measured.
    filled(trace, place) {
      if (!String(trace.meta).startsWith("running.")) return trace;
      const { rounds, header, recorded } = this.stage;
      const run = Canopy.figures(rounds);
      const value = trace.meta === "running.tau" ? run.tau : run.tokensPerSecond;
      const { budget, pace = "fixed" } = this.setting;
      const same = header && header.budget === budget && header.pace === pace;
      return rounds.length && same && !recorded && !this.lab.runRig && place !== null && value ? { ...trace, x: [place], y: [value] } : trace;
    }
  }

  Lab.Curves = Curves;
})(window.Canopy = window.Canopy || {});
