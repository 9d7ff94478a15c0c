// The story line: what one pass of the big model just did, in a sentence for people who never heard of drafting.
(function (Canopy) {
  "use strict";

  class Story {
    constructor(stage, parent) {
      const { html } = Canopy.ink;
      this.stage = stage;
      this.box = html("div", "cs-story", parent);
      this.headline = html("p", "cs-headline", this.box);
      this.more = html("p", "cs-more", this.box);
      for (const event of ["round", "value", "begin", "mode"]) stage.on(event, () => this.draw());
      this.draw();
    }

    draw() {
      const made = this.stage.round;
      if (!made) {
        this.say([["Ask something, and watch a small model guess ahead of a big one."]],
          "Pick a preset and press Run: each pass of the big model keeps every guess that it would have written itself.");
        return;
      }
      const kept = made.keep.length;
      this.say([["One pass of the big model just wrote "], [String(kept), "cs-count"], [kept === 1 ? " token." : " tokens."]],
        this.explain(made, kept));
    }

    explain(made, kept) {
      const drafted = made.n - 1;
      const last = made.index + 1 === this.stage.rounds.length && !this.stage.busy;
      if (last && this.stage.rounds.length > 1) return this.sum();
      if (!drafted) return "Nothing was guessed ahead: this is plain decoding, one token a pass.";
      const guesses = drafted === 1 ? "one guess" : `${drafted} guesses in a tree`;
      const verdict = kept > 1
        ? `${kept - 1} of them ${kept === 2 ? "is" : "are"} exactly what it would have written`
        : "none of them is what it would have written";
      const who = made.heads_names.length > 1 ? "Two small models" : "A small model";
      return `${who} drafted ${guesses}; the big one checked them all at once, and ${verdict}.`;
    }

    sum() {
      const run = Canopy.figures(this.stage.rounds);
      return `${run.tokens} tokens in ${run.rounds} passes, where plain decoding takes ${run.tokens}. `
        + "The text is the big model's own: what it would not have written is thrown away.";
    }

    say(parts, more) {
      const { html, write } = Canopy.ink;
      this.headline.replaceChildren(...parts.map(([text, look]) => html("span", look || "", null, text)));
      write(this.more, more);
    }
  }

  Canopy.Story = Story;
})(window.Canopy = window.Canopy || {});
