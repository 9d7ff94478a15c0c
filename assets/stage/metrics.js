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

  // What is known of a run whose server does not say which tokens came in one round: the sums that it gives at the end,
  // `accepted` of `drafted` tokens and about how many passes. null for all other runs.
  Canopy.sums = function sums({ header, value }, run) {
    if (!header || !header.chunked) return null;
    const { drafted = 0, accepted = 0 } = value.end || {};
    const passes = run.tokens - accepted;
    return drafted > 0 && passes > 0 ? { drafted, accepted, passes } : { drafted: 0, accepted: 0, passes: 0 };
  };

  const UNREPORTED = "Not known: this server does not report which of its tokens came in one round.";

  // A figure of such a run, as {text, note, title}; undefined where it is the same for every run.
  function unreported(name, { drafted, accepted, passes }) {
    if (drafted && name === "accepted") return { text: `${accepted} of ${drafted}`, note: "drafted tokens", title: "Drafted tokens that the target accepted, of all that were drafted for this text, as the server counted them." };
    if (drafted && name === "rounds") return { text: `≈ ${passes}`, note: "", title: "About how many passes of the target wrote this text: its tokens, less the accepted drafted ones." };
    return ["tau", "accepted", "rounds", "round"].includes(name) ? { text: "–", note: "not reported", title: UNREPORTED } : undefined;
  }

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
      const { item, number, note } = this.items.get(figure.name);
      const sums = Canopy.sums(this.stage, run);
      const shown = (sums && unreported(figure.name, sums)) || this.known(figure, run, against);
      item.hidden = Boolean(figure.compared) && (plain || Boolean(sums) || (figure.name === "cost" && !against));
      item.title = shown.title;
      Canopy.ink.write(number, shown.text);
      Canopy.ink.write(note, shown.note);
    }

    known(figure, run, against) {
      const { round } = this.stage;
      const notes = { round: round && cost(round), gain: against ? against.range : this.uncompared(run), speed: this.stage.header && this.stage.header.method === "served" ? "as it arrived here" : timed(run) };
      return { title: figure.title, text: round ? figure.text(run, against, round) : "–", note: notes[figure.name] || figure.note };
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
