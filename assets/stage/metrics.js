// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ what a round costs = how many times as fast.
(function (Canopy) {
  "use strict";

  const FIGURES = [
    { name: "tau", label: "tokens per round", note: "τ, root included",
      title: "τ: tokens that a round adds to the text, on average. The root counts, so a round that accepts no drafted token counts 1. Plain decoding has τ = 1.",
      text: (run) => run.tau.toFixed(2) },
    { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
      title: "Engine time of a round over that of a pass of plain decoding: a pass over many rows takes longer than one over a single row, and the drafter takes time of its own. This is why 12 tokens a round are not 12 times as fast.",
      text: (run, against) => (against ? `${against.cost.toFixed(1)}×` : "–") },
    { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
      title: "Tokens per second over those of plain decoding (one token a pass), measured on the same prompt, machine and precision. One run of each: the lab measures over many prompts.",
      text: (run, against) => (against ? against.text : "–") },
    { name: "accepted", label: "drafts accepted", note: "per round",
      title: "Drafted tokens that the target accepted, per round: τ without the root.",
      text: (run) => run.accepted.toFixed(2) },
    { name: "speed", label: "tokens per second", note: "engine time",
      title: "Tokens over the sum of all rounds' stages. Reading the prompt, the network and this page are not in it. Of rounds that were shared with other runs the waiting for them is: this is the run's own rate on a shared machine, and it is not held against plain decoding, which is measured alone.",
      text: (run) => (run.tokensPerSecond ? Math.round(run.tokensPerSecond).toLocaleString("en") : "–") },
    { name: "rounds", label: "rounds", note: "",
      title: "Rounds so far: each is one draft and one pass of the target.",
      text: (run) => String(run.rounds) },
    { name: "round", label: "kept here", note: "",
      title: "What the target kept of the rows it verified in this round, and the engine time of the round.",
      text: (run, against, made) => String(made.keep.length) },
  ];

  class Metrics {
    constructor(stage, parent) {
      const { html } = Canopy.ink;
      this.stage = stage;
      this.box = html("dl", "cs-metrics", parent);
      this.items = new Map(FIGURES.map((figure) => [figure.name, this.item(figure)]));
      for (const event of ["value", "round", "mode", "begin", "compared"]) stage.on(event, () => this.draw());
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

    // The figures are the run's, as far as it has come, whichever round is shown and in every way to look.
    draw() {
      const { stage } = this;
      const { rounds, header } = stage;
      const run = Canopy.figures(rounds);
      const against = Canopy.against(run, header, stage.baseline);
      const plain = !header || header.heads.length === 0;
      for (const figure of FIGURES) this.drawFigure(figure, run, against, plain);
      const { classList } = this.items.get("gain").item;
      classList.toggle("is-slow", Boolean(against && against.slower));
      classList.toggle("is-fast", Boolean(against && !against.slower));
      this.items.get("speed").item.classList.toggle("is-shared", run.shared > 0);
    }

    drawFigure(figure, run, against, plain) {
      const { round, comparing } = this.stage;
      const { item, number, note } = this.items.get(figure.name);
      item.hidden = Boolean(figure.compared) && (plain || (figure.name === "cost" && !against));
      Canopy.ink.write(number, round ? figure.text(run, against, round) : "–");
      if (figure.name === "round" && round) Canopy.ink.write(note, cost(round));
      if (figure.name === "gain") Canopy.ink.write(note, against ? "measured" : comparing || uncompared(run));
      if (figure.name === "speed") Canopy.ink.write(note, timed(run));
    }
  }

  function uncompared(run) {
    return run.shared ? "not compared" : "not measured";
  }

  function timed(run) {
    return run.shared ? `shared ${run.shared} of ${run.rounds} rounds` : "engine time";
  }

  function cost(made) {
    const spent = Object.values(made.seconds).reduce((sum, seconds) => sum + seconds, 0);
    return `of ${made.n} rows, ${(1000 * spent).toFixed(1)} ms`;
  }

  Canopy.Metrics = Metrics;
})(window.Canopy = window.Canopy || {});
