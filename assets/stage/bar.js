// Light and dark: the system's, until the switch says otherwise; the choice is remembered.

import { button, html, render, svg, write } from "../shared/ink.js";
import { Menu } from "../shared/overlays.js";
import { settingOf } from "../shared/round.js";
import { modes } from "./stage.js";

const STORE = "canopy-theme";

function system() {
  return window.matchMedia("(prefers-color-scheme: dark)");
}

function isDark() {
  const chosen = localStorage.getItem(STORE);
  return chosen ? chosen === "dark" : system().matches;
}

function dress() {
  document.body.classList.toggle("dark", isDark());
  document.documentElement.style.colorScheme = isDark() ? "dark" : "light";
}

export function followTheme() {
  system().addEventListener("change", dress);
  dress();
}

function flipTheme() {
  const dark = !isDark();
  if (dark === system().matches) localStorage.removeItem(STORE);
  else localStorage.setItem(STORE, dark ? "dark" : "light");
  dress();
}

// The head of the page: the run that is shown, recorded or live, the views, and the menus.
/** @type {Mark[]} */
const MARK = [
  ["path", { d: "M5 16 14 7h13M14 7l13 9M5 16l9 9h13", fill: "none", stroke: "currentColor", "stroke-width": 1.6, opacity: 0.55 }],
  ["circle", { cx: 5, cy: 16, r: 3.6, fill: "var(--target)" }],
  ["circle", { cx: 14, cy: 7, r: 3.4, fill: "var(--drafter1)" }],
  ["circle", { cx: 27, cy: 7, r: 3.4, fill: "var(--drafter1)" }],
  ["circle", { cx: 14, cy: 25, r: 3, fill: "var(--drafter2)" }],
  ["circle", { cx: 27, cy: 25, r: 2.4, fill: "none", stroke: "var(--drafter2)", "stroke-width": 1.6 }],
  ["circle", { cx: 27, cy: 16, r: 2.4, fill: "none", stroke: "var(--drafter1)", "stroke-width": 1.6 }],
];

/** @type {Record<string, string>} */
const WORDS = { queued: "queued", starting: "starting", running: "live", lost: "live, broken off", error: "refused" };
/** @type {Record<string, string>} */
const ENDED = { done: "done", stopped: "stopped" };

export class Bar {
  /** @param {Stage} stage @param {HTMLElement} parent @param {Parts} parts */
  constructor(stage, parent, parts) {
    this.stage = stage;
    this.box = html("div", "cs-bar", parent);
    const brand = html("h1", "cs-brand", this.box);
    const mark = svg("svg", { viewBox: "0 0 32 32", width: 26, height: 26, "aria-hidden": "true" }, brand);
    render(mark, MARK);
    brand.append("Canopy");
    this.badge = html("span", "cs-badge", this.box);
    this.shared = html("span", "cs-shared", this.box);
    this.shared.title = "Several runs are answered in the same forward passes; the panel Batch shows which rows belong to which run.";
    this.title = html("span", "cs-run-title", this.box);
    this.what = html("span", "", this.title);
    this.where = html("span", "", this.title);
    html("span", "cs-gap", this.box);
    this.modes();
    const tools = html("div", "cs-bar-tools", this.box);
    const { tour } = parts;
    if (parts.rigs) parts.rigs.opener(tools);
    parts.runs?.addOpener(tools);
    new Menu(tools, "Save", "Save or share this run", () => parts.save.entries());
    if (tour) button(tools, "Tour", "A tour in nine steps", () => tour.start());
    button(tools, "◐", "Light or dark", flipTheme);
    button(tools, "?", "Keys and terms (?)", () => parts.help.toggle());
    stage.on("state value", () => this.draw());
    this.draw();
  }

  modes() {
    const group = html("div", { class: "cs-modes", role: "group", "aria-label": "View" }, this.box);
    const choices = [["story", "Story", "What happens, in plain words"], ["workbench", "Workbench", "All panels and all settings"],
      ["lab", "Lab", "Which method and budget are fastest here"]];
    const items = choices.filter(([mode]) => modes.includes(mode)).map(([mode, label, title]) => (
      { mode, item: button(group, label, title, () => this.stage.setMode(mode, { push: true })) }));
    const mark = () => items.forEach(({ mode, item }) => item.setAttribute("aria-pressed", String(mode === this.stage.mode)));
    this.stage.on("mode", mark);
    mark();
  }

  draw() {
    const { header } = this.stage;
    const state = standing(this.stage);
    this.badge.dataset.state = state;
    this.badge.hidden = state === "empty";
    const shared = this.stage.live && !this.stage.pending ? this.stage.rounds.at(-1)?.shared : null;
    this.shared.hidden = !shared;
    write(this.shared, shared ? `${shared.runs} runs share the rounds` : "");
    write(this.badge, state === "recorded" && header ? `recorded ${header.recorded.slice(0, 10)}` : WORDS[state] || ended(this.stage));
    this.title.hidden = !header || Boolean(this.stage.pending);
    this.badge.title = header ? [place(header, header.hardware), this.stage.about.dtype_words].filter(Boolean).join(": ") : "";
    if (header) this.entitle(header);
  }

  // What was asked, and under it of which rig and on which machine; in full on hover.
  entitle(/** @type {Header} */ header) {
    const asked = settingOf(header);
    write(this.what, header.title || asked);
    write(this.where, place(header, shortened(header.hardware)));
    this.title.title = [place(header, header.hardware), `${asked}, temperature ${header.temperature}, seed ${header.seed}`,
      header.drafters.length ? `drafted by ${header.drafters.join(" and ")}` : "", header.note].filter(Boolean).join("\n");
  }
}

// Of a run that has ended; without a server it is a replay.
function ended(/** @type {Stage} */ { server, value }) {
  const state = ENDED[value.state];
  return state ? `${server ? "live" : "replay"}, ${state}` : "";
}

// A run that is waited for counts as live from its first round on.
function standing(/** @type {Stage} */ { recorded, pending, value }) {
  if (pending) return pending.state === "queued" ? "queued" : "starting";
  return recorded ? "recorded" : value.state;
}

/** @param {Header} header @param {string} hardware */
function place({ rig, dtype }, hardware) {
  return [rig, hardware, dtype].filter(Boolean).join(", ");
}

// A processor's name without what its maker adds to all of them.
export function shortened(/** @type {string} */ hardware) {
  return (hardware || "").replace(/\((R|TM)\)| (CPU|Processor)\b|\s*@\s*[\d.]+ ?GHz|\s*\b\d+-Core\b/gi, "").trim();
}
