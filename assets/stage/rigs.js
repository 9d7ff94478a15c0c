// The rig that answers, and loading another one on the server while the old one goes on answering.

import { action, button, html, write } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { controls } from "./controls.js";

const BETWEEN_LOOKS_MS = 500;
const AWAY = "The server does not answer; trying again.";
const FORMS = "TARGET::DRAFTER, each a folder or a Hugging Face model id (with @revision if needed); the target may be "
  + "a GGUF file, the drafter ngram. Or a folder with a rig.json. Weights are read from safetensors and GGUF alone. "
  + "Or http://HOST:PORT, a running vLLM, SGLang or llama.cpp server; with #MODEL if it has several.";

export class Rigs {
  constructor(stage, notices) {
    this.stage = stage;
    this.notices = notices;
    this.state = null;
    this.mine = false; // whether this page asked for the rig that is being loaded
    this.sheet = new Sheet("The rig", "cs-rigs");
    this.build(this.sheet.box);
    stage.on("state", () => {
      if (["done", "error"].includes(stage.state)) this.look();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    this.look();
  }

  // The button in the bar that names the rig that answers.
  opener(parent) {
    this.button = action(parent, "Rig", "The rig that answers; load another one", () => this.open(), "cs-rig");
    this.button.setAttribute("aria-haspopup", "dialog");
    this.draw();
  }

  build(sheet) {
    html("h2", "", sheet, "The rig that answers");
    this.now = html("p", "cs-rig-now", sheet);
    this.good = html("p", "cs-rig-note", sheet);
    this.again = action(sheet, "Retry", "Ask the server that did not answer once more", () => this.retry());
    html("p", "cs-rig-note", sheet, "A rig is a target model with its drafters. One rig answers everybody who has this page open.");
    html("h2", "", sheet, "Load another rig");
    this.closed = html("p", "cs-rig-note", sheet);
    this.form = html("form", "cs-rig-form", sheet);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.choose();
    });
    this.list = html("fieldset", "", this.form);
    html("legend", "cs-spoken", this.list, "Rig to load");
    this.fields();
    this.actions();
  }

  fields() {
    this.named = html("div", "", this.list);
    const own = this.radio(this.list, "", "your own", FORMS);
    this.typed = html("input", { class: "cs-rig-typed", type: "text", spellcheck: false, autocomplete: "off",
      placeholder: "Qwen/Qwen3-8B::/data/my-drafter", "aria-label": "Your own rig: TARGET::DRAFTER, or a folder" }, this.list);
    this.typed.addEventListener("input", () => { own.checked = true; });
  }

  radio(parent, value, name, note) {
    const label = html("label", "cs-rig-choice", parent);
    const input = html("input", { type: "radio", name: "canopy-rig", value }, label);
    const words = html("span", "", label);
    html("strong", "", words, name);
    html("span", "cs-rig-note", words, ` ${note}`);
    return input;
  }

  actions() {
    const row = html("div", "cs-rig-actions", this.form);
    this.load = html("button", { class: "cs-rig-load", type: "submit" }, row, "Load");
    this.cancel = button(row, "Cancel", "Stop loading; the present rig goes on answering", () => this.ask("rig_cancel", {}));
    this.bar = html("progress", { "aria-label": "Loading progress" }, row);
    this.said = html("p", { class: "cs-rig-said", role: "status" }, this.form);
    this.meanwhile = html("p", "cs-rig-note", this.form);
    this.failure = html("p", { class: "cs-rig-failure", role: "alert" }, this.form);
  }

  choose() {
    const chosen = this.form.querySelector("input[type=radio]:checked");
    this.mine = true;
    this.refusal = "";
    this.state = { ...this.state, failure: "" };
    this.draw();
    this.ask("rig_choose", { rig: (chosen && chosen.value) || this.typed.value });
  }

  look() {
    return this.ask("rig_state", {});
  }

  // A refusal stays beside the field until the next request.
  async ask(name, wanted) {
    clearTimeout(this.timer);
    try {
      const answer = await this.stage.server[name](wanted);
      if (answer.error === undefined) this.take(answer);
      if (name !== "rig_state" || answer.error !== undefined) this.refusal = answer.error || "";
    } catch {
      this.refusal = AWAY;
    }
    this.draw();
    clearTimeout(this.timer);
    if (this.refusal === AWAY || (this.state && this.state.loading)) this.timer = setTimeout(() => this.look(), BETWEEN_LOOKS_MS);
  }

  take(state) {
    const before = this.state;
    this.state = state;
    this.stage.tell("rigs");
    if (this.refusal === AWAY) this.refusal = "";
    if (!before) {
      this.first = state.changes;
      this.offerRetry();
      return;
    }
    const ended = before.loading && !state.loading;
    if (before.coming && !state.coming) this.arrived();
    else if (state.changes !== this.first) this.changed();
    else if (ended && state.failure && this.mine && !this.sheet.box.open) this.fail();
    if (ended) this.ended(state.failure);
  }

  ended(failure) {
    this.mine = false;
    if (failure) controls.again = null;
  }

  // The page's first rig is loaded, or has failed to load: the page offers what the rig that answers can do.
  arrived() {
    this.first = this.state.changes;
    this.stage.tell("rig");
    if (this.state.failure) this.fail();
  }

  fail() {
    if (this.state.retry) this.offerRetry();
    else this.notices.fail(this.state.failure);
  }

  offerRetry() {
    const { failure, retry } = this.state;
    if (retry && failure) this.notices.news.say(failure, "Retry", () => this.retry());
  }

  // Asks the server that was to be the first rig once more.
  retry() {
    this.mine = true;
    this.notices.news.say("");
    this.ask("rig_retry", {});
  }

  // Another rig answers: the page that asked for it reloads, other pages get a notice. The first rig counts as loading
  // while the state names it as coming, even if it already answers.
  changed() {
    if (this.state.coming) return;
    if (this.mine) controls.reload();
    else this.notices.news.say(`${this.state.rig} answers now; this page still offers the methods and presets of the former rig.`,
      "Reload", () => controls.reload());
  }

  draw() {
    const { state } = this;
    if (!state) return;
    const { loading } = state;
    if (this.button) write(this.button, loading ? `Rig: ${state.coming || state.rig}, loading …` : `Rig: ${state.rig}`);
    const opened = state.opened === state.rig ? "" : ` (--rig ${state.opened})`;
    write(this.now, state.coming ? `${state.coming} is being loaded; runs wait for it.` : `${state.rig}, on ${state.hardware}${opened}`);
    write(this.good, state.coming ? "" : state.reason || state.good_at);
    write(this.closed, state.closed);
    this.form.hidden = Boolean(state.closed);
    this.closed.hidden = !state.closed;
    if (!this.named.childElementCount) for (const { name, note } of state.named) this.radio(this.named, name, name, note);
    this.drawLoading(state);
    write(this.failure, this.refusal || state.failure);
  }

  drawLoading({ loading, coming, rig, retry }) {
    this.again.hidden = !retry || Boolean(loading);
    this.load.disabled = Boolean(loading);
    this.cancel.hidden = this.bar.hidden = !loading;
    if (loading && loading.share !== null) this.bar.value = loading.share;
    else this.bar.removeAttribute("value");
    write(this.said, loading ? `${loading.name}: ${loading.message}` : "");
    write(this.meanwhile, loading && !coming ? `Until it is ready, ${rig} goes on answering; what is measured meanwhile may come out slower.` : "");
  }

  open() {
    this.look();
    this.sheet.open(this.form.querySelector("input:checked"));
  }
}

// The caveat beside every text of the embedded model, and prompts that it answers right, one click away. For a prompt
// unlike those that it was trained on, another rig is offered.
const EMBEDDED = "demo"; // what the rig is opened by
const LARGER = "smollm2";

export class ModelLine {
  // `right`: {label, prompt, method, budget, temperature} each; `ask` runs one.
  constructor(stage, frame, rigs, right, ask) {
    this.stage = stage;
    this.box = html("p", "cs-model");
    frame.querySelector(".cs-body").after(this.box);
    this.words = html("span", "", this.box);
    this.tries = html("span", "cs-tries", this.box, "It gets these right: ");
    for (const { label, ...asked } of right) {
      button(this.tries, label, `Run: ${asked.prompt}`, () => ask(asked));
    }
    this.right = right;
    this.rigs = rigs;
    stage.on("value begin rig rigs", () => this.draw());
    this.draw();
  }

  draw() {
    const said = this.stage.about.model_limit || "";
    this.box.hidden = !said;
    write(this.words, said);
    const { rigs } = this;
    this.tries.hidden = !this.right.length || !rigs || !rigs.state || rigs.state.opened !== EMBEDDED;
  }
}

// The way out of a prompt that the embedded rig was not trained for: the same prompt, answered by a larger rig.
export class WayOut {
  constructor(stage, notices, rigs) {
    this.stage = stage;
    this.notices = notices;
    this.rigs = rigs;
    stage.on("value begin rigs", () => this.draw());
  }

  draw() {
    const { about, header, recorded } = this.stage;
    const outside = header && about.outside && !recorded;
    const { state } = this.rigs || {};
    const open = outside && state && !state.closed && state.opened === EMBEDDED && state.named.some(({ name }) => name === LARGER);
    this.notices.outside.say(outside ? header.note : "", open ? `Answer it with ${LARGER}` : "", () => this.leave(header.prompt));
  }

  // The page reloads once that rig answers, and runs the prompt by itself.
  leave(prompt) {
    controls.again = prompt;
    this.rigs.mine = true;
    this.rigs.ask("rig_choose", { rig: LARGER });
    this.notices.brief(`${LARGER} is being loaded; this prompt runs again as soon as it is ready.`);
  }
}
