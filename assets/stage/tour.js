// The tour's texts: what to look at, what it means, and something to try; `over` is a part that this does not need, and
// which the card may cover; `atEnd` shows the last round, and so the whole text.

import { button, html, write } from "../shared/ink.js";

const STEPS = [
  { mode: "story", at: ".cs-story", title: "One pass, many tokens",
    text: "A language model usually writes one token (a word or a piece of one) per pass. Here a drafter, a small model or a table of phrases, guesses ahead; the big model, the target, checks all guesses at once and keeps those that it would have written itself.",
    over: ".cs-frame-text", exercise: "Press ▶, or tap a bar of the timeline. Which round kept most?" },
  { mode: "story", at: ".cs-frame-text", title: "Where each token came from", atEnd: true,
    text: "Purple tokens are the target's own. Each drafter's guesses have its colour, which the legend names; green ones were guessed by two. A bar marks where a round begins.",
    exercise: "Tap a token in the middle of the text: the page goes to the round that wrote it." },
  { mode: "workbench", at: "[data-panel=tree]", title: "The draft tree",
    text: "Guesses share their beginnings, so they form a tree. The accepted path runs straight along the top and ends in the bonus, a diamond: the target's own next token.",
    over: ".cs-frame-text", exercise: "In the field under the timeline, find a token that was rejected. How deep was it in the tree?" },
  { mode: "workbench", at: "[data-panel=marginals]", title: "Why this tree",
    text: "Each drafter gives probabilities for every position ahead. The node budget is spent on the most probable beginnings; the outline shows where it ran out. If a guess depends on the one before it, ink joins the two; point at one to see what it changes.",
    exercise: "Set the budget to 8 and press Run, then 256. Where does the outline move?" },
  { mode: "workbench", at: "[data-panel=mask]", title: "One pass over all branches",
    text: "The tree is verified as one sequence. The mask lets each row see its own ancestors and nothing else; with merged, two blocks stand side by side.",
    exercise: "Run the method merged and find the two empty blocks off the diagonal." },
  { mode: "workbench", at: "[data-panel=verifier]", title: "The walk",
    text: "At each node the target names its own next token. If a child carries it, the walk goes on; if none does, that token is the bonus and the round ends.",
    over: ".cs-frame-text", exercise: "Find a step with a small gap: there the model nearly chose otherwise." },
  { mode: "workbench", at: "[data-panel=cache]", title: "What stays",
    text: "The pass wrote a row of the KV cache for every node. The rows of the accepted path are moved together and kept; all others are dropped.",
    over: ".cs-frame-text", exercise: "Point at a kept row, or tap it, and find the same node in the tree and in the mask." },
  { mode: "workbench", at: "[data-panel=budget]", title: "Is it worth it?",
    text: "τ is the mean number of tokens per round, the root included. A larger tree raises τ, but each pass takes longer, so one budget is the fastest.",
    over: ".cs-frame-text", exercise: "Drag along the panel Budget: the tree follows, and τ hardly grows beyond some size. What a pass costs here is measured after a run of your own: press Run, and the panel shows where tokens per second fall." },
  { mode: "lab", at: ".lab-sweep", title: "The fastest setting here",
    text: "The lab measures methods and node budgets on this machine, in mixed order beside plain decoding, and names the fastest with its interval. With the budget auto, each round verifies as many nodes as pay.",
    exercise: "Press ▶ Measure and watch the points arrive. Is auto the fastest?" },
];

// The tour: a card beside the part it speaks of, where the style sheet puts it. It can be left at any step; where it was
// left is remembered.
const STORE = "canopy-tour";

export class Tour {
  step = 0;

  constructor(/** @type {Parts} */ parts) {
    this.parts = parts;
    this.box = html("div", { class: "cs-tour", popover: "manual", role: "dialog", "aria-label": "Tour" }, document.body);
    this.title = html("h2", "", this.box);
    this.text = html("p", "", this.box);
    this.exercise = html("p", "cs-exercise", this.box);
    const foot = html("footer", "", this.box);
    this.stepLabel = html("span", "", foot);
    button(foot, "Leave", "Leave the tour (Esc)", () => this.stop());
    this.backButton = button(foot, "Back", "Previous step", () => this.go(this.step - 1));
    this.nextButton = button(foot, "Next", "Next step", () => this.go(this.step + 1));
  }

  // From where it was left; a tour that was finished starts over.
  async start() {
    const left = Number(localStorage.getItem(STORE)) || 0;
    await this.go(left < STEPS.length ? left : 0);
    this.nextButton.focus();
    this.parts.runs?.toggle(false);
  }

  // Over the rig's first recording: a person's run, which an exercise asks for, is over with the next step.
  async go(/** @type {number} */ step) {
    const { stage, recordings, rigs, player } = this.parts;
    localStorage.setItem(STORE, String(step));
    if (step >= STEPS.length) return this.stop();
    player.pause();
    const toured = recordings.firstOf(rigs?.state?.rig ?? "") || recordings.opening;
    if (toured && (stage.value.run !== toured || stage.pending)) {
      if (stage.busy) document.querySelector("#canopy-stop").click();
      await recordings.open(toured, { still: true });
    }
    const { mode, at, atEnd, over, title, text, exercise } = STEPS[step];
    if (!this.isOpen || atEnd || STEPS[this.step].atEnd) player.go(atEnd ? stage.rounds.length - 1 : 0, {});
    this.step = step;
    stage.setMode(mode);
    write(this.title, title);
    write(this.text, text);
    write(this.exercise, `Try it: ${exercise}`);
    write(this.stepLabel, `${step + 1} of ${STEPS.length}`);
    write(this.nextButton, step === STEPS.length - 1 ? "Done" : "Next");
    this.backButton.hidden = step === 0;
    this.box.showPopover();
    this.highlight(document.querySelector(at), over);
  }

  // The card stands beside what is marked, or over another part.
  highlight(/** @type {HTMLElement | null} */ part, over = "") {
    this.box.classList.toggle("is-over", Boolean(over));
    document.querySelector(".cs-tour-place")?.classList.remove("cs-tour-place");
    if (over) document.querySelector(over)?.classList.add("cs-tour-place");
    document.querySelector(".cs-toured")?.classList.remove("cs-toured");
    part?.classList.add("cs-toured");
    part?.scrollIntoView({ block: "nearest" });
  }

  get isOpen() {
    return this.box.matches(":popover-open");
  }

  // True if there was a tour to leave.
  stop() {
    const { isOpen: open } = this;
    this.box.hidePopover();
    this.highlight(null);
    return open;
  }
}
