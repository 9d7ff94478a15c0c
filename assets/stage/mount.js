// Puts the page together: on the live page over Gradio's props, in a replay file over the data inside it.

import { panels } from "../shared/define.js";
import { METHODS } from "../methods.js";
import { html, pause, write } from "../shared/ink.js";
import { knownRun, linesIn, site } from "../shared/lines.js";
import "../panels/panels.js";
import { Address } from "./address.js";
import { bar, followTheme } from "./bar.js";
import { controls, mountNextRunNote, pastTheProxy, promptField, typeInto, whoAnswers } from "./controls.js";
import { Conversation } from "./conversation.js";
import { Duel } from "./duel.js";
import { Film } from "./film.js";
import { Frames } from "./frames.js";
import { helpSheet, Keys } from "./keys.js";
import { Recordings } from "./recordings.js";
import { metrics } from "./metrics.js";
import { ConnectionMonitor, Notices } from "./notices.js";
import { modelLine, Rigs, suggestRig } from "./rigs.js";
import { Player } from "./player.js";
import { present } from "./presenter.js";
import { RunList } from "./runs.js";
import { Save } from "./save.js";
import { Search } from "./search.js";
import { fasterButton, compareRuns, slowdownNote } from "./slowdown.js";
import { Stage } from "./stage.js";
import { story } from "./story.js";
import { TextPanel } from "./text.js";
import { Timeline } from "./timeline.js";
import { Tour } from "./tour.js";

const TEXT = {
  name: "text", title: "Text", caption: "Coloured by who guessed.",
  legend: /** @type {LegendEntry[]} */ ([
    { glyph: "■", label: "target", color: "--target", title: "The target's own tokens" },
    { glyph: "■", label: "drafter 1", color: "--drafter1", origin: "drafter1" },
    { glyph: "■", label: "drafter 2", color: "--drafter2", origin: "drafter2" },
    { glyph: "■", label: "both", color: "--both", origin: "both", title: "Guessed by both drafters" },
  ]),
};

/** What the server gives the page: prompts that each rig answers right, the recording to open with, and whether a file is
 *  followed. @typedef {{ recordings: Recording[], opening: string, followed: boolean, shares: boolean,
 *    vetted: Record<string, VettedPrompt[]> }} Props */
/** Triggers events of the Gradio components in the bar. @typedef {{ adopt: (setting: Setting) => void, rig: () => void }} BarTriggers */

/** @param {Stage} stage @param {HTMLElement} header @param {HTMLElement} host @param {Pick<Props, "recordings" | "shares">} given */
function build(stage, header, host, { recordings: listed, shares }) {
  followTheme();
  document.body.classList.toggle("cs-presenting", new URLSearchParams(window.location.search).has("present"));
  const root = html("div", "cs-stage", host);
  const notices = new Notices(stage, root);
  const lost = stage.server ? new ConnectionMonitor(stage, notices) : null;
  const storyBox = story(stage, root);
  metrics(stage, root);
  const plainly = slowdownNote(stage, notices.box);
  const player = new Player(stage);
  const frames = new Frames(stage, root);
  const text = frames.frame(frames.upper, 0.72, TEXT);
  new TextPanel(stage, text.body, text.tools);
  for (const panel of panels.values()) frames.panel(panel);
  const film = new Film(stage, root, storyBox, new Duel(stage, frames.area, () => film.leave()), player);
  const timeline = new Timeline(stage, player, root);
  const recordings = new Recordings(stage, player, notices, listed);
  fasterButton(stage, plainly);
  const parts = /** @type {Parts} */ ({
    stage, player, frames, timeline, recordings, notices, lost, film, ready: false,
    search: new Search(stage, player, timeline.search),
    runs: stage.server && new RunList(stage, recordings, notices), conversation: stage.server && new Conversation(stage, text.tools),
    rigs: stage.server && new Rigs(stage, notices),
  });
  parts.save = new Save(parts, shares);
  parts.tour = stage.server && new Tour(parts);
  parts.keys = new Keys(parts);
  parts.help = helpSheet(parts.keys.table);
  bar(stage, header, parts);
  parts.address = new Address(stage, recordings, frames);
  trackMode(stage, root);
  return parts;
}

/** The mode and the state as attributes, for the style sheet. @param {Stage} stage @param {HTMLElement} root */
function trackMode(stage, root) {
  const mark = () => {
    document.body.dataset.canopyMode = root.dataset.mode = stage.mode;
    document.body.dataset.canopyState = root.dataset.state = stage.state;
    root.classList.toggle("is-recorded", stage.recorded);
    root.classList.toggle("is-earlier", Boolean(stage.pending) && stage.rounds.length > 0);
  };
  stage.on("mode state", mark);
  mark();
}

// Opens the view in the address, else the run that was lost, else the recording `name`, which `opening` streams.
/** @param {Parts} parts @param {RunLines} opening @param {string} name */
async function begin(parts, opening, name) {
  const { stage, address, notices, film } = parts;
  const opened = Address.opened;
  const { run: lostRun, resumeAction } = controls.handover;
  stage.on("state", () => stage.pending && document.body.classList.add("cs-ready")); // at the latest when a run is requested
  stage.settings = { method: opened.method ?? undefined, budget: opened.budget ?? undefined, ...stage.settings }; // the bar may have been first
  stage.setMode(opened.mode);
  if (lostRun) stage.read(lostRun);
  else if (name && (!opened.trace || opened.trace === name)) await stage.follow(opening);
  const restored = await address.restore();
  if (opened.trace === name) stage.emit("opened", {});
  if (opened.trace && opened.trace !== stage.value.run && opened.ask) stage.emit("offerRerun", opened.ask);
  if (!stage.rounds.length && name) {
    const linkError = notices.error.message;
    await stage.follow(opening);
    if (linkError && !opened.ask) notices.fail(linkError); // the fallback run must not clear the error of the linked run
  }
  if (lostRun) notices.runAgain("The server answers again; this run broke off with it.");
  if (lostRun ? resumeAction === "card" : !embed(parts) && (!restored || resumeAction)) film.open(resumeAction);
  stage.emit("mode", { push: false });
  document.body.classList.add("cs-ready"); // takes the cover away
  parts.ready = true;
}

// In a frame of another page: `?panel=tree,mask` shows these panels alone, `&bare` nothing around them, `&round=5` that round.
// Returns whether the address asks for any of it.
function embed(/** @type {Parts} */ { stage, frames }) {
  const query = new URLSearchParams(window.location.search);
  const all = Array.from(frames.area.querySelectorAll("[data-panel]"));
  const shown = all.filter((frame) => (query.get("panel") || "").split(",").includes(frame.dataset.panel));
  if (shown.length) {
    stage.setMode("workbench");
    for (const part of [...all, ...frames.area.querySelectorAll(".cs-divider")]) part.classList.toggle("is-left-out", !shown.includes(part));
    for (const row of [frames.upper, frames.lower]) row.classList.toggle("is-left-out", !shown.some((frame) => row.contains(frame)));
  }
  document.body.classList.toggle("cs-bare", query.has("bare"));
  if (query.has("round")) stage.go((parseInt(query.get("round") ?? "", 10) || 1) - 1, {});
  return shown.length > 0 || query.has("bare") || query.has("round");
}

/** @param {HTMLElement} element @param {Props} props @param {Server} server @param {BarTriggers} triggers */
function open(element, props, server, triggers) {
  if (element.querySelector(".cs-stage")) return;
  const stage = new Stage();
  stage.server = server;
  const header = document.querySelector("#canopy-header .canopy-host") || element;
  const parts = controls.parts = build(stage, header, element.querySelector(".canopy-host"), { recordings: Array.from(props.recordings), shares: props.shares });
  const { notices, recordings, conversation, rigs, runs } = parts;
  controls.adopt = triggers.adopt;
  const touch = (/** @type {Event} */ { isTrusted, target }) => {
    controls.touched ||= isTrusted && target instanceof Element && target.matches(":is(#canopy-ask, #canopy-settings) *");
  };
  document.addEventListener("input", touch);
  document.addEventListener("mousedown", touch); // in a list
  window.addEventListener("pagehide", () => controls.touched && controls.keepForReload({ bar: controls.bar }));
  // A run that is opened fills the bar, so that Run repeats it live; if an address named it, the setting in that
  // address takes precedence over the run's own.
  stage.on("opened", ({ push }) => {
    if (!stage.header || stage.header.engine) return;
    const options = stage.header.options;
    if (!push && !parts.ready && (controls.touched || typeof controls.handover.prompt === "string")) return; // the bar keeps its values
    const address = Address.read();
    const named = push || address.trace !== stage.value.run ? null : address;
    controls.filled = true;
    triggers.adopt({ ...options, method: named?.method || options.method, budget: named?.budget ?? options.budget });
    conversation?.setTurns(stage.header.turns);
  });
  stage.on("budget", (budget) => typeInto(document.querySelector("#canopy-budget input"), budget)); // tried out in its panel
  stage.on("state", () => controls.presetWaits && !stage.busy && controls.runPreset());
  const lines = Object.entries(METHODS).map(([name, { summary }]) => `.option-list [aria-label="${name}"] { flex-wrap: wrap; &::after { content: ${JSON.stringify(summary)}; } }`);
  html("style", "", document.head, lines.join("\n")); // a line under each method's name in its list
  stage.on("branch", (node) => controls.branch(node));
  stage.on("alternative", ({ node, token }) => controls.branch(node, token));
  stage.on("unbranch", () => recordings.open(stage.parentRun));
  stage.on("rigs", () => { stage.loadedRig = rigs?.state?.rig ?? ""; });
  compareRuns(stage);
  stage.on("fillBar", (setting) => {
    triggers.adopt(setting);
    notices.brief("The setting is in the bar: press Run.");
  });
  if (rigs) {
    suggestRig(stage, notices, rigs);
    mountNextRunNote(stage, rigs);
  }
  const vetted = (/** @type {string} */ rig) => Array.from(props.vetted[rig] || props.vetted.any);
  const runVetted = (/** @type {VettedPrompt} */ { label, ...options }) => {
    conversation?.setTurns([]);
    triggers.adopt({ ...options, prompt: stage.mode === "story" ? "" : options.prompt, drafters: [] }); // there the next prompt is the next turn
    controls.start(options);
  };
  modelLine(stage, parts.frames.area.querySelector(".cs-frame-text"), rigs, vetted("demo"), runVetted);
  const { resumeAction, prompt, left, bar } = controls.handover;
  stage.on("openRun", (point) => runs?.open(point));
  stage.on("offerRerun", controls.offerRerun);
  controls.runAfterReload();
  if (resumeAction === "runs") controls.runWhen(prompt);
  stage.on("rigLoaded", triggers.rig); // the page's first rig is loaded: its methods, presets and drafters
  const beginWithRig = async () => {
    await rigs?.known; // somebody may have changed the rig since the server began with `props.opening`
    const ofRig = props.opening && recordings.firstOf(rigs?.state?.rig ?? "");
    const opening = recordings.opening = controls.handover.opening || ofRig || props.opening;
    if (document.body.classList.contains("cs-presenting")) present(parts, opening, vetted, runVetted);
    await begin(parts, knownRun(opening), opening);
    const isOtherRig = opening !== props.opening && stage.value.run === opening;
    if (isOtherRig && !controls.touched && typeof controls.handover.prompt !== "string") typeInto(promptField(), stage.header?.prompt ?? "");
    if (left) notices.news.say("Another rig answers now; the run that you looked at is in the list of runs.", "Show the list", () => runs?.toggle(true));
    if (props.followed) recordings.follow();
  };
  beginWithRig().then(() => bar && triggers.adopt({ ...bar, prompt: promptField()?.value ?? prompt, drafters: [] }));
}

// `view`: the address to open with, if the page's own has none.
function openReplay(view = "") {
  if (view && !window.location.hash) {
    window.history.replaceState(null, "", view);
    Address.opened = Address.read();
  }
  const stage = new Stage();
  const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
  const parts = controls.parts = build(stage, find("canopy-header"), find("canopy-stage"), { recordings: [], shares: false });
  modelLine(stage, parts.frames.area.querySelector(".cs-frame-text"), null, [], () => undefined);
  const lines = linesIn(find("canopy-data").textContent ?? "");
  begin(parts, async function* opening() { yield lines; }, lines.length && lines[0].run);
  return parts;
}

// The page of the first seconds, while the server builds the other one: the recording plays, and what is typed is kept. It
// leaves once a film was seen to its end, and nobody types.
const STILL_MS = 1200;
const POLL_MS = 500;
const WAITS = "The page is almost ready; your run begins by itself then.";

async function openFirst(/** @type {string} */ root) {
  site.root = root;
  const { film, player, stage } = openReplay();
  const { hash } = window.location; // as it was opened: the view that the other page restores
  const form = html("form", "cs-opening", null);
  document.getElementById("canopy-stage")?.before(form);
  const field = html("textarea", { rows: 1, placeholder: "Ask something …", "aria-label": "Prompt" }, form);
  const status = html("p", { role: "status" }, form);
  let runs = false;
  let typed = 0;
  field.addEventListener("input", () => { typed = Date.now(); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    runs = Boolean(field.value.trim());
    write(status, runs ? WAITS : "");
  });
  const free = () => (runs || !film.timer) && Date.now() - typed > STILL_MS;
  const missing = () => pastTheProxy() || "The server does not answer; trying again.";
  for (let who = ""; who !== "here" || !free(); who = await whoAnswers()) {
    write(status, who === "gone" ? missing() : runs ? WAITS : "");
    await pause(POLL_MS);
  }
  // the other page must not take what this one wrote there for a link
  const view = stage.mode === "story" ? window.location.pathname + window.location.search : `#mode=${stage.mode}`;
  window.history.replaceState(null, "", hash || view);
  controls.handOver(field.value, runs ? "runs" : stage.scene === "card" ? "card" : !hash && player.playing ? "plays" : null);
}

// What Gradio's components, replay files and tests call.
window.Canopy = { open, openReplay, openFirst, controls, Stage, panels, get parts() { return controls.parts; } };
