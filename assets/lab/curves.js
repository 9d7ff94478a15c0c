// τ and tokens per second against the node budget: what was swept, single runs, what is predicted, what runs now.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});

  class Curves {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      this.stage = lab.stage;
      this.plot = new Lab.Plot(lab.library, parent, {
        name: "curves", title: "Against the node budget",
        caption: "{τ} and {tokens/s} of every setting measured here: medians with their {95 %} intervals.",
      });
      this.tools = html("div", "lab-tools");
      this.plot.tools.prepend(this.tools);
      this.clear = this.tool("Clear runs", "Forget the single runs of this browser; measured tables stay", () => lab.points.clear());
      this.ask = this.tool("Predict all budgets", "From the run on the stage: τ of every budget exactly, tokens/s predicted", () => lab.predict());
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
      const [budget, method] = customdata;
      if (Number.isInteger(budget)) this.lab.apply({ method, budget });
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
      this.ask.hidden = !this.lab.can("what_if");
      if (!curves) return;
      if (!curves.count) {
        this.plot.say("No setting measured yet", "Press Measure for a table of all of them, or Run for a point of one.");
        return;
      }
      const { figure } = curves;
      const budget = this.budget;
      const shapes = Number.isInteger(budget) ? [this.rule(this.place(budget))] : [];
      const data = figure.data.map((trace) => this.filled(trace, budget));
      this.plot.draw({ ...figure, data, layout: { ...figure.layout, shapes } });
    }

    // The budget that runs, or that the controls name.
    get budget() {
      const { header, settings, busy } = this.stage;
      return busy && header ? header.budget : settings.budget;
    }

    place(budget) {
      return budget >= 1 ? Math.log2(budget) : this.lab.curves.figure.zero;
    }

    rule(x) {
      return {
        type: "line", xref: "x2", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "below",
        line: { color: "var(--quiet)", width: 1, dash: "dot" },
      };
    }

    // The run on the stage, on top of what was measured.
    filled(trace, budget) {
      if (!String(trace.meta).startsWith("running.")) return trace;
      const { rounds, header, recorded } = this.stage;
      const run = Canopy.figures(rounds);
      const value = trace.meta === "running.tau" ? run.tau : run.tokensPerSecond;
      const here = rounds.length && header && !recorded && header.budget === budget && value;
      return here ? { ...trace, x: [this.place(budget)], y: [value] } : trace;
    }
  }

  Lab.Curves = Curves;
})(window.Canopy = window.Canopy || {});
