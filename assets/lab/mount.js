// Tabs, and the list of earlier measurements.

import { Acceptance } from "./acceptance.js";
import { Check } from "./check.js";
import { Compare } from "./compare.js";
import { fillSelect, selectField } from "./forms.js";
import { Load, ServerLoad } from "./load.js";
import { loadPlotly } from "./plots.js";
import { Speed } from "./speed.js";
import { STATES, Sweep } from "./sweep.js";
import { Verdict } from "./verdict.js";
import { EventEmitter } from "../shared/events.js";
import { html, oneAtATime, pause, throttled, write } from "../shared/ink.js";
import { Menu } from "../shared/overlays.js";
import { counted } from "../shared/round.js";
import { controls } from "../stage/controls.js";

class Tabs {
  current = "";
  /** By name. @type {Map<string, { tab: HTMLElement, pane: HTMLElement, part: { draw(): unknown } }>} */
  panes = new Map();

  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.parent = parent;
    const bar = html("div", "lab-tabs", parent);
    this.list = html("div", { class: "lab-tablist", role: "tablist", "aria-label": "Parts of the lab" }, bar);
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.applied = html("span", { class: "lab-applied", role: "status" }, bar);
  }

  /** `Part` is put into the tab's pane.
   *  @template {{ draw(): unknown }} One @param {string} name @param {string} title @param {new (lab: Lab, pane: HTMLElement) => One} Part */
  add(name, title, Part) {
    const label = name[0].toUpperCase() + name.slice(1);
    const tab = html("button", {
      class: "lab-tab", type: "button", title, id: `lab-tab-${name}`, role: "tab", "aria-controls": `lab-pane-${name}`,
    }, this.list, label);
    tab.addEventListener("click", () => this.go(name));
    const pane = html("div", {
      class: `lab-pane lab-pane-${name}`, id: `lab-pane-${name}`, role: "tabpanel", "aria-labelledby": tab.id,
    }, this.parent);
    const part = new Part(this.lab, pane);
    this.panes.set(name, { tab, pane, part });
    return part;
  }

  go(/** @type {string} */ name) {
    this.current = this.lab.root.dataset.tab = name;
    if (name !== this.lab.stage.tab) this.lab.stage.setTab(name);
    for (const [other, { tab, pane }] of this.panes) {
      const on = other === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      pane.hidden = !on;
    }
    this.draw();
  }

  // Draws the open tab; others are drawn when they are opened.
  draw() {
    this.panes.get(this.current)?.part.draw();
  }

  key(/** @type {KeyboardEvent} */ event) {
    const to = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const names = Array.from(this.panes.keys());
    const name = names[(names.indexOf(this.current) + to + names.length) % names.length];
    this.go(name);
    this.panes.get(name)?.tab.focus();
  }
}

/** A measurement's number and how it is called in the list. @param {SweepLine} sweep @returns {[string, string]} */
function listEntry({ number, started, rig, concurrency, state, done, total, other_rig: otherRig }) {
  if (number <= 0) return [String(number), `recorded ${started.slice(0, 10)}: ${rig}${concurrency > 1 ? `, up to ${concurrency} at once` : ""}`];
  const when = new Date(started).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const runs = state === "done" ? `${total} runs` : `${done} of ${total} runs, ${STATES[state] || state}`;
  return [String(number), `${number}: ${otherRig ? `${rig}, ` : ""}${when}, ${runs}`];
}

class History {
  drawnKey = ""; // identifies the drawn list

  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.box = html("section", "lab-card lab-history", parent);
    this.field = selectField(this.box, "Measurements", "Measurements are kept until you delete them",
      () => lab.follow(this.field.value ? Number(this.field.value) : null));
    this.deletion = html("div", "", this.box); // it asks first, since a deleted measurement cannot be restored
    new Menu(this.deletion, "Delete …", "Delete the measurement that is chosen", () => {
      const { sweep, done } = lab.progress;
      const remove = async () => lab.sweep.refused(await lab.ask("lab_delete", { sweep })) || lab.follow(null);
      return [
        { heading: `Delete measurement ${sweep} with its ${done} runs? This cannot be undone.` },
        { label: "Keep the measurement", act: () => undefined },
        { label: "Delete it for good", act: remove },
      ];
    });
    lab.on("progress", () => this.draw());
    this.box.hidden = true;
  }

  draw() {
    const { sweeps, sweep, recorded } = this.lab.progress;
    this.box.hidden = sweeps.every(({ number }) => number === sweep); // nothing to choose from
    this.deletion.hidden = sweep === null;
    this.deletion.querySelector("button").disabled = Boolean(recorded) || this.lab.busy;
    const entries = sweeps.filter((other) => !other.other_rig).map(listEntry);
    const ofOtherRigs = sweeps.filter((other) => other.other_rig).map(listEntry);
    if (!entries.length) entries.push(["", `none of ${this.lab.setup.rig}`]);
    const key = JSON.stringify([entries, ofOtherRigs, sweep]);
    if (key === this.drawnKey || document.activeElement === this.field) return;
    this.drawnKey = key;
    fillSelect(this.field, entries, sweep === null ? "" : String(sweep), { heading: "Other rigs", entries: ofOtherRigs });
  }
}

// The lab's view: the form at the left, the results in tabs at the right.
const BUSY_MS = 500;
const IDLE_MS = 4000;
const RUN_TABS = ["speed", "acceptance"]; // they follow the rounds of the run on the stage
const BETWEEN_DRAWS_MS = 600;
const LOST = "The server does not answer; the lab keeps trying.";
/** @type {SweepProgress} */
const NO_SWEEP = {
  sweep: null, other_sweep_running: false, state: "none", message: "", done: 0, total: 0, failed: 0,
  seconds_left: null, recorded: "", other_rig: "", sweeps: [], command: "",
};
/** @type {Omit<LabCurves, "curves"> & { curves: LabCurves["curves"] | null }} */
const NO_RESULTS = {
  curves: null, table: null, kinds: {}, cost: null, counts: [1], concurrency: 1,
  categories: [], category: "", command: "", seconds_per_run: null,
};

function askOf(/** @type {LabServer} */ server) {
  /** The answer of one of the server's functions, or why there is none.
   *  @template {keyof LabAnswers} Name @param {Name} name @param {object} query @returns {Promise<LabAnswers[Name] | Failed>} */
  return async (name, query, silence = "The server does not answer; try again.") => {
    try {
      return (await server[name](query)) || { error: silence };
    } catch {
      return { error: silence };
    }
  };
}

/** @extends {EventEmitter<LabEvents>} */
export class Lab extends EventEmitter {
  chosenSweep = /** @type {number | null} */ (null); // the measurement that was chosen
  progress = NO_SWEEP;
  results = NO_RESULTS; // of that measurement, at one number of requests at once and for one category of its prompts
  chosenConcurrency = /** @type {number | null} */ (null); // the number of requests at once to show
  prediction = ""; // the run whose prediction is shown
  lost = false; // the server did not answer
  timer = 0;
  loading = /** @type {Promise<any> | undefined} */ (undefined);
  reload = oneAtATime(() => this.loadCurves());

  /** @param {Stage} stage @param {Element} host @param {LabServer} server @param {LabSetup} setup
   *  @param {(setting: object) => unknown} adopt */
  constructor(stage, host, server, setup, adopt) {
    super();
    this.stage = stage;
    this.server = server;
    this.ask = askOf(server);
    this.setup = setup;
    this.adopt = adopt;
    this.reason = setup.reason;
    this.root = html("div", "lab", host);
    const side = html("aside", "lab-side", this.root);
    this.verdict = new Verdict(this, side);
    this.sweep = new Sweep(this, side);
    new History(this, side);
    const tabs = this.tabs = new Tabs(this, html("div", "lab-main", this.root));
    this.speed = tabs.add("speed", "Which method and budget are fastest: curves, table, cost of a pass, other machines", Speed);
    this.acceptance = tabs.add("acceptance", "How many tokens rounds add, which guesses are accepted, where a tree pays", Acceptance);
    const LoadTab = /** @type {new (lab: Lab, pane: HTMLElement) => import("./tools.js").Tool} */ (setup.server ? ServerLoad : Load);
    this.load = tabs.add("load", "Several requests at once: which budget is fastest, and where drafting stops paying", LoadTab);
    this.compare = tabs.add("compare", "Methods in a race on one prompt, and runs side by side", Compare);
    tabs.add("check", "Why is τ low? Checks every drafter's configuration", Check);
    tabs.go(tabs.panes.has(stage.tab) ? stage.tab : "speed");
    stage.on("tab", (name) => tabs.panes.has(name) && name !== tabs.current && tabs.go(name));
    stage.on("mode", () => this.show());
    stage.on("state", throttled(() => this.shown && RUN_TABS.includes(this.tab) && this.tabs.draw(), BETWEEN_DRAWS_MS));
    this.show();
  }

  // Whether the shown run is the recording that the page opens with, of another rig: nobody asked for it.
  get unasked() {
    const { header, value } = this.stage;
    return this.runRig !== "" && value.run === this.setup.initial_recording && Boolean(header);
  }

  // The rig of the run on the stage, if that is another one than the rig that answers.
  get runRig() {
    const { header } = this.stage;
    return header && header.rig !== this.setup.rig ? header.rig : "";
  }

  // plotly.js; nothing if the server did not answer, which is asked again for the next drawing.
  plotly() {
    return this.loading ??= loadPlotly(this.server).catch(() => {
      this.loading = undefined;
    });
  }

  get shown() {
    return this.stage.mode === "lab";
  }

  // Whether the chosen measurement waits or measures.
  get busy() {
    return ["queued", "running"].includes(this.progress.state);
  }

  get tab() {
    return this.tabs.current;
  }

  show() {
    this.root.hidden = !this.shown;
    if (!this.shown) return;
    this.plotly();
    this.tabs.draw();
    this.refresh();
  }

  // Shows a sweep; null stands for the one being measured, else the latest.
  async follow(/** @type {number | null} */ sweep) {
    this.chosenSweep = sweep;
    await this.refresh();
  }

  // Polls the progress of the sweep while the lab is open; more often while something is measured.
  async refresh() {
    clearTimeout(this.timer);
    const answer = await this.ask("lab_progress", { sweep: this.chosenSweep }, LOST);
    const error = "error" in answer ? answer.error : "";
    const { lost } = this;
    if (error || lost) this.sweep.fail(error);
    this.lost = error === LOST;
    if (!("error" in answer)) {
      const key = (/** @type {SweepProgress} */ progress) => [progress.sweep, progress.done, progress.state].join(" ");
      const isNew = lost || key(answer) !== key(this.progress) || !this.results.curves;
      this.progress = answer;
      this.root.classList.toggle("is-other-rig", Boolean(answer.other_rig));
      this.emit("progress");
      if (isNew) this.reload();
    }
    clearTimeout(this.timer);
    if (this.shown || this.busy) this.timer = setTimeout(() => this.refresh(), this.busy ? BUSY_MS : IDLE_MS);
  }

  // Reloads curves and table after a measurement, the end of a run, or another choice of sweep.
  async loadCurves() {
    const { progress: { sweep }, prediction, speed: { line }, chosenConcurrency: concurrency, results: { category } } = this;
    const answer = await this.ask("lab_curves", { sweep, what_if: prediction || null, line: line.value, concurrency, category }, LOST);
    if ("error" in answer) {
      this.lost = answer.error === LOST;
      this.sweep.fail(answer.error);
      return;
    }
    this.results = { ...answer, counts: answer.counts.length ? answer.counts : [1] };
    this.verdict.draw();
    this.emit("table");
    if (this.shown) this.tabs.draw();
  }

  // Shows curves, table and recommendation for this many requests at once.
  showConcurrency(/** @type {number} */ concurrency) {
    this.chosenConcurrency = concurrency;
    return this.reload();
  }

  /** One click puts a setting into the page's controls.
   *  @param {{ method: string, budget: number, split?: string, pace: string }} setting */
  apply({ method, budget, split, pace }) {
    this.adopt({ method, budget, split: split || null, pace });
    const nodes = budget ? `, ${pace === "auto" ? "auto up to " : ""}${counted(budget, "node")}` : "";
    write(this.tabs.applied, `The page's controls now say ${method}${nodes}.`);
  }
}

/** Waits for the page's first rig, and for the stage, which another component brings along.
 *  @param {Element} element @param {LabServer} server @param {(setting: object) => unknown} adopt */
async function openLab(element, server, adopt) {
  const host = element.querySelector(".canopy-host");
  const waiting = html("p", "lab-note lab-waiting", host);
  const ask = askOf(server);
  let setup = await ask("lab_setup", {}, ""); // of the rig that answers now: another one may have been chosen
  while ("error" in setup) {
    write(waiting, setup.error);
    await pause(BUSY_MS);
    setup = await ask("lab_setup", {}, "");
  }
  waiting.remove();
  while (!controls.parts) await pause(30);
  if (!host.querySelector(".lab")) window.Canopy.laboratory = new Lab(controls.parts.stage, host, server, setup, adopt);
}

window.Canopy.lab = { open: openLab };
