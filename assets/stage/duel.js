// The end of the story: what plain decoding and the run with trees wrote, typed on one clock. The times are those of
// the comparison, in which both took turns, slowed down for the eye; each lane shows the tokens of its own text.
(function (Canopy) {
  "use strict";

  const WATCHED_SECONDS = 6; // how long the slower lane takes on the screen
  const BYTES = new TextEncoder();

  // The first tokens of the run with trees, as {text, origin}.
  function drafted(stage, count) {
    const decoder = new TextDecoder();
    const bytes = (piece) => (typeof piece === "string" ? BYTES.encode(piece) : new Uint8Array(piece || []));
    return stage.rounds.flatMap((made) => made.keep.map((node) => ({ made, node }))).slice(0, count).map(({ made, node }) => (
      { text: decoder.decode(bytes(stage.pieces.get(made.tokens[node])), { stream: true }), origin: made.origin(node) }));
  }

  class Duel {
    constructor(stage, parent) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("section", "cs-duel", parent);
      this.box.setAttribute("aria-label", "Both texts, typed on one clock");
      const head = html("header", "", this.box);
      this.title = html("div", "cs-duel-title", head);
      this.title.setAttribute("role", "heading");
      this.title.setAttribute("aria-level", "2");
      this.clock = html("span", "cs-duel-clock", head);
      button(head, "×", "Back to text and tree", () => this.close());
      this.lanes = [this.lane("One token a pass", "is-plain"), this.lane("With the draft tree", "is-tree")];
      this.box.hidden = true;
      for (const event of ["asked", "begin", "mode", "hand"]) stage.on(event, () => this.close());
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
      return !stage.busy && Boolean(stage.against);
    }

    open() {
      if (!this.possible || this.stage.mode !== "story") return;
      const { against, comparison } = this.stage;
      const { title, texts, seconds: [own, plain] } = comparison.lanes;
      Canopy.ink.write(this.title, title);
      this.end = Math.max(own[own.length - 1], plain[plain.length - 1]);
      const [one, tree] = this.lanes;
      this.fill(one, texts.map((text) => ({ text })), plain, against.plain_speed);
      this.fill(tree, drafted(this.stage, own.length), own, against.speed);
      this.box.hidden = false;
      const still = this.stage.reducedMotion;
      this.began = performance.now() - (still ? 1000 * WATCHED_SECONDS : 0);
      this.run();
    }

    fill(lane, tokens, times, speed) {
      const { html } = Canopy.ink;
      lane.times = times.slice(0, tokens.length);
      lane.speed = speed;
      lane.shown = 0;
      lane.spans = tokens.map(({ text, origin }) => html("span", `is-coming ${origin ? `cs-token is-${origin}` : ""}`, null, text));
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
      Canopy.ink.write(lane.flag, `${over ? "✓ " : ""}${lane.shown} tokens${over ? `, ${lane.speed} tokens/s` : ""}`);
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
