// A sentence under the figures, in every view, where plain decoding is faster: no tree is shown without it then. And
// where a run with the budget auto fell back to plain rounds, how often it drafted.
(function (Canopy) {
  "use strict";

  const NEARLY = 0.75; // of its rounds: with drafts in more than this share, auto counts as always drafting
  const MOSTLY = 0.25; // of its rounds: with drafts in at most this share, auto counts as decoding plainly

  // Whether the run was slower than plain decoding, and what auto would have done; "" where it was faster. The sentence of
  // a withheld speed-up belongs to the figures too.
  function slower({ against, comparison, mode }) {
    if (!against) return comparison && comparison.state !== "measuring" && mode !== "story" ? comparison.speed.withheld : "";
    if (against.standing === "faster") return "";
    const rates = `${against.plain_speed} against ${against.speed} tokens/s, ${against.times}.`;
    if (against.standing === "alike") return `No clear difference to plain decoding here: ${rates}`;
    return [`Plain decoding is faster here: ${rates}`, ...(comparison.others || []).filter(plainly).slice(0, 1)
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
      for (const event of ["value", "round", "begin", "compared", "mode"]) stage.on(event, () => this.draw());
      this.draw();
    }

    draw() {
      const { rounds, header, live } = this.stage;
      const words = [slower(this.stage), paced(header, rounds, live)];
      const said = words.filter(Boolean).join(" ");
      this.box.hidden = !said;
      Canopy.ink.write(this.box, said);
    }
  }

  Object.assign(Canopy, { Plainly, wouldBePlain: plainly });
})(window.Canopy = window.Canopy || {});
