// The conversation: the turns before the prompt, which are sent with the next run. Continue turns a finished run into
// turns before the next prompt; a recording that is opened brings its own turns, mostly none.

import { action, html, write } from "../shared/ink.js";
import { textOf } from "../shared/round.js";
import { controls, field, type } from "./controls.js";

const GO_ON = "Continue the conversation: the prompt and this text become turns before your next prompt (c)";

export class Conversation {
  turns = /** @type {Turns} */ ([]);

  /** @param {Stage} stage @param {HTMLElement} frame */
  constructor(stage, frame) {
    this.stage = stage;
    this.next = action(frame, "Continue", GO_ON, () => this.goOn(), "cs-continue");
    this.mark = html("div", "cs-turn");
    this.place = html("span", { class: "cs-turn-place", role: "status" }, this.mark);
    this.number = html("span", "", this.place);
    html("span", "cs-turn-more", this.place, " of a conversation");
    action(this.mark, "Start afresh", "Forget the earlier turns: the next run begins a new conversation", () => this.leave());
    stage.on("state mode", () => this.draw());
    this.take(controls.turns);
  }

  get ready() {
    return this.stage.mode === "workbench" && !this.stage.busy && this.stage.rounds.length > 0;
  }

  // The prompt's part of the page, which may load after the stage.
  get box() {
    return document.querySelector("#canopy-prompt:has(textarea)");
  }

  take(/** @type {Turns} */ turns) {
    this.turns = controls.turns = turns;
    this.draw();
  }

  // Only after a run that has ended.
  goOn() {
    const { header } = this.stage;
    if (!this.ready || !this.box || !header) return;
    this.take([...header.turns, ["user", header.prompt], ["assistant", textOf(this.stage)]]);
    type(field(), "");
    field().focus();
  }

  leave() {
    this.take([]);
    field().focus();
  }

  draw() {
    const { box, turns } = this;
    const asked = turns.filter(([role]) => role === "user").length;
    this.next.disabled = !this.ready;
    if (!box) return;
    if (this.mark.parentElement !== box) box.append(this.mark);
    this.mark.hidden = !turns.length;
    document.body.classList.toggle("canopy-in-turns", turns.length > 0);
    write(this.number, `Turn ${asked + 1}`);
  }
}
