// The conversation: the turns before the prompt, which are sent with the next run. In the story the next prompt is the next
// turn; in the workbench Continue says so, because there the same prompt runs with many settings. A recording that is
// opened brings its own turns, mostly none.

import { action, html, write } from "../shared/ink.js";
import { textOf } from "../shared/round.js";
import { controls, promptField, typeInto } from "./controls.js";

const GO_ON = "Continue the conversation: the prompt and this text become turns before your next prompt (c)";

export class Conversation {
  awaitsAnswer = false; // whether a run that was started on this page has not ended its turn
  nextBeside = /** @type {RunPoint | null} */ (null); // the answer beside which the next run is shown

  constructor(/** @type {Stage} */ stage, /** @type {HTMLElement} */ tools) {
    this.stage = stage;
    this.continueButton = action(tools, "Continue", GO_ON, () => this.continueConversation(), "cs-continue");
    tools.prepend(this.continueButton);
    this.turnMark = html("div", "cs-turn");
    this.turnLabel = html("span", { class: "cs-turn-place", role: "status" }, this.turnMark);
    action(this.turnMark, "New conversation", "Leave the earlier turns behind: the next run begins another conversation", () => {
      this.setTurns([]);
      promptField().focus();
    });
    stage.on("requested", () => {
      this.awaitsAnswer = true;
      this.setOtherAnswer(this.nextBeside);
      this.nextBeside = null;
    });
    stage.on("opened refused cancelled serverLost", () => {
      this.awaitsAnswer = false;
      this.setOtherAnswer(null);
    });
    stage.on("state", () => { // in the story a turn is over when its run has ended; what is typed meanwhile is the next prompt
      if (!this.awaitsAnswer || stage.busy || !["done", "stopped"].includes(stage.value.state)) return;
      this.awaitsAnswer = false;
      if (stage.mode === "story" && !controls.presetWaits) this.advance();
    });
    stage.on("state mode", () => this.draw());
    stage.on("editPrompt", ({ turns, prompt }) => this.editTurn(turns, prompt));
    stage.on("answerAgain", ({ point, options }) => this.answer(point, options));
    this.draw();
  }

  get canContinue() {
    return this.stage.mode === "workbench" && !this.stage.busy && this.stage.rounds.length > 0;
  }

  setTurns(/** @type {Turns} */ turns) {
    controls.turns = turns;
    this.draw();
  }

  setOtherAnswer(/** @type {RunPoint | null} */ point) {
    this.stage.otherAnswer = point;
    this.stage.emit("otherAnswer");
  }

  // Only after a run that has ended.
  continueConversation() {
    if (!this.canContinue || !promptField()) return;
    this.advance();
    promptField().focus();
  }

  // The prompt and its answer become turns before the next prompt.
  advance() {
    const { stage, stage: { header } } = this;
    if (!header) return;
    this.setTurns([...header.turns, ["user", header.prompt], ["assistant", textOf(stage.run)]]);
    if (promptField()?.value === header.prompt) typeInto(promptField(), "");
  }

  /** Puts a prompt into the bar as the turn after these. @param {Turns} turns @param {string} prompt */
  editTurn(turns, prompt) {
    this.setTurns(turns);
    typeInto(promptField(), prompt);
    promptField().focus();
  }

  /** The same turn once more, beside its answer; without options, with those of the bar.
   *  @param {RunPoint} point @param {Setting | null} options */
  answer(point, options) {
    const { stage } = this;
    const { prompt = "", options: { turns = [] } = {} } = point;
    if (stage.busy) return;
    this.nextBeside = point;
    controls.parts?.runs?.tick(point.run, true, true);
    if (options) return controls.start({ ...options, prompt, turns });
    this.editTurn(turns, prompt);
    controls.runWhen(prompt);
  }

  draw() {
    const box = promptField()?.closest("#canopy-prompt"); // it may load after the stage
    const { turns } = controls;
    const questions = turns.filter(([role]) => role === "user").length;
    this.continueButton.disabled = !this.canContinue;
    if (!box) return;
    if (this.turnMark.parentElement !== box) box.append(this.turnMark);
    this.turnMark.hidden = !turns.length;
    document.body.classList.toggle("canopy-in-turns", turns.length > 0);
    write(this.turnLabel, `Turn ${questions + 1} of this conversation`);
    promptField().placeholder = questions ? "Next turn …" : "Ask something …";
  }
}
