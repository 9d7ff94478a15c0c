// The head of the page: the run that is shown, recorded or live, the views, and the menus.

import { button, html, render, svg, write } from "../shared/ink.js";
import { Menu } from "../shared/overlays.js";
import { settingOf } from "../shared/round.js";
import { modes } from "./stage.js";

const STORE = "canopy-theme"; // "dark" or "light", if a person chose other than the system
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

const VIEWS = [["story", "Story", "What happens, in plain words"], ["workbench", "Workbench", "All panels and all settings"],
  ["lab", "Lab", "Which method and budget are fastest here"]];
/** @type {Record<string, string>} */
const BADGES = { queued: "queued", starting: "starting", running: "live", lost: "live, broken off", error: "refused" };

const systemTheme = () => window.matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const chosen = localStorage.getItem(STORE);
  const dark = chosen ? chosen === "dark" : systemTheme().matches;
  document.body.classList.toggle("dark", dark);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
}

// Light or dark: the system's, until the switch says otherwise.
export function followTheme() {
  systemTheme().addEventListener("change", applyTheme);
  applyTheme();
}

/** @param {Stage} stage @param {HTMLElement} parent @param {Parts} parts */
export function bar(stage, parent, parts) {
  const box = html("div", "cs-bar", parent);
  const brand = html("h1", "cs-brand", box);
  render(svg("svg", { viewBox: "0 0 32 32", width: 26, height: 26, "aria-hidden": "true" }, brand), MARK);
  brand.append("Canopy");
  const badge = html("span", "cs-badge", box);
  const shared = html("span", { class: "cs-shared", title: "Several runs are answered in the same forward passes; the panel Batch shows which rows belong to which run." }, box);
  const title = html("span", "cs-run-title", box);
  const titleLine = html("span", "", title);
  const settingLine = html("span", "", title);
  html("span", "cs-gap", box);
  const views = html("div", { class: "cs-modes", role: "group", "aria-label": "View" }, box);
  const items = VIEWS.filter(([mode]) => modes.includes(mode)).map(([mode, label, about]) => (
    { mode, item: button(views, label, about, () => stage.setMode(mode, { push: true })) }));
  const tools = html("div", "cs-bar-tools", box);
  const { tour } = parts;
  parts.rigs?.addOpener(tools);
  parts.runs?.addOpener(tools);
  new Menu(tools, "Save", "Save or share this run", () => parts.save.entries());
  if (tour) button(tools, "Tour", "A tour in nine steps", () => tour.start());
  button(tools, "◐", "Light or dark", () => {
    const dark = !document.body.classList.contains("dark");
    if (dark === systemTheme().matches) localStorage.removeItem(STORE);
    else localStorage.setItem(STORE, dark ? "dark" : "light");
    applyTheme();
  });
  button(tools, "?", "Keys and terms (?)", () => parts.help.open());

  const draw = () => {
    const { header, pending, recorded, server, value: { state } } = stage;
    // A run that is waited for counts as live from its first round on, and until its last round is shown.
    const standing = pending ? (pending.state === "queued" ? "queued" : "starting") : recorded ? "recorded" : stage.playsBehind ? "running" : state;
    const ended = ["done", "stopped"].includes(state) ? `${server ? "live" : "replay"}, ${state}` : "";
    for (const { mode, item } of items) item.ariaPressed = String(mode === stage.mode);
    badge.dataset.state = standing;
    badge.hidden = standing === "empty";
    write(badge, standing === "recorded" && header ? `recorded ${header.recorded.slice(0, 10)}` : BADGES[standing] ?? ended);
    const runs = stage.live && !pending ? stage.rounds.at(-1)?.shared?.runs : 0;
    shared.hidden = !runs;
    write(shared, runs ? `${runs} runs share the rounds` : "");
    title.hidden = !header || Boolean(pending);
    if (!header) return;
    // In full on hover.
    const made = machineText(header, header.hardware);
    const setting = settingOf(header);
    badge.title = [made, stage.about.dtype_words].filter(Boolean).join(": ");
    write(titleLine, header.title || setting);
    write(settingLine, settingText(header, parts));
    title.title = [made, `${setting}, temperature ${header.temperature}, seed ${header.seed}`,
      header.drafters.length && `drafted by ${header.drafters.join(" and ")}`, header.note].filter(Boolean).join("\n");
  };
  stage.on("state lines mode rigs play", draw);
  draw();
}

/** @param {Header} header @param {string} hardware */
const machineText = ({ rig, dtype }, hardware) => [rig, hardware, dtype].filter(Boolean).join(", ");

/** What was asked, unless it is the title, and on which machine, without what makers add to all names; the loaded rig has its name on a button.
 *  @param {Header} header @param {Parts} parts */
function settingText(header, { rigs }) {
  const rig = header.rig === rigs?.state?.rig ? "" : header.rig;
  const hardware = (header.hardware || "").replace(/\((R|TM)\)| (CPU|Processor)\b|\s*@\s*[\d.]+ ?GHz|\s*\b\d+-Core\b/gi, "").trim();
  return [header.title && settingOf(header), machineText({ ...header, rig }, hardware)].filter(Boolean).join(" · ");
}
