// The conversation: the turns before the prompt, which are sent with the next run. Continue turns a finished run into
// turns before the next prompt; a recording that is opened brings its own turns, mostly none.
(function (Canopy) {
  "use strict";

  const BYTES = new TextEncoder();
  const GO_ON = "Continue the conversation: the prompt and this text become turns before your next prompt (c)";

  // What was written so far, as one text.
  function answer(stage) {
    const decoder = new TextDecoder();
    const ids = stage.rounds.flatMap((made) => made.keep.map((node) => made.tokens[node]));
    const bytes = (piece) => (typeof piece === "string" ? BYTES.encode(piece) : new Uint8Array(piece || []));
    return ids.map((id) => decoder.decode(bytes(stage.pieces.get(id)), { stream: true })).join("") + decoder.decode();
  }

  class Conversation {
    constructor(stage, frame) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.next = button(frame, "Continue", GO_ON, () => this.goOn());
      this.next.classList.add("cs-continue");
      this.next.removeAttribute("aria-label"); // what it says is its name
      this.mark = html("div", "cs-turn");
      this.place = html("span", "cs-turn-place", this.mark);
      this.place.setAttribute("role", "status");
      this.number = html("span", "", this.place);
      html("span", "cs-turn-more", this.place, " of a conversation");
      const fresh = button(this.mark, "Start afresh", "Forget the earlier turns: the next run begins a new conversation", () => this.leave());
      fresh.removeAttribute("aria-label");
      for (const event of ["state", "mode"]) stage.on(event, () => this.draw());
      this.take(Canopy.controls.keptTurns());
    }

    get ready() {
      return this.stage.mode === "workbench" && !this.stage.busy && this.stage.rounds.length > 0;
    }

    // The prompt's part of the page, which may load after the stage.
    get box() {
      return document.querySelector("#canopy-prompt:has(textarea)");
    }

    take(turns) {
      this.turns = Canopy.controls.turns = turns;
      this.draw();
    }

    // Only after a run that has ended.
    goOn() {
      if (!this.ready || !this.box) return;
      const { header } = this.stage;
      this.take([...header.turns, ["user", header.prompt], ["assistant", answer(this.stage)]]);
      const field = this.box.querySelector("textarea");
      field.value = "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
    }

    leave() {
      this.take([]);
      this.box.querySelector("textarea").focus();
    }

    draw() {
      const { box, turns } = this;
      const asked = turns.filter(([role]) => role === "user").length;
      this.next.disabled = !this.ready;
      if (!box) return;
      if (this.mark.parentElement !== box) box.append(this.mark);
      this.mark.hidden = !turns.length;
      document.body.classList.toggle("canopy-in-turns", turns.length > 0);
      Canopy.ink.write(this.number, `Turn ${asked + 1}`);
    }
  }

  Canopy.Conversation = Conversation;
})(window.Canopy = window.Canopy || {});
