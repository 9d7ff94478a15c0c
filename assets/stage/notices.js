// Messages around the stage: waiting, refused, outside the rig's domains; and those for screen readers.

import { action, button, html, pause, sparing, spoken, write } from "../shared/ink.js";
import { controls, pastTheProxy, whoAnswers } from "./controls.js";
import { waitingWords } from "./text.js";

const SPOKEN_EVERY_MS = 1200;
const BRIEFLY_MS = 3500;

// A box that is hidden until it has something to say.
class Notice {
  choice = /** @type {HTMLButtonElement | null} */ (null);
  act = () => {};

  /** @param {HTMLElement} parent @param {string} look */
  constructor(parent, look, role = "") {
    this.box = html("div", { class: `cs-notice is-${look}`, hidden: true, ...(role && { role }) }, parent);
    this.words = html("p", "", this.box);
  }

  // With a button for what can be done about it, which every message names anew.
  offering() {
    this.choice = action(this.box, "", "", () => this.act());
    return this;
  }

  get message() {
    return this.box.hidden ? "" : this.words.textContent ?? "";
  }

  /** Shows a message with what can be done about it; an empty one hides the box. @param {string} message */
  say(message, label = "", act = () => {}) {
    this.box.hidden = !message;
    write(this.words, message);
    if (!this.choice) return;
    this.act = act;
    this.choice.hidden = !label;
    write(this.choice, label);
  }
}

export class Notices {
  retry = () => {}; // asks the server that is gone
  hiddenNote = "";
  going = 0; // a timer

  /** @param {Stage} stage @param {HTMLElement} parent */
  constructor(stage, parent) {
    this.stage = stage;
    this.box = html("div", "cs-notices", parent);
    this.lost = new Notice(this.box, "lost", "alert"); // the server is gone: as long as it is, this stays
    button(this.lost.box, "Retry", "Ask the server again now", () => this.retry());
    this.error = new Notice(this.box, "error", "alert");
    button(this.error.box, "Dismiss", "Dismiss this message (Esc)", () => this.dismiss());
    this.wait = html("div", { class: "cs-notice is-wait", hidden: true }, this.box);
    this.news = new Notice(this.box, "news", "status").offering(); // something happened elsewhere
    this.outside = new Notice(this.box, "outside", "status").offering(); // of what the rig was trained on, and another rig
    this.note = new Notice(this.box, "note");
    button(this.note.box, "×", "Hide this note", () => {
      this.hiddenNote = this.note.message;
      this.note.say("");
    });
    this.live = html("div", { class: "cs-spoken", "aria-live": "polite" }, this.box);
    this.toast = html("div", { class: "cs-toast", role: "status", hidden: true }, document.body);
    stage.on("state", () => this.state());
    stage.on("round", sparing(() => this.speak(), SPOKEN_EVERY_MS));
    stage.on("asked begin", () => this.pass());
    stage.on("refused", (message) => this.fail(message));
    stage.on("withdrawn", () => this.runAgain("Stopped before its first token; what is shown is the run before."));
    stage.on("value", () => this.remark());
  }

  state() {
    const { stage } = this;
    const { state, message } = stage.value;
    if (state === "error" && message) this.fail(message);
    const waiting = waitingWords(stage);
    this.wait.hidden = !waiting;
    if (waiting) write(this.wait, stage.pending?.state === "queued" ? waiting.more : `${waiting.headline} ${waiting.more}`);
  }

  // What was said of an earlier request is past.
  pass() {
    this.dismiss();
    this.news.say("");
  }

  /** @param {string} message @param {() => void} retry */
  lose(message, retry) {
    this.retry = retry;
    this.lost.say(message);
  }

  fail(/** @type {string} */ message) {
    this.error.say(message);
  }

  /** @param {string} message @param {() => void} act */
  runAgain(message, act = () => document.querySelector("#canopy-run").click()) {
    this.news.say(message, "Run it again", act);
  }

  // Something was done that needs no answer: the message goes away by itself.
  brief(/** @type {string} */ message) {
    clearTimeout(this.going);
    this.toast.hidden = false;
    write(this.toast, message);
    this.going = setTimeout(() => { this.toast.hidden = true; }, BRIEFLY_MS);
  }

  // Returns whether there was a message to dismiss.
  dismiss() {
    const { message } = this.error;
    this.error.say("");
    return message !== "";
  }

  remark() {
    const { header, about } = this.stage;
    const note = [about.outside ? "" : header?.note, about.remark].filter(Boolean).join(" ");
    this.note.say(note === this.hiddenNote ? "" : note);
  }

  speak() {
    const { actual: round } = this.stage;
    if (!round || round.chunked) return;
    write(this.live, `Round ${round.index + 1}: ${round.n - 1} nodes drafted, ${round.keep.length - 1} accepted, `
      + `bonus '${spoken(round, round.bonus)}'`);
  }
}

// A server that is gone while a run is waited for or goes on: one sentence and Retry. The page loads again as soon as it
// answers, with the text that was there, the prompt and the turns before it.
const POLL_MS = 600;
const GONE = "The server does not answer any more; what it wrote stays here, and this page goes on as soon as it is back.";
const RUNS_THEN = "The server does not answer yet; your prompt runs as soon as it is back.";

export class Lost {
  /** @param {Stage} stage @param {Notices} notices */
  constructor(stage, notices) {
    this.stage = stage;
    this.notices = notices;
    this.gone = false;
    this.goesOn = ""; // what the page does by itself once the server is back
    stage.on("broken", () => this.lose());
    window.addEventListener("pagehide", () => this.gone && this.keep());
  }

  lose() {
    if (this.gone) return;
    this.gone = true;
    document.body.classList.add("canopy-lost");
    const message = pastTheProxy() || GONE;
    this.stage.lose(message);
    this.notices.lose(message, () => this.retry());
    this.wait();
  }

  async wait() {
    while (!await answers()) await pause(POLL_MS);
    window.location.reload();
  }

  async retry() {
    if (await answers()) window.location.reload();
    else this.notices.brief("The server still does not answer.");
  }

  // Run was pressed.
  runsThen() {
    this.goesOn = "runs";
    this.notices.lose(pastTheProxy() || RUNS_THEN, () => this.retry());
  }

  keep() {
    const { stage, goesOn } = this;
    const { value: { run, state, message }, run: { lines } } = stage;
    const standing = /** @type {import("../types.d.ts").StateLine} */ ({ state, run, message });
    controls.keep({ run: lines.length ? [standing, ...lines] : null, goesOn });
  }
}

const answers = async () => await whoAnswers() === "here";
