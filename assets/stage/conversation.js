// The conversation: the turns before the prompt, which are sent with the next run. In the story the next prompt is the next
// turn; in the workbench Continue says so, because there the same prompt runs with many settings. A recording that is
// opened brings its own turns, mostly none.

import { action, html, write } from "../shared/ink.js";
import { textOf } from "../shared/round.js";
import { controls, field, type } from "./controls.js";

const GO_ON = "Continue the conversation: the prompt and this text become turns before your next prompt (c)";

export class Conversation {
  asked = false; // whether the latest run was asked for on this page, and its turn is not over
  beside = /** @type {RunPoint | null} */ (null); // the answer that the next run stands beside

  /** @param {Stage} stage @param {HTMLElement} tools */
  constructor(stage, tools) {
    this.stage = stage;
    this.next = action(tools, "Continue", GO_ON, () => this.continueConversation(), "cs-continue");
    tools.prepend(this.next);
    this.mark = html("div", "cs-turn");
    this.place = html("span", { class: "cs-turn-place", role: "status" }, this.mark);
    this.number = html("span", "", this.place);
    html("span", "cs-turn-more", this.place, " of a conversation");
    action(this.mark, "New conversation", "Leave the earlier turns behind: the next run begins another conversation", () => {
      this.setTurns([]);
      field().focus();
    });
    stage.on("asked", () => {
      this.asked = true;
      this.setOtherAnswer(this.beside);
      this.beside = null;
    });
    stage.on("opened refused withdrawn lost", () => {
      this.asked = false;
      this.setOtherAnswer(null);
    });
    stage.on("state", () => { // in the story a turn is over when its run has ended; what is typed meanwhile is the next prompt
      if (!this.asked || stage.busy || !["done", "stopped"].includes(stage.value.state)) return;
      this.asked = false;
      if (stage.mode === "story" && !controls.waits) this.advance();
    });
    stage.on("state mode", () => this.draw());
    stage.on("edit", ({ turns, prompt }) => this.ask(turns, prompt));
    stage.on("answer", ({ point, options }) => this.answer(point, options));
    this.draw();
  }

  get ready() {
    return this.stage.mode === "workbench" && !this.stage.busy && this.stage.rounds.length > 0;
  }

  // The prompt's part of the page, which may load after the stage.
  get box() {
    return document.querySelector("#canopy-prompt:has(textarea)");
  }

  setTurns(/** @type {Turns} */ turns) {
    controls.turns = turns;
    this.draw();
  }

  setOtherAnswer(/** @type {RunPoint | null} */ beside) {
    this.stage.otherAnswer = beside;
    this.stage.emit("beside");
  }

  // Only after a run that has ended.
  continueConversation() {
    if (!this.ready || !this.box) return;
    this.advance();
    field().focus();
  }

  // The prompt and its answer become turns before the next prompt.
  advance() {
    const { stage, stage: { header } } = this;
    if (!header) return;
    this.setTurns([...header.turns, ["user", header.prompt], ["assistant", textOf(stage.run)]]);
    if (field()?.value === header.prompt) type(field(), "");
  }

  /** Puts a prompt into the bar as the turn after these. @param {Turns} turns @param {string} prompt */
  ask(turns, prompt) {
    this.setTurns(turns);
    type(field(), prompt);
    field().focus();
  }

  /** The same turn once more, beside its answer; without options, with those of the bar.
   *  @param {RunPoint} point @param {Setting | null} options */
  answer(point, options) {
    const { stage } = this;
    const { prompt = "", options: { turns = [] } = {} } = point;
    if (stage.busy) return;
    this.beside = point;
    controls.parts?.runs?.tick(point.run, true, true);
    if (options) controls.start({ ...options, prompt, turns });
    else {
      this.ask(turns, prompt);
      controls.runWhen(prompt);
    }
  }

  draw() {
    const { box } = this;
    const { turns } = controls;
    const asked = turns.filter(([role]) => role === "user").length;
    this.next.disabled = !this.ready;
    if (!box) return;
    if (this.mark.parentElement !== box) box.append(this.mark);
    this.mark.hidden = !turns.length;
    document.body.classList.toggle("canopy-in-turns", turns.length > 0);
    write(this.number, `Turn ${asked + 1}`);
  }
}
