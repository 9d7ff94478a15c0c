// The bridge to the controls of the bar: the budget's steps, what the address restores, what Stop does in the browser.

import { action, html, pause, write } from "../panels/ink.js";
import { Address } from "./address.js";
import { TokenReader } from "./round.js";

const PROMPT = "canopy-prompt";
const TURNS = "canopy-turns";
const AGAIN = "canopy-again";
const ON = "canopy-on";
const KEPT = "canopy-kept";
const LOOKS = 100; // at the bar, until it is as it was asked to be
const BETWEEN_LOOKS_MS = 100;

// What outlives a reload of the page; null forgets it.
function store(name, value) {
  if (value === null) sessionStorage.removeItem(name);
  else sessionStorage.setItem(name, value);
}

function taken(name) {
  const value = sessionStorage.getItem(name);
  store(name, null);
  return value;
}

const field = () => document.querySelector("#canopy-prompt textarea");

// As if it had been typed.
function type(input, value) {
  if (!input) return;
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

const SERVED = "served"; // the method of an attached server
const DECIDED = ["steps", "budget", "pace", "split", "drafters"]; // what its own command line sets

export const controls = {
  parts: null, // of the page, once it is put together
  turns: [], // before the prompt: they go along with the next run
  carried: taken(PROMPT), // the prompt as it stood when the page reloaded itself, else null
  kept: JSON.parse(taken(KEPT)), // the run that was shown when the server was lost, else null
  goesOn: taken(ON), // what the first page was doing when this one took its place: "runs", "plays", or null
  budgetOf: (step) => (step <= 0 ? 0 : 2 ** (step - 1)),
  // The slider's step nearest to a budget: 0 for a budget of 0, else one more than its base-2 logarithm.
  stepOf(budget) {
    const most = Number(document.querySelector("#canopy-steps input[type=range]").max);
    return budget >= 1 ? Math.min(most, Math.round(Math.log2(budget)) + 1) : 0;
  },

  note(method, budget, pace) {
    if (!controls.parts) return;
    const { stage } = controls.parts;
    stage.settings = { method, budget, pace };
    document.body.dataset.canopyMethod = method;
    for (const name of DECIDED) {
      const field = document.getElementById(`canopy-${name}`);
      if (field) field.title = method === SERVED ? "The attached server drafts as it was started; this has no effect on it." : "";
    }
    stage.tell("settings");
  },

  // The values that method, budget, prompt and step have to take when the page opens.
  restore(method, budget, prompt) {
    const asked = Address.opened;
    document.querySelector("#canopy-preset input").placeholder = "Pick a prompt …"; // Gradio's list takes none
    const wanted = [asked.method || method, asked.budget === null ? budget : asked.budget];
    controls.note(...wanted);
    if (controls.parts) controls.parts.conversation.draw(); // the prompt is here now, whichever came first
    return [...wanted, controls.carried ?? controls.restored() ?? prompt, controls.stepOf(wanted[1])];
  },

  // Puts a node budget into the bar.
  setBudget: (budget) => type(document.querySelector("#canopy-budget input"), budget),

  // What Run sends: the bar's values, the first of which is the prompt, the last replaced by the turns.
  asked(values) {
    controls.parts.stage.ask(values[0], controls.turns);
    return [...values.slice(0, -1), controls.turns];
  },

  // Reloads the page, with the prompt as it stands and the turns before it.
  reload() {
    const again = sessionStorage.getItem(AGAIN);
    controls.keep(null, null);
    if (again) {
      store(PROMPT, again);
      window.history.replaceState(null, "", `#mode=${controls.parts.stage.mode}&method=ddtree`);
    }
    window.location.reload();
  },

  // The call of Run has ended, whatever came of it: where the server refused it, no run will come.
  async over() {
    const { stage } = controls.parts;
    const { coming } = stage;
    await pause(5 * BETWEEN_LOOKS_MS);
    if (coming && coming === stage.coming) stage.refuse("The server did not take this run; press Run again.");
  },

  // What the page is to have when it is loaded again; a run that is too large for the browser's store is let go.
  keep(run, goesOn) {
    store(PROMPT, field().value);
    store(TURNS, JSON.stringify(controls.turns));
    if (goesOn) store(ON, goesOn);
    try {
      if (run) store(KEPT, JSON.stringify(run));
    } catch {
      store(KEPT, null);
    }
  },

  // From the first page to this one: the prompt if one was typed, and what goes on.
  handOver(prompt, goesOn) {
    if (prompt !== null) store(PROMPT, prompt);
    if (goesOn) store(ON, goesOn);
    window.location.reload();
  },

  // The prompt of the run that the address brought back, where that was here before the bar.
  restored() {
    const { stage } = controls.parts || {};
    const { trace } = Address.opened;
    return stage && trace && stage.value.run === trace && stage.header ? stage.header.prompt : null;
  },

  keptTurns() {
    return JSON.parse(taken(TURNS) || "[]");
  },

  // Presses Run as soon as the bar holds that prompt, and never if it does not come to. A run that is asked for
  // `early` waits in the queue for the page's first rig.
  async runWhen(prompt, pace, early) {
    for (let look = 0; look < LOOKS; look++) {
      await pause(BETWEEN_LOOKS_MS);
      const { rigs } = controls.parts || {};
      const paced = !pace || document.querySelector("#canopy-pace input").value === pace;
      const ready = field()?.value === prompt && paced && rigs && rigs.state && (early || !rigs.state.coming);
      if (ready) return document.querySelector("#canopy-run").click();
    }
    return undefined;
  },

  // The prompt that the page runs by itself after it has reloaded; null for none.
  askAfterReload: (prompt) => store(AGAIN, prompt),

  // In full, because auto would first time passes of the new rig.
  async askAgain(adopt) {
    const prompt = taken(AGAIN);
    if (!prompt) return;
    await controls.first();
    adopt({ prompt, method: "ddtree", budget: 16, temperature: 0, pace: "fixed", drafters: [] });
    controls.runWhen(prompt, "in full");
  },

  // The bar's values have been restored as the page opened, and what the rig can do has arrived.
  async first() {
    const there = () => controls.parts && controls.parts.ready && controls.parts.rigs.state && !controls.parts.rigs.state.coming;
    for (let look = 0; look < LOOKS && !there(); look++) await pause(BETWEEN_LOOKS_MS);
    await pause(5 * BETWEEN_LOOKS_MS);
  },

  // The run ends on the server; what has arrived stays.
  stop() {
    if (controls.parts) controls.parts.stage.halt();
  },
};

// The conversation: the turns before the prompt, which are sent with the next run. Continue turns a finished run into
// turns before the next prompt; a recording that is opened brings its own turns, mostly none.
const GO_ON = "Continue the conversation: the prompt and this text become turns before your next prompt (c)";

// What was written so far, as one text.
function answer({ rounds, pieces }) {
  const reader = new TokenReader(pieces);
  return rounds.flatMap((made) => made.keep.map((node) => reader.read(made.tokens[node]))).join("") + reader.end();
}

export class Conversation {
  constructor(stage, frame) {
    this.stage = stage;
    this.next = action(frame, "Continue", GO_ON, () => this.goOn(), "cs-continue");
    this.mark = html("div", "cs-turn");
    this.place = html("span", { class: "cs-turn-place", role: "status" }, this.mark);
    this.number = html("span", "", this.place);
    html("span", "cs-turn-more", this.place, " of a conversation");
    action(this.mark, "Start afresh", "Forget the earlier turns: the next run begins a new conversation", () => this.leave());
    stage.on("state mode", () => this.draw());
    this.take(controls.keptTurns());
  }

  get ready() {
    return this.stage.mode === "workbench" && !this.stage.busy && this.stage.rounds.length > 0;
  }

  // The prompt's part of the page, which may load after the stage.
  get box() {
    return document.querySelector("#canopy-prompt:has(textarea)");
  }

  take(turns) {
    this.turns = controls.turns = turns;
    this.draw();
  }

  // Only after a run that has ended.
  goOn() {
    if (!this.ready || !this.box) return;
    const { header } = this.stage;
    this.take([...header.turns, ["user", header.prompt], ["assistant", answer(this.stage)]]);
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
