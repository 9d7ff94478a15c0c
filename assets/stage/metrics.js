// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ the cost of a round = the speed-up.
(function (Canopy) {
  "use strict";

  const FIGURES = [
    { name: "tau", label: "tokens per round", note: "τ, root included",
      title: "τ: tokens that a round adds to the text, on average. The root counts, so a round that accepts no drafted token counts 1. Plain decoding has τ = 1.",
      text: (run, against) => (against ? against.tau : run.tau.toFixed(2)) },
    { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
      title: "How long a round takes, in passes of plain decoding, which is tokens per round divided by the speed-up: a pass over many rows takes longer than one over a single row, and drafting takes time too. This is why 12 tokens a round are not 12 times as fast.",
      text: (run, against) => (against ? `${against.cost}×` : "–") },
    { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
      title: "Tokens per second divided by those of plain decoding (one token a pass), measured after the run: both in turns on the same prompt, machine and precision, with the range that its turns give. One prompt; the lab measures over many.",
      text: (run, against) => (against ? against.times : "–") },
    { name: "accepted", label: "accepted", note: "per round",
      title: "Drafted tokens that the target accepted, per round: τ without the root.",
      text: (run) => run.accepted.toFixed(2) },
    { name: "speed", label: "tokens per second", note: "engine time",
      title: "Tokens divided by engine time: the sum of all rounds, without reading the prompt, the network or this page. Rounds shared with other runs include the waiting for them, so the speed of such a run is its own share of a busy machine and is not compared with plain decoding, which is measured alone.",
      text: (run) => (run.tokensPerSecond ? Math.round(run.tokensPerSecond).toLocaleString("en") : "–") },
    { name: "rounds", label: "rounds", note: "",
      title: "Rounds so far: each is one draft and one pass of the target.",
      text: (run) => String(run.rounds) },
    { name: "round", label: "kept this round", note: "",
      title: "Tokens that this round kept, the rows that the target verified for them, and the engine time of the round.",
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

    // The figures are those of the run so far, whichever round is shown and in every mode.
    draw() {
      const { stage } = this;
      const { rounds, header } = stage;
      const run = Canopy.figures(rounds);
      const { against } = stage;
      const plain = !header || header.heads.length === 0;
      for (const figure of FIGURES) this.drawFigure(figure, run, against, plain);
      const { classList } = this.items.get("gain").item;
      classList.toggle("is-slow", Boolean(against && against.standing === "slower"));
      classList.toggle("is-fast", Boolean(against && against.standing === "faster"));
      this.items.get("speed").item.classList.toggle("is-shared", run.shared > 0);
    }

    // In a word or two; the story has the sentence.
    uncompared(run) {
      const { comparison, comparing } = this.stage;
      if (comparison && comparison.state !== "measuring") return "withheld";
      if (comparing.endsWith("…")) return comparing;
      return run.shared ? "not compared" : "not measured";
    }

    drawFigure(figure, run, against, plain) {
      const { round } = this.stage;
      const { item, number, note } = this.items.get(figure.name);
      item.hidden = Boolean(figure.compared) && (plain || (figure.name === "cost" && !against));
      Canopy.ink.write(number, round ? figure.text(run, against, round) : "–");
      if (figure.name === "round" && round) Canopy.ink.write(note, cost(round));
      if (figure.name === "gain") Canopy.ink.write(note, against ? against.range : this.uncompared(run));
      if (figure.name === "speed") Canopy.ink.write(note, timed(run));
    }
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
