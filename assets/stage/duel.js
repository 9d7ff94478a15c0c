// The end of the story: the same text typed twice on one clock, one token a pass and with the draft tree. The times
// are the engine's, slowed down for the eye; plain decoding's come from its own run of the same prompt.
(function (Canopy) {
  "use strict";

  const WATCHED_SECONDS = 6; // how long the slower lane takes on the screen
  const BYTES = new TextEncoder();

  // {seconds: when each token was there, tokens: [{text, origin}]} of the run with trees.
  function drafted(stage) {
    const decoder = new TextDecoder();
    const bytes = (piece) => (typeof piece === "string" ? BYTES.encode(piece) : new Uint8Array(piece || []));
    const tokens = [];
    const seconds = [];
    let clock = 0;
    for (const made of stage.rounds) {
      clock += Object.values(made.seconds).reduce((sum, spent) => sum + spent, 0);
      for (const node of made.keep) {
        tokens.push({ text: decoder.decode(bytes(stage.pieces.get(made.tokens[node])), { stream: true }), origin: made.origin(node) });
        seconds.push(clock);
      }
    }
    return { tokens, seconds };
  }

  // When plain decoding has each token: as recorded, where its run is as long; else at its measured pace.
  function plain(count, baseline) {
    const known = baseline.seconds && baseline.seconds.length >= count;
    return Array.from({ length: count }, (_, place) => (known ? baseline.seconds[place] : (place + 1) / baseline.tokens_per_second));
  }

  class Duel {
    constructor(stage, parent) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("section", "cs-duel", parent);
      this.box.setAttribute("aria-label", "The same text, typed twice");
      const head = html("header", "", this.box);
      const title = html("div", "cs-duel-title", head, "The same text, on one clock");
      title.setAttribute("role", "heading");
      title.setAttribute("aria-level", "2");
      this.clock = html("span", "cs-duel-clock", head);
      button(head, "×", "Back to text and tree", () => this.close());
      this.lanes = [this.lane("One token a pass", "is-plain"), this.lane("With the draft tree", "is-tree")];
      this.box.hidden = true;
      for (const event of ["begin", "mode", "hand"]) stage.on(event, () => this.close());
      stage.on("round", ({ moved }) => moved && this.close());
      stage.on("finale", () => this.open());
    }

    lane(name, look) {
      const { html } = Canopy.ink;
      const box = html("article", `cs-lane ${look}`, this.box);
      const head = html("header", "", box);
      const title = html("div", "cs-lane-name", head, name);
      title.setAttribute("role", "heading");
      title.setAttribute("aria-level", "3");
      const flag = html("span", "cs-lane-flag", head);
      const track = html("div", "cs-lane-track", box);
      const fill = html("div", "cs-lane-fill", track);
      const text = html("div", "cs-lane-text", box);
      text.tabIndex = 0;
      text.setAttribute("role", "group");
      text.setAttribute("aria-label", name);
      return { box, flag, fill, text };
    }

    get possible() {
      const { stage } = this;
      return !stage.busy && Boolean(Canopy.against(Canopy.figures(stage.rounds), stage.header, stage.baseline));
    }

    open() {
      if (!this.possible || this.stage.mode !== "story") return;
      const { tokens, seconds } = drafted(this.stage);
      const both = [plain(tokens.length, this.stage.baseline), seconds];
      this.end = Math.max(...both.map((times) => times[times.length - 1]));
      this.lanes.forEach((lane, place) => this.fill(lane, tokens, both[place], place === 1));
      this.box.hidden = false;
      const still = this.stage.reducedMotion;
      this.began = performance.now() - (still ? 1000 * WATCHED_SECONDS : 0);
      this.run();
    }

    fill(lane, tokens, times, coloured) {
      const { html } = Canopy.ink;
      lane.times = times;
      lane.shown = 0;
      lane.spans = tokens.map(({ text, origin }) => html("span", `is-coming ${coloured ? `cs-token is-${origin}` : ""}`, null, text));
      lane.text.replaceChildren(...lane.spans);
      lane.text.scrollTop = 0;
      lane.box.classList.remove("is-over");
    }

    run() {
      cancelAnimationFrame(this.frame);
      const at = Math.min(1, (performance.now() - this.began) / (1000 * WATCHED_SECONDS)) * this.end;
      const factor = WATCHED_SECONDS / this.end;
      const pace = factor >= 1.5 ? `, slowed ${Math.round(factor)} times` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times as fast` : "";
      Canopy.ink.write(this.clock, `${at.toFixed(3)} s of ${this.end.toFixed(3)} s${pace}`);
      for (const lane of this.lanes) this.advance(lane, at);
      if (at < this.end && !this.box.hidden) this.frame = requestAnimationFrame(() => this.run());
    }

    advance(lane, at) {
      const { spans, times } = lane;
      while (lane.shown < times.length && times[lane.shown] <= at + 1e-9) spans[lane.shown++].classList.remove("is-coming");
      const over = lane.shown === times.length;
      lane.fill.style.width = `${(100 * lane.shown) / Math.max(1, times.length)}%`;
      lane.box.classList.toggle("is-over", over);
      Canopy.ink.write(lane.flag, over ? `✓ ${times[times.length - 1].toFixed(3)} s` : `${lane.shown} tokens`);
      const last = spans[Math.max(0, lane.shown - 1)];
      if (last) lane.text.scrollTop = Math.max(0, last.offsetTop + last.offsetHeight - lane.text.clientHeight + 8);
    }

    // Returns whether it was open.
    close() {
      const open = !this.box.hidden;
      this.box.hidden = true;
      cancelAnimationFrame(this.frame);
      return open;
    }
  }

  Canopy.Duel = Duel;
})(window.Canopy = window.Canopy || {});
