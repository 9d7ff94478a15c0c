// What to measure, and how far the measurement is: the form, the progress with the time left, pause, stop, resume.

import { Chips, field, fillSelect, foldIn, selectField, showLine } from "./forms.js";
import { METHODS } from "../methods.js";
import { WORDS } from "./plots.js";
import { action, button, html, write } from "../shared/ink.js";
import { counted } from "../shared/round.js";
import { send } from "../stage/save.js";

const MAX_FILE_MIB = 8; // as on the server
/** @type {Record<string, string>} */
export const STATES = {
  none: "", queued: "waiting", running: "measuring", paused: "paused", stopped: "stopped", done: "done", error: "ended by an error",
};

export class Sweep {
  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.box = html("section", { class: "lab-card lab-sweep", "aria-label": "Measure" }, parent);
    this.plan = html("p", "lab-plan", this.box);
    this.row = html("div", "lab-row", this.box);
    this.start = action(this.row, "▶ Measure", "Measure these settings one at a time, in mixed order", () => this.begin(), "lab-primary");
    this.pause = action(this.row, "❚❚ Pause", "Finish the current run, then free the machine for others", () => this.control("pause"));
    this.resume = action(this.row, "▶ Resume", "Go on where it stopped", () => this.control("resume"), "lab-primary");
    this.stop = action(this.row, "■ Stop", "Finish the current run, then end; what was measured is kept", () => this.control("stop"));
    this.progressBox = html("div", "lab-progress", this.box);
    this.bar = html("progress", { "aria-label": "Progress of the measurement" }, this.progressBox);
    this.progressLine = html("p", { class: "lab-said", role: "status" }, this.progressBox);
    this.error = html("p", { class: "lab-error", role: "alert", hidden: true }, this.box);

    const { methods, budgets, concurrency, limits, defaults } = lab.setup;
    const changed = () => this.drawPlan();
    this.details = foldIn(this.box, "Choose what to measure", "lab-form");
    this.methods = /** @type {Chips<string>} */ (new Chips(this.details, "Methods", changed));
    this.methods.addMethods(methods, defaults.methods);
    this.budgets = new Chips(this.details, "Node budgets", changed);
    for (const budget of budgets) this.budgets.add(budget, { on: defaults.budgets.includes(budget), title: WORDS[budget] });
    field("input", this.details, "Other budgets", {
      type: "text", placeholder: "e.g. 24, 48, 96", title: `Whole numbers from 0 to ${limits.budget}; Enter adds them`,
    }, (other) => this.addBudgets(other));
    this.concurrency = /** @type {Chips<number>} */ (new Chips(this.details, "Concurrency", changed));
    for (const count of concurrency) {
      const title = count > 1 ? `${count} requests share every forward pass; a run writes ${count} texts` : "One request alone";
      this.concurrency.add(count, { on: defaults.concurrency.includes(count), title });
    }
    /** @param {Element} row @param {string} label @param {number} value @param {number} min @param {number} max @param {string} title */
    const number = (row, label, value, min, max, title, step = 1) => (
      field("input", row, label, { type: "number", value, min, max, step, title }, changed));
    const prompts = html("div", "lab-row", this.details);
    this.set = selectField(prompts, "Prompts", "The prompts that every setting answers", changed);
    this.promptCount = number(prompts, "How many", defaults.prompts, 1, limits.prompts, "How many, from the first; intervals need at least six");
    const file = html("input", { type: "file", hidden: true, accept: ".jsonl,.json,.txt", "aria-label": "A prompt file" }, this.details);
    file.addEventListener("change", () => this.upload(file));
    button(this.details, "Upload prompts …", "A JSONL file: each line has a “prompt”, or “turns” (the first is used)", () => file.click());
    const more = html("div", "lab-row", this.details);
    this.repeats = number(more, "Repeats", defaults.repeats, 1, limits.repeats, "How many times every setting answers every prompt");
    this.temperature = number(more, "Temperature", defaults.temperature, 0, limits.temperature, "0: always the most probable token", 0.1);
    this.tokens = number(more, "Max tokens", defaults.max_tokens, 1, limits.max_tokens, "The most tokens that an answer may have");
    this.split = selectField(more, "Merged budget", "With merged, both drafters share the budget, or each gets all of it", changed);
    fillSelect(this.split, [["total", "shared"], ["each", "full for each"]]);
    this.sets = lab.setup.sets;
    this.fillSets(defaults.set);

    lab.on("progress", () => this.draw());
    lab.on("table", () => this.drawPlan());
    this.drawPlan();
  }

  fillSets(/** @type {string} */ chosen) {
    const { sets } = this;
    fillSelect(this.set, sets.map(({ name, title, count }) => [name, `${title} (${count})`]), chosen);
  }

  addBudgets(/** @type {HTMLInputElement} */ field) {
    const { budget: maxBudget, items } = this.lab.setup.limits;
    const words = field.value.split(/[\s,;]+/).filter(Boolean);
    const wrong = words.find((word) => !/^\d{1,9}$/.test(word) || Number(word) > maxBudget);
    const { size } = new Set([...this.budgets.values, ...words.map(Number)]);
    if (wrong) return this.fail(`“${wrong}” is not a node budget; write whole numbers from 0 to ${maxBudget}, for example 24, 48.`);
    if (size > items) return this.fail(`${size} node budgets would be ticked; at most ${items} are taken, so write fewer.`);
    for (const word of words) this.budgets.add(Number(word), { on: true });
    field.value = "";
    this.fail("");
    this.drawPlan();
  }

  async upload(/** @type {HTMLInputElement} */ input) {
    const file = input.files?.[0];
    input.value = "";
    if (!file) return;
    const { upload, error } = await send(async (piece) => ({ upload: "", ...await this.lab.ask("lab_upload", piece) }), file, MAX_FILE_MIB);
    const answer = error ? { error } : await this.lab.ask("lab_prompts", { name: file.name, upload });
    if (this.refused(answer)) return;
    this.sets = answer.sets;
    this.fillSets(answer.chosen);
    this.drawPlan();
  }

  get query() {
    return {
      methods: this.methods.values, budgets: this.budgets.values, concurrency: this.concurrency.values, split: this.split.value,
      set: this.set.value, prompts: this.promptCount.value, repeats: this.repeats.value, temperature: this.temperature.value,
      max_tokens: this.tokens.value,
    };
  }

  // Writes how many runs the form asks for, and how long they take; the server decides whether they can be made.
  drawPlan() {
    const secondsPerRun = this.lab.results.seconds_per_run; // of the chosen measurement
    const { methods, budgets, concurrency } = this.query;
    const drafting = methods.filter((method) => METHODS[method]?.drafts !== false).length;
    const singleSettings = drafting * budgets.length + methods.length - drafting;
    const reference = concurrency.includes(1) ? 0 : 1; // plain decoding of one request, whose texts the others are compared with
    const settings = concurrency.length * singleSettings + reference;
    const texts = concurrency.reduce((sum, count) => sum + (count + 1) / 2, 0) * singleSettings + reference; // in runs of one request
    const set = this.sets.find(({ name }) => name === this.set.value) || { count: 0 };
    const prompts = Math.min(set.count, Number(this.promptCount.value) || 0);
    const runs = settings * prompts * (Number(this.repeats.value) || 0);
    const time = secondsPerRun ? `, about ${duration(1.15 * (runs / settings) * texts * secondsPerRun)}` : "";
    const repeats = Number(this.repeats.value) > 1 ? `, ${this.repeats.value} times` : "";
    write(this.plan, `${counted(settings, "setting")} on ${counted(prompts, "prompt")}${repeats}: ${counted(runs, "run")}${time}.`);
  }

  // Opens the form, so that settings can be changed before Measure is pressed.
  openForm(/** @type {HTMLElement | undefined} */ field) {
    this.details.open = true;
    field?.focus();
    this.drawPlan();
  }

  // The actions that empty plots offer; null if no measurement can start now.
  get measureAction() {
    return this.start.disabled || this.start.hidden ? null : { label: "▶ Measure", title: this.plan.textContent ?? "", act: () => this.begin() };
  }

  get severalAction() {
    const title = "Ticks 1, 4 and 16 requests at once in the form; then press Measure";
    return this.measureAction && { label: "Choose several at once", title, act: () => {
      this.concurrency.values = [1, 4, 16];
      this.openForm(this.concurrency.inputs.get(1));
    } };
  }

  async begin() {
    this.start.disabled = true;
    const answer = await this.lab.ask("lab_start", this.query);
    if (!this.refused(answer)) await this.lab.follow(answer.sweep);
    this.draw();
  }

  /** Pauses, resumes, stops or repeats the measurement. @param {string} what @param {object} more */
  async control(what, more = {}) {
    const answer = await this.lab.ask("lab_control", { do: what, sweep: this.lab.progress.sweep, ...more });
    if (!this.refused(answer)) await this.lab.follow(answer.sweep);
  }

  /** Whether the server refused, which the form then says. @param {object} answer @returns {answer is Failed} */
  refused(answer) {
    const refused = "error" in answer;
    this.fail(refused ? String(answer.error) : "");
    return refused;
  }

  fail(/** @type {string} */ message) {
    showLine(this.error, message);
  }

  draw() {
    const { busy, progress, reason } = this.lab;
    const { state, done, total, seconds_left: left, message, failed, recorded } = progress;
    const open = busy || state === "paused";
    const closed = Boolean(reason) || progress.other_sweep_running;
    this.box.dataset.state = state;
    this.start.hidden = open;
    this.start.disabled = closed;
    this.pause.hidden = !busy;
    this.resume.hidden = closed || !(state === "paused" || (done < total && ["stopped", "error"].includes(state)));
    this.stop.hidden = !open;
    this.plan.hidden = open;
    this.progressBox.hidden = state === "none" || Boolean(recorded);
    this.bar.max = Math.max(1, total);
    this.bar.value = done;
    const remaining = busy && left !== null ? `about ${duration(left)} left` : STATES[state];
    const wrong = failed ? `${failed} failed` : "";
    write(this.progressLine, message || [`${done} of ${total} runs`, remaining, wrong].filter(Boolean).join(", "));
    this.box.classList.toggle("is-busy", busy);
  }
}

function duration(/** @type {number} */ seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(seconds / 3600).toFixed(1)} h`;
}
