// Messages around the stage: waiting, refused, outside the rig's domains; and those for screen readers.

import { action, html, pause, throttled, spoken, write } from "../shared/ink.js";
import { controls, promptField, pastTheProxy, whoAnswers } from "./controls.js";
import { waitingWords } from "./text.js";

const SPOKEN_EVERY_MS = 1200;
const BRIEFLY_MS = 3500;

// A box that is hidden until it has something to say, with a button for what can be done about it.
class Notice {
  act = () => {};

  /** @param {HTMLElement} parent @param {string} look @param {Attributes} [more] @param {string} [title] of the button */
  constructor(parent, look, more = {}, title = "") {
    this.box = html("div", { class: `cs-notice is-${look}`, hidden: true, ...more }, parent);
    this.words = html("p", "", this.box);
    this.choice = action(this.box, "", title, () => this.act());
  }

  get message() {
    return this.box.hidden ? "" : this.words.textContent ?? "";
  }

  /** Shows a message with what can be done about it; an empty one hides the box. @param {string} message */
  say(message, label = "", act = () => {}) {
    this.box.hidden = !message;
    write(this.words, message);
    this.act = act;
    this.choice.hidden = !label;
    write(this.choice, label);
  }
}

export class Notices {
  hiddenNotes = new Set([""]); // notes that were hidden, or shown with an earlier run of this page
  toastTimer = 0;

  constructor(/** @type {Stage} */ stage, /** @type {HTMLElement} */ parent) {
    this.stage = stage;
    this.box = html("div", "cs-notices", parent);
    this.lost = new Notice(this.box, "lost", { role: "alert" }, "Ask the server again now"); // stays while the server is gone
    this.error = new Notice(this.box, "error", { role: "alert" }, "Dismiss this message (Esc)");
    this.wait = new Notice(this.box, "wait");
    this.news = new Notice(this.box, "news", { role: "status" }); // something happened elsewhere
    this.outside = new Notice(this.box, "outside", { role: "status" }); // the prompt is unlike the rig's training data
    this.note = new Notice(this.box, "note");
    this.note.choice.ariaLabel = "Hide this note";
    this.liveRegion = html("div", { class: "cs-spoken", "aria-live": "polite" }, this.box);
    this.toast = html("div", { class: "cs-toast", role: "status", hidden: true }, document.body);
    stage.on("state", () => {
      const { state, message } = stage.value;
      if (state === "error" && message) this.fail(message);
      const waiting = waitingWords(stage);
      this.wait.say(!waiting ? "" : stage.pending?.state === "queued" ? waiting.more : `${waiting.headline} ${waiting.more}`);
    });
    stage.on("round", throttled(() => {
      const { recordedRound: round } = stage;
      if (!round || round.chunked) return;
      write(this.liveRegion, `Round ${round.index + 1}: ${round.n - 1} nodes drafted, ${round.keep.length - 1} accepted, `
        + `bonus '${spoken(round, round.bonus)}'`);
    }, SPOKEN_EVERY_MS));
    stage.on("requested run", () => { // messages about earlier requests go
      this.error.say("");
      this.news.say("");
    });
    stage.on("requested", () => stage.recorded || this.hiddenNotes.add(this.note.message));
    stage.on("refused", (message) => this.fail(message));
    stage.on("cancelled", () => this.runAgain("Stopped before its first token; the previous run is still shown."));
    stage.on("lines mode", () => this.drawNote());
  }

  fail(/** @type {string} */ message) {
    this.error.say(message, "Dismiss", () => this.dismiss());
  }

  /** @param {string} message @param {() => void} act */
  runAgain(message, act = () => document.querySelector("#canopy-run").click()) {
    this.news.say(message, "Run it again", act);
  }

  // Shows a message that goes away by itself.
  brief(/** @type {string} */ message) {
    clearTimeout(this.toastTimer);
    this.toast.hidden = false;
    write(this.toast, message);
    this.toastTimer = setTimeout(() => { this.toast.hidden = true; }, BRIEFLY_MS);
  }

  // Returns whether there was a message to dismiss.
  dismiss() {
    const { message } = this.error;
    this.error.say("");
    return message !== "";
  }

  // The rig's note on a run made here is shown in the workbench; what a person wrote about a run, everywhere.
  drawNote() {
    const { header, about, mode, server, recorded } = this.stage;
    const ours = mode === "story" && server && !recorded;
    const note = [about.outside || ours ? "" : header?.note, about.remark].filter(Boolean).join(" ");
    this.note.say(this.hiddenNotes.has(note) ? "" : note, "×", () => {
      this.hiddenNotes.add(note);
      this.note.say("");
    });
  }
}

// Notices that the server is gone, says so with a button Retry, and reloads the page when it answers again, with the text,
// the prompt and the turns before it.
const POLL_MS = 600;
const GONE = "The server is not responding. The text so far is kept; this page reconnects automatically.";
const RUNS_THEN = "The server is not responding. Your prompt runs as soon as it is back.";

export class ConnectionMonitor {
  constructor(/** @type {Stage} */ stage, /** @type {Notices} */ notices) {
    this.stage = stage;
    this.notices = notices;
    this.gone = false;
    this.resumeAction = ""; // what the page does by itself when the server answers again
    stage.on("disconnected", () => this.waitForServer());
    // Gradio passes nothing on once a call of its own has failed, so what is asked of a server that is gone is heard here too.
    document.addEventListener("click", ({ target }) => target instanceof Element && target.closest("#canopy-run") && this.checkServer());
    document.addEventListener("keydown", ({ key, shiftKey, target }) => (
      key === "Enter" && !shiftKey && target === promptField() && this.checkServer()));
    window.addEventListener("pagehide", () => { // for the page that comes after this one
      if (!this.gone) return;
      const { resumeAction, stage: { value: { run, state, message }, run: { lines }, scene } } = this;
      const stateLine = /** @type {StateLine} */ ({ state, run, message });
      controls.keepForReload({ run: lines.length ? [stateLine, ...lines] : null, resumeAction: resumeAction || (scene === "card" ? scene : null) });
    });
  }

  async waitForServer() {
    if (this.gone) return;
    this.gone = true;
    document.body.classList.add("canopy-lost");
    const message = pastTheProxy() || GONE;
    this.stage.disconnect(message);
    this.say(message);
    while (await whoAnswers() !== "here") await pause(POLL_MS);
    window.location.reload();
  }

  say(/** @type {string} */ message) {
    this.notices.lost.say(message, "Retry", async () => {
      if (await whoAnswers() === "here") window.location.reload();
      else this.notices.brief("The server still does not answer.");
    });
  }

  async checkServer() {
    if (await whoAnswers() !== "gone") return;
    this.waitForServer();
    this.runOnReturn();
  }

  // Run was pressed.
  runOnReturn() {
    this.resumeAction = "runs";
    this.say(pastTheProxy() || RUNS_THEN);
  }
}
