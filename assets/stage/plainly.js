// A sentence under the figures, in every view, where plain decoding is faster: no tree is shown without it then. And
// where a run with the budget auto fell back to plain rounds, how often it drafted.
(function (Canopy) {
  "use strict";

  const ALIKE = 0.97; // of plain decoding's speed: from here on the two count as equally fast
  const NEARLY = 0.75; // of its rounds: with drafts in more than this share, auto counts as always drafting
  const MOSTLY = 0.25; // of its rounds: with drafts in at most this share, auto counts as decoding plainly

  const rate = (speed) => (speed < 20 ? speed.toFixed(1) : String(Math.round(speed)));

  // Whether the run was slower than plain decoding, and what auto would have done; "" where it was faster.
  function slower(run, against, baseline) {
    if (!against || !against.slower) return "";
    const rates = `${rate(baseline.tokens_per_second)} against ${rate(run.tokensPerSecond)} tokens/s.`;
    if (against.gain >= ALIKE) return `Plain decoding is as fast here: ${rates}`;
    return [`Plain decoding is faster here: ${rates}`, ...(baseline.others || []).filter(plainly).slice(0, 1)
      .map(() => "The budget auto would have decoded plainly.")].join(" ");
  }

  function plainly({ pace, rounds, drafted }) {
    return pace === "auto" && rounds > 0 && drafted <= MOSTLY * rounds;
  }

  // How often a run with the budget auto drafted; "" where it nearly always did.
  function paced(header, rounds, busy) {
    if (!header || header.pace !== "auto" || !header.heads.length || !rounds.length) return "";
    const drafted = rounds.filter((made) => made.n > 1).length;
    if (drafted > NEARLY * rounds.length) return "";
    if (!drafted) return `auto ${busy ? "has decoded plainly so far" : "decoded plainly"}: a draft would have cost more than it brought.`;
    return `auto ${busy ? "has " : ""}drafted in ${drafted} of ${rounds.length} rounds${busy ? " so far" : ""}; in the others a draft would have cost more than it brought.`;
  }

  class Plainly {
    constructor(stage, parent) {
      this.stage = stage;
      this.box = Canopy.ink.html("p", "cs-plainly", parent);
      for (const event of ["value", "round", "begin", "compared"]) stage.on(event, () => this.draw());
      this.draw();
    }

    draw() {
      const { rounds, header, baseline } = this.stage;
      const busy = this.stage.busy && !this.stage.coming; // the run that is shown goes on
      const run = Canopy.figures(rounds);
      const words = [slower(run, Canopy.against(run, header, baseline), baseline), paced(header, rounds, busy)];
      const said = words.filter(Boolean).join(" ");
      this.box.hidden = !said;
      Canopy.ink.write(this.box, said);
    }
  }

  Object.assign(Canopy, { Plainly, wouldBePlain: plainly });
})(window.Canopy = window.Canopy || {});
