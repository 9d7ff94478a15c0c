// The rig that answers, and loading another one on the server while the old one goes on answering.

import { action, button, html, put, write } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { controls } from "./controls.js";

const POLL_MS = 500;
const AWAY = "The server does not answer; trying again.";
const FORMS = "TARGET::DRAFTER, each a folder, a GGUF file or a Hugging Face model id (with @revision if needed); the "
  + "drafter may be ngram or mtp. Or a folder with a rig.json. Weights are read from safetensors and GGUF alone. "
  + "Or http://HOST:PORT, a running vLLM, SGLang or llama.cpp server; with #MODEL if it has several.";

export class Rigs {
  state = /** @type {RigState | null} */ (null);
  generation = 0; // of the rig that this page offers
  requestedHere = false; // whether this page asked for the rig that is being loaded
  refusal = "";
  timer = 0;
  button = /** @type {HTMLButtonElement | null} */ (null); // in the bar

  constructor(/** @type {Stage} */ stage, /** @type {Notices} */ notices) {
    this.stage = stage;
    this.notices = notices;
    this.sheet = new Sheet("The rig", "cs-rigs");
    const sheet = this.sheet.box;
    html("h2", "", sheet, "The rig that answers");
    this.currentLine = html("p", "cs-rig-now", sheet);
    this.aboutLine = html("p", "cs-rig-note", sheet);
    this.retryButton = action(sheet, "Retry", "Ask the server that did not answer once more", () => this.retry());
    html("p", "cs-rig-note", sheet, "A rig is a target model with its drafters. One rig answers everybody who has this page open.");
    html("h2", "", sheet, "Load another rig");
    this.disabledLine = html("p", "cs-rig-note", sheet);
    this.form = html("form", "cs-rig-form", sheet);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.requestedHere = true;
      this.refusal = "";
      if (this.state) this.state.failure = "";
      this.draw();
      this.ask("rig_choose", { rig: new FormData(this.form).get("canopy-rig") || this.customField.value });
    });
    const list = html("fieldset", "", this.form);
    html("legend", "cs-spoken", list, "Rig to load");
    this.rigList = html("div", "", list);
    const own = this.radio(list, "", "your own", FORMS);
    this.customField = html("input", { class: "cs-rig-typed", spellcheck: false, autocomplete: "off", placeholder: "Qwen/Qwen3-8B::/data/my-drafter",
      "aria-label": "Your own rig: TARGET::DRAFTER, or a folder" }, list);
    this.customField.addEventListener("input", () => { own.checked = true; });
    const row = html("div", "cs-rig-actions", this.form);
    this.loadButton = html("button", { class: "cs-rig-load", type: "submit" }, row, "Load");
    this.cancelButton = button(row, "Cancel", "Stop loading; the present rig goes on answering", () => this.ask("rig_cancel", {}));
    this.bar = html("progress", { "aria-label": "Loading progress" }, row);
    this.progress = html("p", { class: "cs-rig-progress", role: "status" }, this.form);
    this.meanwhile = html("p", "cs-rig-note", this.form);
    this.failure = html("p", { class: "cs-rig-failure", role: "alert" }, this.form);
    stage.on("state", () => {
      if (["done", "error"].includes(stage.state)) this.refresh();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    this.known = this.refresh(); // the state at first
    stage.on("scene compared", () => stage.comparison?.state !== "measuring" && this.refresh()); // meanwhile the cost of passes may have been measured
  }

  // The button in the bar that names the rig that answers.
  addOpener(/** @type {HTMLElement} */ parent) {
    this.button = action(parent, "Rig", "The rig that answers; load another one", () => this.open(), "cs-rig");
    this.button.setAttribute("aria-haspopup", "dialog");
    this.draw();
  }

  /** @param {HTMLElement} parent @param {string} value @param {string} name @param {string} note */
  radio(parent, value, name, note) {
    const label = html("label", "cs-rig-choice", parent);
    const input = html("input", { type: "radio", name: "canopy-rig", value }, label);
    const words = html("span", "", label);
    html("strong", "", words, name);
    html("span", "cs-rig-note", words, ` ${note}`);
    return input;
  }

  refresh() {
    return this.ask("rig_state", {});
  }

  /** A refusal stays beside the field until the next request.
   *  @param {"rig_state" | "rig_choose" | "rig_cancel" | "rig_retry"} name @param {object} query */
  async ask(name, query) {
    clearTimeout(this.timer);
    try {
      const answer = await this.stage.server?.[name](query);
      if (!answer) return;
      if (name !== "rig_state" || this.refusal === AWAY) this.refusal = "";
      if ("error" in answer) this.refusal = answer.error;
      else this.update(answer);
    } catch {
      this.refusal = AWAY;
    }
    this.draw();
    clearTimeout(this.timer);
    if (this.refusal === AWAY || this.state?.loading) this.timer = setTimeout(() => this.refresh(), POLL_MS);
  }

  update(/** @type {RigState} */ state) {
    const before = this.state;
    this.state = state;
    this.stage.emit("rigs");
    if (!before) {
      this.generation = state.generation;
      if (state.retry && state.failure) this.fail(state);
      return;
    }
    const ended = before.loading && !state.loading;
    if (before.first_load && !state.first_load) {
      // The page's first rig is loaded, or has failed to load: the page offers what the rig that answers can do.
      this.generation = state.generation;
      this.stage.emit("rigLoaded");
      if (state.failure) this.fail(state);
    } else if (state.generation !== this.generation) {
      // Another rig answers. While `first_load` is set, the first rig counts as loading.
      if (!state.first_load && this.requestedHere) controls.reload();
      else if (!state.first_load) this.notices.news.say(`${state.rig} answers now; this page still offers the methods and presets of the former rig.`, "Reload", () => controls.reload());
    } else if (ended && state.failure && this.requestedHere && !this.sheet.box.open) this.fail(state);
    if (!ended) return;
    this.requestedHere = false;
    if (state.failure) controls.promptToRun = null;
  }

  fail(/** @type {RigState} */ { failure, retry }) {
    if (retry) this.notices.news.say(failure, "Retry", () => this.retry());
    else this.notices.fail(failure);
  }

  // Asks the server that was to be the first rig once more.
  retry() {
    this.requestedHere = true;
    this.notices.news.say("");
    this.ask("rig_retry", {});
  }

  draw() {
    const { state } = this;
    if (!state) return;
    const { loading, first_load: firstRig, rig, retry } = state;
    if (this.button) write(this.button, loading ? `Rig: ${firstRig || rig}, loading …` : `Rig: ${rig}`);
    const flag = state.opened_as === state.rig ? "" : ` (--rig ${state.opened_as})`;
    write(this.currentLine, state.first_load ? `${state.first_load} is being loaded; runs wait for it.` : `${state.rig}, on ${state.hardware}${flag}`);
    write(this.aboutLine, state.first_load ? "" : state.reason || state.good_at);
    write(this.disabledLine, state.choice_disabled);
    this.form.hidden = Boolean(state.choice_disabled);
    this.disabledLine.hidden = !state.choice_disabled;
    if (!this.rigList.childElementCount) for (const { name, note } of state.named) this.radio(this.rigList, name, name, note);
    write(this.failure, this.refusal || state.failure);
    this.retryButton.hidden = !retry || Boolean(loading);
    write(this.retryButton, `Ask ${retry} again`);
    this.loadButton.disabled = Boolean(loading);
    this.cancelButton.hidden = this.bar.hidden = !loading;
    put(this.bar, { value: loading?.share ?? null });
    write(this.progress, loading ? `${loading.name}: ${loading.message}` : "");
    write(this.meanwhile, loading && !firstRig ? `Until it is ready, ${rig} goes on answering; what is measured meanwhile may come out slower.` : "");
  }

  open() {
    this.refresh();
    this.sheet.open(this.form.querySelector("input:checked"));
  }
}

// The caveat beside every text of the embedded model, and prompts that it answers right, one click away. For a prompt
// unlike those that it was trained on, another rig is offered.
const EMBEDDED = "demo"; // what the rig is opened by
const LARGER = "smollm2";

/** @param {Stage} stage @param {HTMLElement} frame of the text @param {Rigs | null} rigs @param {VettedPrompt[]} vetted
 *  @param {(asked: VettedPrompt) => void} ask runs one of them */
export function modelLine(stage, frame, rigs, vetted, ask) {
  const box = html("p", "cs-model");
  frame.querySelector(".cs-body").after(box);
  const words = html("span", "", box);
  const tries = html("span", "cs-tries", box, "It gets these right: ");
  for (const prompt of vetted) button(tries, prompt.label, `Run: ${prompt.prompt}`, () => ask(prompt));
  const draw = () => {
    const limit = stage.about.model_limit ?? "";
    box.hidden = !limit;
    write(words, limit);
    tries.hidden = !vetted.length || rigs?.state?.opened_as !== EMBEDDED;
  };
  stage.on("lines run rigLoaded rigs", draw);
  draw();
}

/** The way out of a prompt that the embedded rig was not trained for: the same prompt, answered by a larger rig.
 *  @param {Stage} stage @param {Notices} notices @param {Rigs} rigs */
export function suggestRig(stage, notices, rigs) {
  stage.on("lines run rigs", () => {
    const { about, header, recorded } = stage;
    const { state } = rigs;
    const open = state && !state.choice_disabled && state.opened_as === EMBEDDED && state.named.some(({ name }) => name === LARGER);
    if (!header || !about.outside || recorded) return notices.outside.say("");
    notices.outside.say(header.note, open ? `Answer it with ${LARGER}` : "", () => {
      controls.promptToRun = header.prompt; // the page reloads once that rig answers, and runs the prompt by itself
      rigs.requestedHere = true;
      rigs.ask("rig_choose", { rig: LARGER });
      notices.brief(`${LARGER} is being loaded; this prompt runs again as soon as it is ready.`);
    });
  });
}
