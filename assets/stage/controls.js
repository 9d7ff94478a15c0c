// The bridge to the controls of the bar: the budget's steps, what the address restores, what Stop does in the browser, and
// what a page hands over to the one that replaces it.

import { html, onPhone, pause, write } from "../shared/ink.js";
import { newRun, routeTo, stopRun } from "../shared/lines.js";
import { METHODS } from "../methods.js";
import { picture } from "../shared/picture.js";
import { counted, forcedOf, settingOf } from "../shared/round.js";
import { Address } from "./address.js";
import { expectedSpeed, runPoint } from "./runs.js";

const STORE = "canopy-reload";
const MAX_SECONDS = 60; // to wait until the bar holds the requested values
const SETTLED_MS = 500;
const UNAVAILABLE = 503; // while the page is being built
const BUDGET_CONTROLS = ["steps", "budget", "pace", "drafters", "split"]; // for methods that draft; the last for those with two trees

/** What a page hands over to the one that replaces it. `resumeAction`: what it was doing ("runs", "plays", "card"),
 *  `promptToRun`: a prompt to run at once, `run`: the lines of the run that was shown when the server was lost,
 *  `opening`: another rig's recording to open with, `left`: whether a run of one's own was shown, `bar`: its changed values,
 *  `still`: the page's picture, which the other shows until it stands.
 *  @typedef {{ prompt?: string | null, turns?: Turns, resumeAction?: string | null, promptToRun?: string | null, opening?: string,
 *    left?: boolean, run?: StreamLine[] | null, bar?: Setting, still?: string }} Handover */

const [arrival] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
const stored = /** @type {Handover} */ (JSON.parse(sessionStorage.getItem(STORE) ?? "{}"));
const handover = stored.bar && arrival?.type !== "reload" ? {} : stored; // a bar's values are not another address's
sessionStorage.removeItem(STORE);

// Stores what the reloaded page needs, without the run and the picture if they are too large for the browser's store.
function storeHandover(/** @type {Handover} */ next) {
  const store = (/** @type {Handover} */ stored) => sessionStorage.setItem(STORE, JSON.stringify(stored));
  try {
    store(next);
  } catch {
    store({ ...next, run: null, still: "" });
  }
}

// Waits until a condition holds, for at most MAX_SECONDS. Returns whether it does.
async function until(/** @type {() => unknown} */ holds) {
  const end = performance.now() + 1000 * MAX_SECONDS;
  while (!holds() && performance.now() < end) await pause(100);
  return holds();
}

export const promptField = () => document.querySelector("#canopy-prompt textarea");

/** As if it had been typed. @param {HTMLInputElement | null} input @param {string | number} value */
export function typeInto(input, value) {
  if (!input) return;
  input.value = String(value);
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

// Gradio 6.31 opens a list again that Tab has just left.
window.addEventListener("keydown", (event) => {
  if (event.key === "Tab" && event.target instanceof Element && event.target.matches("[role=combobox]")) event.stopPropagation();
}, true);

export const controls = {
  picked: /** @type {(string | null)[]} */ ([]), // a chosen preset that has not run yet; null if the list was left without a choice
  parts: /** @type {Parts | null} */ (null), // of the page, once it is put together
  filled: Boolean(Address.opened.trace || handover.bar), // whether a run that is opened fills the bar, or will
  bar: /** @type {Setting} */ ({}), // its values by the names of their options, but the drafters
  touched: Boolean(handover.bar), // whether a person changed the bar, and has not run it
  adopt: /** @type {(setting: Setting) => void} */ (() => undefined), // fills the bar
  presetWaits: false, // whether a preset runs once the present run has ended
  handover, // by the page whose place this one took
  turns: handover.turns || [], // before the prompt: they go along with the next run
  promptToRun: /** @type {string | null} */ (null), // the prompt that the page runs by itself after it has reloaded
  budgetOf: (/** @type {number} */ step) => (step <= 0 ? 0 : 2 ** (step - 1)),
  // The slider's step nearest to a budget: 0 for a budget of 0, else one more than its base-2 logarithm.
  stepOf(/** @type {number} */ budget) {
    const most = Number(document.querySelector("#canopy-steps input[type=range]").max);
    return budget >= 1 ? Math.min(most, Math.round(Math.log2(budget)) + 1) : 0;
  },

  // Shows the controls that fit the bar's new values, and tells the stage.
  onSettingsChanged(/** @type {Setting} */ bar) {
    if (!controls.parts) return;
    const { method = "", budget, pace } = controls.bar = bar;
    const { stage } = controls.parts;
    stage.settings = { method, budget, pace };
    const { drafts = false, splits = false } = METHODS[method] ?? {}; // an attached server drafts as it was started
    for (const name of BUDGET_CONTROLS) document.getElementById(`canopy-${name}`)?.toggleAttribute("hidden", name === "split" ? !splits : !drafts);
    stage.emit("options");
  },

  // The values that method, budget, prompt and step have to take when the page opens.
  /** @param {string} method @param {number} budget @param {string} prompt */
  restore(method, budget, prompt) {
    const address = Address.opened;
    document.querySelector("#canopy-preset input").placeholder = "Pick a prompt …"; // Gradio's list takes none
    const setting = /** @type {const} */ ([address.method || method, address.budget ?? budget]);
    controls.onSettingsChanged({ ...controls.bar, method: setting[0], budget: setting[1] });
    const { stage, conversation } = controls.parts ?? {};
    conversation?.draw(); // the prompt is here now, whichever came first
    const prompted = address.trace && stage?.value.run === address.trace ? stage.header?.prompt : null; // by the run that the address names
    return [...setting, handover.prompt ?? prompted ?? prompt, controls.stepOf(setting[1])];
  },

  // Closes the settings under More, which lie over the panels. Returns whether they were open.
  closeMore() {
    const more = document.querySelector("#canopy-more .label-wrap.open");
    more?.click();
    return Boolean(more);
  },

  // What Run does: the bar's values, the drafters as a list and the turns from here.
  run(/** @type {Omit<Setting, "drafters"> & { drafters?: string }} */ options) {
    const chosen = String(options.drafters ?? "");
    const drafters = chosen.startsWith("[") ? JSON.parse(chosen) : [];
    controls.start({ ...options, drafters, turns: controls.turns });
  },

  // Waits until the opening run is shown, or it would replace this one. Does nothing if a run is in progress.
  async start(/** @type {Setting} */ options) {
    await until(() => controls.parts?.ready);
    if (!controls.parts) return;
    const { stage, lost } = controls.parts;
    if (stage.busy) return;
    controls.closeMore();
    controls.touched = false;
    if (onPhone()) document.querySelector(".cs-stage").scrollIntoView(); // the controls fill its screen
    stage.showRequested(options.prompt ?? "", options.turns ?? []);
    await stage.follow(newRun({ ...options }));
    if (lost?.gone) lost.runOnReturn();
  },

  /** Begins a run whose answer is the text that is shown up to a drafted node, and another token after it if one is named; the
   *  run that it leaves is laid over it.
   *  @param {number} node @param {number} [token] */
  branch(node, token) {
    const { stage } = controls.parts ?? {};
    if (!stage?.header || !stage.round || stage.busy) return;
    const { header, rounds, current, round, value } = stage;
    const path = [...round.path(node).map((step) => round.tokens[step]), ...(token === undefined ? [] : [token])];
    const before = rounds.slice(0, current).flatMap(({ keep, tokens }) => keep.map((kept) => tokens[kept]));
    const forced = [...forcedOf(header), ...before, ...path];
    const point = runPoint(stage, header); // from here on
    const from = { ...point, title: `${point.title}, from the fork`, lengths: point.lengths?.slice(current), spent: point.spent?.slice(current) };
    stage.overlaidRuns = [from, ...stage.overlaidRuns.filter(({ run }) => run !== value.run)];
    stage.branch = { run: value.run, prompt_ids: [...header.prompt_ids, ...before, ...path] };
    stage.emit("ticked");
    controls.start({ ...header.options, forced });
  },

  // A chosen preset runs at once, or says that it waits; it begins another conversation.
  runPreset() {
    const { stage, notices, conversation, rigs } = controls.parts ?? {};
    conversation?.setTurns([]);
    controls.presetWaits = Boolean(stage?.busy);
    if (controls.presetWaits) notices?.brief("This prompt runs as soon as the present run has ended; Stop ends that now.");
    else document.querySelector("#canopy-run").click();
    const { defaults } = rigs?.state ?? {};
    if (stage?.mode === "story" && defaults?.method && !controls.presetWaits) controls.adopt({ ...defaults, prompt: "", drafters: [] }); // it hides them
  },

  // Reloads the page for another rig, which opens with a recording of that, the prompt as it stands and the turns before it.
  reload() {
    const { promptToRun, parts } = controls;
    if (!parts) return;
    const { stage: { mode, tab, scene, header, recorded }, recordings, rigs } = parts;
    const opening = recordings.firstOf(rigs?.state?.rig ?? "");
    controls.keepForReload({ promptToRun, opening, left: Boolean(header) && !recorded, resumeAction: scene === "card" ? scene : null });
    window.history.replaceState(null, "", `#mode=${mode}&tab=${tab}${promptToRun ? "&method=ddtree" : ""}`);
    window.location.reload();
  },

  // Stores these for the reloaded page, with the prompt in the bar and the turns.
  keepForReload(/** @type {Handover} */ next) {
    controls.touched = false; // stored with what is more important
    storeHandover({ prompt: next.promptToRun || promptField().value, turns: controls.turns, ...next });
  },

  // From the first page to the complete one: the prompt if one was typed, and what the first page was doing.
  handOver(/** @type {string} */ prompt, /** @type {string | null} */ resumeAction) {
    const still = resumeAction === "card" ? picture(document.body) : "";
    const next = { ...handover, run: null, prompt: prompt || handover.prompt, resumeAction, still };
    if (Object.values(next).some(Boolean)) storeHandover(next); // else the complete page begins from its first frame
    window.location.reload();
  },

  // Presses Run as soon as the bar holds this prompt; gives up after MAX_SECONDS.
  async runWhen(/** @type {string | null | undefined} */ prompt) {
    await pause(100); // Gradio writes the bar's values later
    if (await until(() => promptField()?.value === prompt && controls.parts?.rigs?.state)) document.querySelector("#canopy-run").click();
  },

  // For a run that the server has forgotten: fills the bar with its options, one click from running again.
  async offerRerun(/** @type {Setting} */ options) {
    const { parts } = controls;
    await until(() => parts?.ready && parts.rigs?.state);
    await pause(SETTLED_MS);
    controls.adopt({ ...parts?.stage.settings, drafters: [], ...options });
    parts?.conversation?.setTurns(options.turns ?? []);
    parts?.notices.dismiss();
    parts?.notices.runAgain("The server does not have this run any more; its prompt and settings are in the bar.", () => controls.start(options));
  },

  // Runs the prompt that was handed over, once the bar's values and the rig's state are there. The budget is fixed, because auto
  // would first time passes of the new rig.
  async runAfterReload() {
    const prompt = handover.promptToRun;
    if (!prompt) return;
    const state = () => controls.parts?.rigs?.state;
    await until(() => controls.parts?.ready && state() && !state()?.first_load);
    await pause(SETTLED_MS);
    const options = { prompt, method: "ddtree", budget: 16, ...state()?.defaults, temperature: 0, pace: "fixed", drafters: [] };
    controls.adopt(options);
    controls.start(options);
  },

  stop() {
    const run = controls.parts?.stage.halt();
    if (run) stopRun(run).catch(() => undefined); // a server that is gone is noticed by whoever reads
  },
};

/** Says what Run would use, and in the workbench what is shown, if they differ. @param {Stage} stage @param {Rigs} rigs */
export function mountNextRunNote(stage, rigs) {
  const box = html("p", { class: "cs-next", role: "status" });
  const draw = () => {
    const { settings: { method = "", budget = 0 }, header, recorded, busy, scene, mode } = stage;
    const shown = header ? settingOf(header) : "";
    const next = METHODS[method]?.drafts ? `${method}, ${counted(budget, "node")}` : method;
    const isNew = mode === "story" || recorded || header?.prompt !== promptField()?.value; // else Budget says more of it
    const expected = rigs.state && isNew ? expectedSpeed(stage.ownRuns, rigs.state, controls.bar) : "";
    const place = document.getElementById(mode === "story" ? "canopy-ask" : "canopy-steps");
    if (box.parentElement !== place) place?.append(box); // screen readers announce it again whenever it is moved
    box.hidden = [busy, rigs.state?.first_load, !METHODS[method], !["", "card"].includes(scene), ["", next].includes(shown)].some(Boolean);
    const words = recorded && scene ? `Shown with ${shown}; Run takes ${next}` : `Run uses ${next}`;
    write(box, mode === "story" ? [words, expected].filter(Boolean).join(": ") : expected || `shown: ${shown}`);
  };
  stage.on("options state compared run rigs scene mode", draw);
}

// The way out if a proxy serves the page below a path and the page's calls go past it; empty if they do not.
export function pastTheProxy() {
  const below = new URL(".", window.location.href).pathname;
  if (routeTo("").startsWith(below)) return "";
  const path = below.replace(/\/$/, "");
  return `A proxy serves this page below ${path}, but its requests go to another path; start Canopy with --root-path ${path}.`;
}

// Returns "here" if this program answers, "not yet" while it starts, "gone" if nothing answers, or no Gradio app.
export async function whoAnswers() {
  try {
    const answer = await fetch(routeTo("gradio_api/app_id"), { cache: "no-store" });
    if (answer.status === UNAVAILABLE) return "not yet";
    return answer.ok && "app_id" in await answer.json() ? "here" : "gone";
  } catch {
    return "gone";
  }
}
