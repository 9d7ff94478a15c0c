// Messages around the stage: waiting, refused, outside the rig's domains; and those for screen readers.
(function (Canopy) {
  "use strict";

  const SPOKEN_EVERY_MS = 1200;
  const BRIEFLY_MS = 3500;

  class Notices {
    constructor(stage, parent) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("div", "cs-notices", parent);
      this.gone = this.notice("lost", "alert");
      this.goneText = this.gone.firstElementChild;
      button(this.gone, "Retry", "Ask the server again now", () => this.retry());
      this.error = this.notice("error", "alert");
      this.errorText = this.error.firstElementChild;
      button(this.error, "Dismiss", "Dismiss this message (Esc)", () => this.dismiss());
      this.wait = html("div", "cs-notice is-wait", this.box);
      this.wait.hidden = true;
      this.note = this.notice("note");
      this.noteText = this.note.firstElementChild;
      button(this.note, "×", "Hide this note", () => {
        this.hiddenNote = this.noteText.textContent;
        this.note.hidden = true;
      });
      this.told = this.notice("news", "status");
      this.toldText = this.told.firstElementChild;
      this.toldAct = this.acting(this.told, () => this.act());
      this.slower = this.notice("slower", "status");
      this.slowerText = this.slower.firstElementChild;
      this.slowerAct = this.acting(this.slower, () => this.better());
      button(this.slower, "×", "Hide this message", () => this.slow(null));
      this.strange = this.notice("outside", "status");
      this.strangeText = this.strange.firstElementChild;
      this.strangeAct = this.acting(this.strange, () => this.elsewhere());
      this.live = html("div", "cs-spoken", this.box);
      this.live.setAttribute("aria-live", "polite");
      this.toast = html("div", "cs-toast", document.body);
      this.toast.setAttribute("role", "status");
      this.toast.hidden = true;
      this.listen();
    }

    // A box with a text, hidden until there is something to say.
    notice(look, role) {
      const { html } = Canopy.ink;
      const box = html("div", `cs-notice is-${look}`, this.box);
      if (role) box.setAttribute("role", role);
      box.hidden = true;
      html("p", "", box);
      return box;
    }

    // A button whose name is what it says.
    acting(parent, act) {
      const made = Canopy.ink.button(parent, "", "", act);
      made.removeAttribute("aria-label");
      return made;
    }

    listen() {
      const { stage } = this;
      stage.on("state", () => this.state());
      stage.on("round", () => this.speak());
      for (const event of ["asked", "begin"]) stage.on(event, () => this.pass());
      stage.on("refused", (message) => this.fail(message));
      stage.on("withdrawn", () => this.runAgain("Stopped before its first token; what is shown is the run before."));
      stage.on("value", () => this.remark());
    }

    state() {
      const { stage } = this;
      const { state, message } = stage.value;
      if (state === "error" && message) this.fail(message);
      this.wait.hidden = !stage.coming;
      if (!stage.coming) return;
      const { headline, more } = Canopy.waiting(stage);
      Canopy.ink.write(this.wait, stage.coming.state === "queued" ? more : `${headline} ${more}`);
    }

    // What was said of an earlier request is past.
    pass() {
      this.dismiss();
      this.told.hidden = true;
    }

    // The server is gone: as long as it is, this stays.
    lose(message, retry) {
      this.retry = retry;
      this.gone.hidden = false;
      Canopy.ink.write(this.goneText, message);
    }

    fail(message) {
      Canopy.ink.write(this.errorText, message);
      this.error.hidden = false;
    }

    // What is wrong, as long as it is shown.
    get failure() {
      return this.error.hidden ? "" : this.errorText.textContent;
    }

    // Something happened elsewhere; `label` and `act` are what can be done about it.
    news(message, label, act) {
      this.told.hidden = false;
      this.act = act;
      Canopy.ink.write(this.toldAct, label);
      Canopy.ink.write(this.toldText, message);
    }

    runAgain(message) {
      this.news(message, "Run again", () => document.querySelector("#canopy-run").click());
    }

    // {message, label, act}: a run was slower than plain decoding, and a setting that is faster; null takes it away.
    slow(said) {
      this.slower.hidden = !said;
      if (!said) return;
      this.better = said.act;
      Canopy.ink.write(this.slowerText, said.message);
      Canopy.ink.write(this.slowerAct, said.label);
    }

    // {message, label, act}: the prompt is unlike those that the rig was trained on, and a rig that could answer it;
    // null takes it away.
    outside(said) {
      this.strange.hidden = !said;
      if (!said) return;
      this.elsewhere = said.act;
      this.strangeAct.hidden = !said.label;
      Canopy.ink.write(this.strangeText, said.message);
      Canopy.ink.write(this.strangeAct, said.label);
    }

    // Something was done that needs no answer: the message goes away by itself.
    brief(message) {
      clearTimeout(this.going);
      this.toast.hidden = false;
      Canopy.ink.write(this.toast, message);
      this.going = setTimeout(() => { this.toast.hidden = true; }, BRIEFLY_MS);
    }

    // Returns whether there was a message to dismiss.
    dismiss() {
      const open = !this.error.hidden;
      this.error.hidden = true;
      return open;
    }

    remark() {
      const { header, value } = this.stage;
      const note = [header && !header.outside && header.note, value.end && value.end.remark].filter(Boolean).join(" ");
      Canopy.ink.write(this.noteText, note);
      this.note.hidden = !note || note === this.hiddenNote;
    }

    speak() {
      if (this.timer) return;
      this.timer = setTimeout(() => {
        this.timer = 0;
        const made = this.stage.round;
        if (!made || made.chunked) return;
        const kept = made.keep.length - 1;
        Canopy.ink.write(this.live, `Round ${made.index + 1}: ${made.n - 1} nodes drafted, ${kept} accepted, `
          + `bonus '${Canopy.ink.spoken(made, made.bonus)}'`);
      }, SPOKEN_EVERY_MS);
    }
  }

  Canopy.Notices = Notices;
})(window.Canopy = window.Canopy || {});
