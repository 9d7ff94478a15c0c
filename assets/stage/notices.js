// Messages around the stage: waiting, refused, outside the rig's domains; and those for screen readers.

import { button, html, spoken, write } from "../panels/ink.js";
import { controls } from "./controls.js";
import { waitingWords } from "./stage.js";

const SPOKEN_EVERY_MS = 1200;
const BRIEFLY_MS = 3500;

export class Notices {
  constructor(stage, parent) {
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
    const box = html("div", `cs-notice is-${look}`, this.box);
    if (role) box.setAttribute("role", role);
    box.hidden = true;
    html("p", "", box);
    return box;
  }

  // A button whose name is what it says.
  acting(parent, act) {
    const made = button(parent, "", "", act);
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
    const { headline, more } = waitingWords(stage);
    write(this.wait, stage.coming.state === "queued" ? more : `${headline} ${more}`);
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
    write(this.goneText, message);
  }

  fail(message) {
    write(this.errorText, message);
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
    write(this.toldAct, label);
    write(this.toldText, message);
  }

  runAgain(message) {
    this.news(message, "Run again", () => document.querySelector("#canopy-run").click());
  }

  // {message, label, act}: a run was slower than plain decoding, and a setting that is faster; null takes it away.
  slow(said) {
    this.slower.hidden = !said;
    if (!said) return;
    this.better = said.act;
    write(this.slowerText, said.message);
    write(this.slowerAct, said.label);
  }

  // {message, label, act}: the prompt is unlike those that the rig was trained on, and a rig that could answer it;
  // null takes it away.
  outside(said) {
    this.strange.hidden = !said;
    if (!said) return;
    this.elsewhere = said.act;
    this.strangeAct.hidden = !said.label;
    write(this.strangeText, said.message);
    write(this.strangeAct, said.label);
  }

  // Something was done that needs no answer: the message goes away by itself.
  brief(message) {
    clearTimeout(this.going);
    this.toast.hidden = false;
    write(this.toast, message);
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
    write(this.noteText, note);
    this.note.hidden = !note || note === this.hiddenNote;
  }

  speak() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      const made = this.stage.round;
      if (!made || made.chunked) return;
      const kept = made.keep.length - 1;
      write(this.live, `Round ${made.index + 1}: ${made.n - 1} nodes drafted, ${kept} accepted, `
        + `bonus '${spoken(made, made.bonus)}'`);
    }, SPOKEN_EVERY_MS);
  }
}

// A server that stops answering while a run is waited for or goes on: one sentence and Retry. The page loads again as
// soon as it answers, with the text that was there, the prompt and the turns before it.
const SILENT_MS = 1200; // without an update, before the server is asked whether it is there
const BETWEEN_LOOKS_MS = 600;
const GONE = "The server does not answer any more; what it wrote stays here, and this page goes on as soon as it is back.";
const RUNS_THEN = "The server does not answer yet; your prompt runs as soon as it is back.";

export class Lost {
  constructor(stage, notices) {
    this.stage = stage;
    this.notices = notices;
    this.gone = false;
    this.heard = 0;
    this.goesOn = ""; // what the page does by itself once the server is back
    stage.on("value", () => { this.heard = Date.now(); });
    stage.on("asked", () => { this.heard = Date.now(); });
    stage.on("state", () => this.watch());
    window.addEventListener("pagehide", () => this.gone && this.keep());
    document.addEventListener("click", (event) => this.click(event));
  }

  // Looks while there is something to wait for.
  watch() {
    if (this.timer || !(this.stage.busy || this.gone)) return;
    this.timer = setTimeout(async () => {
      await this.look();
      this.timer = 0;
      this.watch();
    }, BETWEEN_LOOKS_MS);
  }

  async look() {
    if (!this.gone && Date.now() - this.heard < SILENT_MS) return;
    const there = await answers();
    if (this.gone && there) window.location.reload();
    else if (!there && (this.stage.busy || this.gone)) this.lose();
  }

  lose() {
    if (this.gone) return;
    this.gone = true;
    document.body.classList.add("canopy-lost");
    this.stage.lose(GONE);
    this.notices.lose(GONE, () => this.retry());
  }

  async retry() {
    if (await answers()) window.location.reload();
    else this.notices.brief("The server still does not answer.");
  }

  // Gradio takes no Run any more, so it is remembered for when the page is loaded again.
  click(event) {
    if (!this.gone || !event.target.closest("#canopy-run")) return;
    this.goesOn = "runs";
    this.notices.lose(RUNS_THEN, () => this.retry());
  }

  keep() {
    const { stage, goesOn } = this;
    controls.keep(stage.views.length ? stage.whole() : null, goesOn);
  }
}

async function answers() {
  try {
    return (await fetch("gradio_api/app_id", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
