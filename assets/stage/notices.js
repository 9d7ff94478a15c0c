// What the stage has to say besides rounds: waiting, refused, outside the rig's domains; and for screen readers.
(function (Canopy) {
  "use strict";

  const SPOKEN_EVERY_MS = 1200;
  const BRIEFLY_MS = 3500;

  class Notices {
    constructor(stage, parent) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("div", "cs-notices", parent);
      this.error = html("div", "cs-notice is-error", this.box);
      this.error.setAttribute("role", "alert");
      this.errorText = html("p", "", this.error);
      button(this.error, "Dismiss", "Dismiss this message (Esc)", () => this.dismiss());
      this.wait = html("div", "cs-notice is-wait", this.box);
      this.note = html("div", "cs-notice is-note", this.box);
      this.noteText = html("p", "", this.note);
      button(this.note, "×", "Hide this note", () => {
        this.hiddenNote = this.noteText.textContent;
        this.note.hidden = true;
      });
      this.told = html("div", "cs-notice is-news", this.box);
      this.told.setAttribute("role", "status");
      this.toldText = html("p", "", this.told);
      this.toldAct = button(this.told, "", "", () => this.act());
      this.toldAct.removeAttribute("aria-label");
      this.slower = html("div", "cs-notice is-slower", this.box);
      this.slower.setAttribute("role", "status");
      this.slowerText = html("p", "", this.slower);
      this.slowerAct = button(this.slower, "", "", () => this.better());
      this.slowerAct.removeAttribute("aria-label");
      button(this.slower, "×", "Hide this message", () => this.slow(null));
      this.slower.hidden = true;
      this.stranger();
      this.live = html("div", "cs-spoken", this.box);
      this.live.setAttribute("aria-live", "polite");
      this.toast = html("div", "cs-toast", document.body);
      this.toast.setAttribute("role", "status");
      this.toast.hidden = true;
      this.error.hidden = this.wait.hidden = this.note.hidden = this.told.hidden = true;
      stage.on("state", () => this.state());
      stage.on("round", () => this.speak());
      stage.on("begin", () => this.dismiss()); // what was wrong with an earlier wish is past
      stage.on("value", () => this.remark());
    }

    stranger() {
      const { html, button } = Canopy.ink;
      this.strange = html("div", "cs-notice is-outside", this.box);
      this.strange.setAttribute("role", "status");
      this.strangeText = html("p", "", this.strange);
      this.strangeAct = button(this.strange, "", "", () => this.elsewhere());
      this.strangeAct.removeAttribute("aria-label");
      this.strange.hidden = true;
    }

    state() {
      const { state, message } = this.stage.value;
      if (state === "error" && message) this.fail(message);
      const waiting = state === "queued" || (state === "running" && message);
      this.wait.hidden = !waiting;
      Canopy.ink.write(this.wait, waiting ? message : "");
    }

    fail(message) {
      Canopy.ink.write(this.errorText, message);
      this.error.hidden = false;
    }

    // What is wrong, as long as it is shown.
    get failure() {
      return this.error.hidden ? "" : this.errorText.textContent;
    }

    // Something that happened elsewhere, and what can be done about it.
    news(message, label, act) {
      this.told.hidden = false;
      this.act = act;
      Canopy.ink.write(this.toldAct, label);
      Canopy.ink.write(this.toldText, message);
    }

    // {message, label, act}: a run was slower than plain decoding, and what would be faster; null takes it away.
    slow(said) {
      this.slower.hidden = !said;
      if (!said) return;
      this.better = said.act;
      Canopy.ink.write(this.slowerText, said.message);
      Canopy.ink.write(this.slowerAct, said.label);
    }

    // {message, label, act}: the prompt is of no kind that the rig was trained for, and who could answer it; null: it is.
    outside(said) {
      this.strange.hidden = !said;
      if (!said) return;
      this.elsewhere = said.act;
      this.strangeAct.hidden = !said.label;
      Canopy.ink.write(this.strangeText, said.message);
      Canopy.ink.write(this.strangeAct, said.label);
    }

    // Something that was done and needs no answer: it goes by itself.
    brief(message) {
      clearTimeout(this.going);
      this.toast.hidden = false;
      Canopy.ink.write(this.toast, message);
      this.going = setTimeout(() => { this.toast.hidden = true; }, BRIEFLY_MS);
    }

    // True where there was something to dismiss.
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
        if (!made) return;
        const kept = made.keep.length - 1;
        Canopy.ink.write(this.live, `Round ${made.index + 1}: ${made.n - 1} nodes drafted, ${kept} accepted, `
          + `bonus '${Canopy.ink.spoken(made, made.bonus)}'`);
      }, SPOKEN_EVERY_MS);
    }
  }

  Canopy.Notices = Notices;
})(window.Canopy = window.Canopy || {});
