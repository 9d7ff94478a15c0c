// The figures of the run, each with its unit and, on hover, its definition.
(function (Canopy) {
  "use strict";

  const FIGURES = [
    { name: "tau", label: "tokens per round", note: "τ, root included",
      title: "τ: tokens that a round adds to the text, on average. The root counts, so a round that accepts no drafted token counts 1. Plain decoding has τ = 1.",
      text: (run) => run.tau.toFixed(2) },
    { name: "accepted", label: "draft tokens accepted", note: "per round",
      title: "Drafted tokens that the target accepted, per round: τ without the root.",
      text: (run) => run.accepted.toFixed(2) },
    { name: "speed", label: "tokens per second", note: "engine time",
      title: "Tokens over the sum of all rounds' stages. Reading the prompt, the network and this page are not in it.",
      text: (run) => (run.tokensPerSecond ? Math.round(run.tokensPerSecond).toLocaleString("en") : "–") },
    { name: "rounds", label: "rounds", note: "",
      title: "Rounds so far: each is one draft and one pass of the target.",
      text: (run) => String(run.rounds) },
    { name: "gain", label: "plain decoding", note: "measured",
      title: "Tokens per second over those of plain decoding (one token a pass), measured on the same prompt, machine and precision.",
      text: (run, baseline) => `${(run.tokensPerSecond / baseline.tokens_per_second).toFixed(1)}×` },
    { name: "round", label: "kept here", note: "",
      title: "What the target kept of the rows it verified in this round, and the engine time of the round.",
      text: (run, baseline, made) => String(made.keep.length) },
  ];

  class Metrics {
    constructor(stage, parent) {
      const { html } = Canopy.ink;
      this.stage = stage;
      this.box = html("dl", "cs-metrics", parent);
      this.items = new Map(FIGURES.map((figure) => [figure.name, this.item(figure)]));
      for (const event of ["value", "round", "mode", "begin"]) stage.on(event, () => this.draw());
      this.draw();
    }

    item(figure) {
      const { html } = Canopy.ink;
      const item = html("div", `cs-metric cs-metric-${figure.name}`, this.box);
      item.title = figure.title;
      item.tabIndex = 0;
      const number = html("dd", "cs-number", item, "–");
      const label = html("dt", "", item, figure.label);
      const note = html("small", "", label, figure.note);
      return { item, number, note };
    }

    // While a recording plays in the story, the figures grow with it; in the workbench they are the run's.
    draw() {
      const { stage } = this;
      const rounds = stage.mode === "story" ? stage.rounds.slice(0, stage.current + 1) : stage.rounds;
      const run = Canopy.figures(rounds);
      const plain = !stage.header || stage.header.heads.length === 0;
      for (const figure of FIGURES) {
        const { item, number, note } = this.items.get(figure.name);
        const missing = figure.name === "gain" && (!stage.baseline || plain || !run.tokensPerSecond);
        item.hidden = missing;
        if (missing) continue;
        Canopy.ink.write(number, rounds.length && stage.round ? figure.text(run, stage.baseline, stage.round) : "–");
        if (figure.name === "round" && stage.round) Canopy.ink.write(note, cost(stage.round));
      }
    }
  }

  function cost(made) {
    const spent = Object.values(made.seconds).reduce((sum, seconds) => sum + seconds, 0);
    return `of ${made.n} rows, ${(1000 * spent).toFixed(1)} ms`;
  }

  Canopy.Metrics = Metrics;
})(window.Canopy = window.Canopy || {});
