// The latest runs of this tab, each as a point: what was asked, and what it came to. And whole runs that a person keeps in
// the browser, as trace files by name.

import { button, html, write } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { settingOf, usedOf } from "../shared/round.js";

const MAX_RUNS = 8;
const MAX_ROUNDS = 1024; // of a run that is laid over another
const STORE = "canopy-runs"; // of the tab; the server has their rounds
export const PINS = ["A", "B"];

export class KeptRuns {
  constructor(/** @type {Stage} */ stage) {
    this.stage = stage;
    stage.kept = JSON.parse(sessionStorage.getItem(STORE) ?? "[]");
    this.sheet = new Sheet("Your runs", "cs-runs");
    html("h2", "", this.sheet.box, "Your runs");
    this.status = html("p", { role: "status" }, this.sheet.box);
    this.list = html("div", "cs-runs-list", this.sheet.box);
    stage.on("state compared", () => this.keep()); // its speed is known only then
  }

  keep() {
    const { stage } = this;
    const { value: { run, state }, header, rounds } = stage;
    if (!header || !["done", "stopped"].includes(state) || stage.recorded || rounds.length < 2) return;
    const point = pointOf(stage, header);
    const known = stage.kept.some((one) => one.run === run);
    stage.kept = known ? stage.kept.map((one) => (one.run === run ? point : one)) : [point, ...stage.kept].slice(0, MAX_RUNS);
    for (const pin of PINS) if (stage.pins[pin]?.run === run) stage.pins[pin] = point;
    sessionStorage.setItem(STORE, JSON.stringify(stage.kept));
  }

  open() {
    this.draw();
    this.sheet.open(this.list.querySelector("button"));
  }

  // The run that is shown, the latest, and the pinned ones.
  draw() {
    const { stage } = this;
    const { header, rounds } = stage;
    const shown = header && rounds.length > 1 ? [pointOf(stage, header)] : [];
    const all = [...shown, ...stage.kept, ...Object.values(stage.pins)].filter((point) => point.spent);
    const runs = all.filter((point, place) => all.findIndex((other) => other.run === point.run) === place);
    this.list.replaceChildren(...runs.map((point) => this.row(point)));
    write(this.status, runs.length ? "A and B are laid over the timeline and the budget's curves, and can be chosen in the lab's Compare." : "None yet: press Run.");
  }

  row(/** @type {RunPoint} */ point) {
    const row = html("div", "cs-run", null);
    html("span", "cs-run-what", row, `${point.title}: ${point.prompt}`);
    html("span", "", row, `τ ${point.tau.toFixed(2)}`);
    html("span", "", row, point.printed ? `${point.printed} tokens/s` : "");
    for (const pin of PINS) {
      const item = button(row, pin, `Lay this run over the one that is shown, as ${pin}`, () => this.pin(pin, point), "cs-pin");
      item.setAttribute("aria-pressed", String(this.stage.pins[pin]?.run === point.run));
    }
    return row;
  }

  /** @param {string} pin @param {RunPoint} point */
  pin(pin, point) {
    const { pins } = this.stage;
    if (pins[pin]?.run === point.run) delete pins[pin];
    else pins[pin] = point;
    const buttons = () => Array.from(this.list.querySelectorAll("button"));
    const place = buttons().indexOf(document.activeElement);
    this.draw();
    (buttons()[place] || this.sheet.shut).focus();
    this.stage.tell("pins");
  }
}

/** The run that is shown as its figures, and what each round kept and took. @param {Stage} stage @param {Header} header */
export function pointOf({ value: { run }, rounds, measured, speed }, header) {
  const some = rounds.slice(0, MAX_ROUNDS);
  return {
    run, title: settingOf(header), method: header.method, prompt: header.prompt, budget: usedOf(header, rounds), tau: measured.tau, speed: speed.value, printed: speed.text,
    lengths: some.map(({ keep }) => keep.length), spent: some.map(({ spent }) => Number(spent.toPrecision(4))),
  };
}

const FILES = "canopy-named-runs";
const MAX_CHARACTERS = 3e6; // characters of all of them; browsers keep 5 million

/** A run as a trace file in base64. @typedef {{ name: string, note: string, file: string, data: string }} NamedRun */

// The newest first.
export class NamedRuns {
  get all() {
    return /** @type {NamedRun[]} */ (JSON.parse(localStorage.getItem(FILES) ?? "[]"));
  }

  // Why the run cannot be kept, or nothing. One of the same name is replaced.
  keep(/** @type {NamedRun} */ one) {
    const all = [one, ...this.all.filter(({ name }) => name !== one.name)];
    const full = "The browser has no room for this run beside those that it keeps; forget one (Recordings), or save this one as a file.";
    const text = JSON.stringify(all);
    if (text.length > MAX_CHARACTERS) return full;
    try {
      localStorage.setItem(FILES, text);
    } catch {
      return full;
    }
    return "";
  }

  forget(/** @type {string} */ name) {
    localStorage.setItem(FILES, JSON.stringify(this.all.filter((one) => one.name !== name)));
  }
}
