// The story's sentence: what one pass of the big model just did, for people who have never heard of drafting; at the end
// the outcome, and a race against plain decoding. What is said beside plain decoding comes from the server's comparison.
(function (Canopy) {
  "use strict";

  const VERDICTS = {
    faster: ({ times }) => [[", "], [times, "cs-total is-fast"], [" as fast as one at a time."]],
    slower: ({ times }) => [[", yet slower than one at a time: "], [times, "cs-total is-slow"], ["."]],
    alike: ({ times }) => [[", not clearly faster or slower than one at a time: "], [times, "cs-total"], ["."]],
  };

  class Story {
    constructor(stage, parent, duel) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("div", "cs-story", parent);
      this.headline = html("p", "cs-headline", this.box);
      this.more = html("p", "cs-more", this.box);
      this.words = html("span", "", this.more);
      this.race = button(this.more, "▶ Watch both", "What each wrote, typed on one clock: one token a pass, and with the draft tree", () => duel.open());
      this.race.classList.add("cs-watch");
      this.race.removeAttribute("aria-label"); // what it says is its name
      for (const event of ["round", "value", "begin", "mode", "state", "compared"]) stage.on(event, () => this.draw());
      this.draw();
    }

    draw() {
      const { stage } = this;
      const made = stage.round;
      const over = Boolean(made) && !stage.busy && stage.rounds.length > 1 && made.index + 1 === stage.rounds.length;
      this.race.hidden = !over || !stage.against;
      if (stage.coming) {
        const { headline, more } = Canopy.waiting(stage);
        this.say([[headline]], more);
      } else if (!made) {
        this.say([["Ask something, and watch a small model guess ahead of a big one."]],
          "Pick a preset and press Run: each pass of the big model keeps every guess that it would have written itself.");
      } else if (made.chunked) this.chunk(made, over);
      else if (over) this.sum();
      else {
        const kept = made.keep.length;
        this.say([["One pass of the big model just wrote "], [String(kept), "cs-count"], [kept === 1 ? " token." : " tokens."]],
          this.explain(made, kept));
      }
    }

    explain(made, kept) {
      const drafted = made.n - 1;
      if (!drafted) return "Nothing was guessed ahead: this is plain decoding, one token a pass.";
      const guesses = drafted === 1 ? "one token" : `${drafted} tokens`;
      const verdict = kept > 1
        ? `${kept - 1} ${kept === 2 ? "is" : "are"} exactly what it would have written`
        : "none is what it would have written";
      const who = made.drafterNames.length > 1 ? "Two drafters, small models, guessed" : "A drafter, a small model, guessed";
      return `${who} ${guesses} ahead as a tree; the big model checked them all at once: ${verdict}.`;
    }

    // Of a server that does not report its rounds.
    chunk(made, over) {
      const run = Canopy.figures(this.stage.rounds);
      const { passes } = Canopy.sums(this.stage, run);
      const count = over ? run.tokens : made.keep.length;
      const tokens = [[String(count), over ? "cs-total" : "cs-count"], [count === 1 ? " token" : " tokens"]];
      const words = over
        ? [...tokens, ...(passes ? [[" in about "], [String(passes), "cs-total"], [" passes."]] : [["."]])]
        : [["The server just sent "], ...tokens, ["."]];
      this.say(words, "Which tokens were guessed ahead in one pass is not known: this server does not report its rounds.");
    }

    // The outcome of the whole text, and why n tokens a pass are less than n times as fast.
    sum() {
      const { stage } = this;
      const run = Canopy.figures(stage.rounds);
      const { against, comparison } = stage;
      const cut = Canopy.cut(stage);
      const total = [[cut ? cut.lead : ""], [String(run.tokens), "cs-total"], [" tokens in "], [String(run.rounds), "cs-total"], [" passes"]];
      if (!stage.header.heads.length) {
        this.say([...total, [": one at a time."]], "Nothing was guessed ahead: this is plain decoding, the baseline of every speed-up.");
        return;
      }
      const text = comparison ? comparison.text.words : "";
      const alone = cut ? "." : `, where plain decoding takes ${run.tokens}.`;
      const verdict = against ? VERDICTS[against.standing](against) : [[alone]];
      this.say([...total, ...verdict], `${against ? against.words : this.unknown()} ${text}`);
    }

    // Why no speed-up is said, or that it is coming.
    unknown() {
      const { comparison, comparing } = this.stage;
      if (comparison && comparison.state !== "measuring") return comparison.speed.withheld;
      return comparing ? `How much faster that is: ${comparing}` : "How much faster that is was not measured.";
    }

    say(parts, more) {
      const { html, write } = Canopy.ink;
      this.headline.replaceChildren(...parts.map(([text, look]) => html("span", look || "", null, text)));
      write(this.words, more);
    }
  }

  Canopy.Story = Story;
})(window.Canopy = window.Canopy || {});
