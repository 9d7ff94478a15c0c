// What rounds are like: their acceptance lengths, which proposals are accepted, and how well the drafter is calibrated.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const MOST_SHOWN = 8;

  class Shapes {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      this.stage = lab.stage;
      this.bar = html("div", "lab-toolbar", parent);
      this.source = Lab.select(this.bar, "Rounds of", "The measurement or run whose rounds are drawn", () => this.draw());
      this.budget = Lab.select(this.bar, "Node budget", "The budget at which methods are compared", () => this.draw());
      this.method = Lab.select(this.bar, "Method of the map", "The method whose proposals the plot in the middle shows", () => this.draw());
      this.grid = html("div", "lab-grid lab-three", parent);
      this.plots = {
        histogram: new Lab.Plot(lab.library, this.grid, {
          name: "histogram", title: "Acceptance lengths",
          caption: "The share of rounds that added so many tokens; the mean of each line is its {τ}.",
        }),
        map: new Lab.Plot(lab.library, this.grid, {
          name: "map", title: "Depth and rank",
          caption: "Of the proposals that verification reached, the percentage that was accepted, by {depth} and {rank}.",
        }),
        calibration: new Lab.Plot(lab.library, this.grid, {
          name: "calibration", title: "Calibration",
          caption: "Expected tokens per round, 1 + {Σq}, against the tokens that were added; below the diagonal the drafter is over-confident.",
        }),
      };
      this.stage.on("state", () => this.plan());
      lab.on("table", () => this.plan());
    }

    plan() {
      if (this.lab.tab !== "shapes" || !this.lab.shown || this.timer) return;
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.draw();
      }, 600);
    }

    choices() {
      const { table, progress } = this.lab;
      const whence = progress.other_rig || (progress.recorded ? "recorded measurement" : `measurement ${progress.sweep}`);
      const run = this.stage.header && this.stage.rounds.length && !this.lab.unasked ? [["run", this.lab.runRig ? `current run, of ${this.lab.runRig}` : "current run"]] : [];
      const sweep = table && table.rows.length ? [["sweep", whence]] : [];
      Lab.options(this.source, [...sweep, ...run]);
      const swept = this.source.value === "sweep";
      this.cells(swept ? table.rows.filter((row) => row.budget > 0) : [], (table && table.best) || { nodes: "", line: "" });
      this.budget.parentElement.hidden = this.method.parentElement.hidden = !swept;
    }

    // The budgets of a measurement's rows, and the lines of the chosen one.
    cells(rows, best) {
      const rank = (nodes) => (nodes === "auto" ? Infinity : Number(nodes));
      const budgets = [...new Set(rows.map((row) => row.nodes))].sort((one, other) => rank(one) - rank(other));
      Lab.options(this.budget, budgets.map((nodes) => [nodes, nodes]), this.budget.value || best.nodes);
      const lines = rows.filter((row) => row.nodes === this.budget.value).map((row) => row.line);
      Lab.options(this.method, lines.map((line) => [line, line]), this.method.value || best.line);
    }

    async draw() {
      this.choices();
      if (!this.source.value) {
        for (const plot of Object.values(this.plots)) plot.say("No rounds yet", "Press Run, or Measure.");
        return;
      }
      this.grid.classList.toggle("is-other-rig", Boolean(this.source.value === "run" ? this.lab.runRig : this.lab.progress.other_rig));
      const wanted = this.source.value === "run" ? { run: this.stage.value.run }
        : { sweep: this.lab.progress.sweep, nodes: this.budget.value, line: this.method.value, most: MOST_SHOWN };
      const answer = await this.lab.server.lab_shapes(wanted);
      for (const [name, plot] of Object.entries(this.plots)) {
        if (answer.error) plot.say("Nothing to draw", answer.error);
        else if (!answer[name] && answer.histogram) plot.say("Not recorded by this engine", "recorder.round(…, logprobs): what the drafter believed of each node.");
        else if (!answer[name]) plot.say("Nothing was drafted", "Plain decoding has one token a round and no drafter to judge.");
        else plot.draw(answer[name]);
      }
    }
  }

  Lab.Shapes = Shapes;
})(window.Canopy = window.Canopy || {});
