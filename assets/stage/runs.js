// The list of runs at the left: this browser's latest runs, starred ones, and the recordings. A click opens a run, a tick
// overlays it on the shown one, a star keeps it in the browser even if the server forgets it.

import { merged, rangeText, ratioOf, ratioText } from "../panels/fastest.js";
import { action, button, bytesOf, html, methodColour, methodMark, write } from "../shared/ink.js";
import { knownRun } from "../shared/lines.js";
import { counted, letterOf, machineOf, settingOf, speedText, textOf, usedOf } from "../shared/round.js";
import { Stage } from "./stage.js";

const STORE = "canopy-runs";
const FILE_PREFIX = "canopy-run-file:"; // before the run's id: the trace file of a starred run, in base64
const OPEN = "canopy-runs-open";
const MAX_RUNS = 30; // without a star
const MAX_ROUNDS = 1024; // of an overlaid run
const MAX_BUDGET = 4096; // the largest that the server accepts
const SAMPLED_TEMPERATURE = 0.7; // for another answer to a turn that was answered greedily
const FULL = "The browser has no room for another starred run; remove a star, or save this run as a file.";

/** The list and the ticks as the browser has them now: another tab may have changed them.
 *  @returns {{ runs: RunPoint[], ticked: string[] }} */
const stored = () => ({ runs: [], ticked: [], ...JSON.parse(localStorage.getItem(STORE) ?? "{}") });

/** A run as its figures, and what each round kept and took. @param {Stage} stage @param {Header} header @returns {RunPoint} */
export function runPoint(stage, header) {
  const { value: { run }, run: { end }, rounds, figures, figuresBeforeRepetition: { tau }, speed, speedup } = stage;
  const shown = rounds.slice(0, MAX_ROUNDS);
  return {
    run, title: settingOf(header), method: header.method, prompt: header.prompt, budget: usedOf(header, rounds),
    tau, speed: speed.value, printed: speed.text, doubt: speed.doubt, ratio: speedup?.ratio, range: speedup?.range, machine: machineOf(header), options: header.options,
    answer: textOf(stage.run), first: end?.prefill_seconds ?? 0, drafted: 1 - rounds.length / figures.tokens,
    lengths: shown.map(({ keep }) => keep.length), spent: shown.map(({ spent }) => Number(spent.toPrecision(4))),
  };
}

/** The figures of an answer, small. @param {RunPoint} point */
export function figuresText(point) {
  const { title, tau, first = 0, drafted = 0 } = point;
  return [title, `τ ${tau.toFixed(2)}`, speedText(point), first > 0 && `first token after ${first.toFixed(2)} s`,
    drafted > 0 && `${Math.round(100 * drafted)} % drafted`].filter(Boolean).join(" · ");
}

/** The run that wrote a turn, if this browser has it in its list. @param {RunPoint[]} runs @param {Turns} turns @param {number} index */
export function runOfTurn(runs, turns, index) {
  const [role, text] = turns[index];
  if (role !== "assistant" || !index) return undefined;
  return runs.find(({ prompt, answer, options }) => answer === text && prompt === turns[index - 1][1] && options?.turns?.length === index - 1);
}

/** Other settings with which a turn can be answered; null stands for those of the bar. @param {RunPoint} point
 *  @returns {{ label: string, options: Setting | null }[]} */
export function otherSettings({ options = {} }) {
  const { budget = 0, temperature = 0, seed = 0, forced = [] } = options;
  const budgets = budget ? [2 * budget, budget >> 1].filter((nodes) => nodes > 0 && nodes <= MAX_BUDGET) : [];
  return [
    { label: `The settings in the bar${forced.length ? ", without the forced tokens" : ""}`, options: null },
    ...budgets.map((nodes) => ({ label: counted(nodes, "node"), options: { ...options, budget: nodes } })),
    ...(budget ? [{ label: "Plain decoding", options: { ...options, method: "autoregressive", budget: 0, drafters: [] } }] : []),
    { label: `Another seed, temperature ${temperature || SAMPLED_TEMPERATURE}`, options: { ...options, seed: seed + 1, temperature: temperature || SAMPLED_TEMPERATURE } },
  ];
}

/** How fast a run should be: as this browser measured its runs of the setting here, else as the server predicts; "" if unknown.
 *  @param {RunPoint[]} runs @param {RigState} rigs @param {Setting} bar */
export function expectedSpeed(runs, { rig, hardware, gains }, { method, budget = 0, pace = "fixed", temperature = 0 }) {
  const asked = String([method, budget, pace, temperature]);
  const ratios = runs.filter(({ machine, options: own }) => machine.startsWith(`${rig}, ${hardware}, `)
    && own && String([own.method, own.budget, own.pace, own.temperature]) === asked).flatMap((run) => ratioOf({ ...run, budget }));
  const [mean] = merged(ratios);
  if (mean) return `${ratioText(mean.ratio)}× plain in your ${ratios.length > 1 ? "runs" : "run"} (${rangeText(mean)})`;
  return method === "ddtree" && pace === "fixed" && !temperature ? gains[2 ** Math.round(Math.log2(budget))] ?? "" : "";
}

export class RunList {
  opener = /** @type {HTMLButtonElement | null} */ (null); // in the bar
  covers = matchMedia("(max-width: 1439px)"); // it lies over the page then, and the next page opens without it

  /** @param {Stage} stage @param {Recordings} recordings @param {Notices} notices */
  constructor(stage, recordings, notices) {
    this.stage = stage;
    this.recordings = recordings;
    this.notices = notices;
    const { runs, ticked } = stored();
    stage.ownRuns = runs;
    this.box = html("aside", { class: "cs-runs", "aria-label": "Runs", hidden: true }, document.body);
    const head = html("header", "", this.box);
    action(head, "Open a file …", "Open a trace file; or drop one anywhere", () => recordings.input.click());
    this.compareButton = action(head, "Compare", "Compare figures and texts of the ticked runs", () => {
      stage.setMode("lab", { push: true });
      stage.setTab("compare");
      this.toggle(false); // they need its room
    });
    button(head, "×", "Close the list", () => this.toggle(false));
    this.list = html("div", "cs-runs-list", this.box);
    if (localStorage.getItem(OPEN) === "yes" && !this.covers.matches) this.toggle(true);
    document.addEventListener("pointerdown", ({ target }) => {
      const isOutside = target instanceof Element && !target.closest(".cs-runs, dialog") && target !== this.opener;
      if (isOutside && this.covers.matches && !this.box.hidden) this.toggle(false);
    });
    stage.on("state compared", () => this.keepShown()); // its speed is known only then
    stage.on("run ticked recordings", () => this.draw());
    window.addEventListener("storage", ({ key }) => {
      if (key !== STORE) return;
      stage.ownRuns = stored().runs;
      this.draw();
    });
    ticked.reduce((before, run) => before.then(() => this.tick(run, true, true)), Promise.resolve()); // as far as the server still has them
  }

  toggle(open = Boolean(this.box.hidden)) {
    this.box.hidden = !open;
    try {
      if (!this.covers.matches) localStorage.setItem(OPEN, open ? "yes" : "no");
    } catch { /* no room: the next page opens with the list as it was */ }
    document.body.classList.toggle("cs-has-runs", open);
    if (this.opener) this.opener.ariaExpanded = String(open);
    if (open) this.draw();
  }

  // The button in the bar.
  addOpener(/** @type {HTMLElement} */ parent) {
    this.opener = action(parent, "Runs", "Your runs and the recordings", () => this.toggle());
    this.opener.ariaExpanded = String(!this.box.hidden);
  }

  // The run that is shown enters the list when it ends.
  keepShown() {
    const { stage } = this;
    const { value: { run, state }, header, rounds } = stage;
    if (!header || !["done", "stopped"].includes(state) || stage.recorded || !rounds.length) return;
    const point = { ...runPoint(stage, header), lengths: undefined, spent: undefined }; // read anew when it is ticked
    const before = stage.ownRuns.find((one) => one.run === run);
    if (before?.state === state && before.printed === point.printed && before.ratio === point.ratio && before.doubt === point.doubt) return;
    stage.overlaidRuns = stage.overlaidRuns.map((one) => (one.run === run ? { ...point, lengths: one.lengths, spent: one.spent } : one));
    this.store((runs) => {
      const old = runs.find((one) => one.run === run);
      Object.assign(point, { state, starred: old?.starred });
      let others = 0;
      return (old ? runs.map((one) => (one === old ? point : one)) : [point, ...runs]).filter(({ starred }) => starred || ++others <= MAX_RUNS);
    });
    this.draw();
  }

  /** Writes the ticks and the changed list. Files of runs without a star go, and the oldest of these runs if there is no room.
   *  @param {(runs: RunPoint[]) => RunPoint[]} change */
  store(change = (runs) => runs) {
    const { stage } = this;
    stage.ownRuns = change(stored().runs);
    const files = new Set(stage.ownRuns.filter(({ starred }) => starred).map(({ run }) => FILE_PREFIX + run));
    for (const key of Object.keys(localStorage)) if (key.startsWith(FILE_PREFIX) && !files.has(key)) localStorage.removeItem(key);
    const ticked = stage.overlaidRuns.map(({ run }) => run);
    for (;;) {
      try {
        localStorage.setItem(STORE, JSON.stringify({ runs: stage.ownRuns, ticked }));
        return;
      } catch {
        const oldest = stage.ownRuns.findLast(({ starred }, index) => index && !starred);
        if (!oldest) return this.notices.fail(FULL);
        stage.ownRuns = stage.ownRuns.filter((one) => one !== oldest);
      }
    }
  }

  /** Overlays a run on the shown one, or removes it. @param {string} run @param {boolean} on */
  async tick(run, on, quiet = false) {
    const { stage } = this;
    let point = /** @type {RunPoint | null} */ (null);
    if (on) {
      const other = run === stage.value.run ? stage : new Stage();
      if (other !== stage) await other.follow(knownRun(run));
      if (other.header && other.rounds.length) point = runPoint(other, other.header);
      else point = stage.ownRuns.find((one) => one.run === run) ?? null; // the server has forgotten its rounds
      if (!point && !quiet) this.notices.fail(other.refusal);
    }
    stage.overlaidRuns = [...stage.overlaidRuns.filter((one) => one.run !== run), ...(point ? [point] : [])];
    this.store();
    if (!quiet) stage.linkedRuns = [];
    stage.emit("ticked");
  }

  async star(/** @type {RunPoint} */ point) {
    const { stage: { server }, recordings, notices } = this;
    const { run } = point;
    if (!point.starred) {
      const file = server && await recordings.answer(() => server.export({ kind: "trace", run, round: 0 }));
      if (!file) return;
      try {
        localStorage.setItem(FILE_PREFIX + run, JSON.stringify({ name: file.name, data: file.data }));
      } catch {
        return notices.fail(FULL);
      }
    }
    this.store((runs) => runs.map((one) => (one.run === run ? { ...one, starred: !point.starred } : one)));
    this.draw();
  }

  // A run that the server has forgotten comes from its file, or can be run again.
  async open(/** @type {{ run: string, starred?: boolean, options?: Setting }} */ { run, options }) {
    const { recordings, stage } = this;
    stage.linkedRuns = [];
    if (stage.mode === "lab") stage.setMode("workbench", { push: true });
    if (run === recordings.followedRuns[0]) recordings.follow();
    else if (!await recordings.open(run, { push: true })) {
      const { name, data } = JSON.parse(localStorage.getItem(FILE_PREFIX + run) ?? "{}");
      if (data) await recordings.read(new File([bytesOf(data)], name));
      else if (options) stage.emit("offerRerun", options);
    }
  }

  draw() {
    const { stage, recordings: { followedRuns, listed } } = this;
    write(this.compareButton, `Compare${stage.overlaidRuns.length > 1 ? ` (${stage.overlaidRuns.length})` : ""}`);
    this.compareButton.disabled = stage.overlaidRuns.length < 2;
    if (this.box.hidden) return;
    /** @type {[string, HTMLElement[]][]} */
    const groups = [
      ["In the followed folder", followedRuns.map((run, index) => this.row({ run, method: "" }, run, index ? "" : "newest, followed"))],
      ["Yours", stage.ownRuns.map((point) => this.row(point, point.prompt ?? "", figuresText(point)))],
      ["Recorded", listed.map((recording) => this.row({ run: recording.name, method: recording.method }, recording.title,
        `${settingOf(recording)} · τ ${recording.tau?.toFixed(1) ?? "–"}`))],
    ];
    const controls = () => Array.from(this.list.querySelectorAll("button, input"));
    const focused = controls().indexOf(document.activeElement);
    this.list.replaceChildren();
    for (const [heading, rows] of groups.filter(([, rows]) => rows.length)) {
      html("h2", "", this.list, heading);
      html("ul", "", this.list).append(...rows);
    }
    controls()[focused]?.focus();
  }

  /** @param {Pick<RunPoint, "run" | "method"> & Partial<RunPoint>} point @param {string} label @param {string} note */
  row(point, label, note) {
    const { stage } = this;
    const { run } = point;
    const item = html("li", "cs-run");
    item.style.setProperty("--o", methodColour(point.method));
    const index = stage.overlaidRuns.findIndex((one) => one.run === run);
    const tick = html("input", { type: "checkbox", checked: index >= 0, title: "Overlay this run on the shown one", "aria-label": `Overlay: ${label}` }, item);
    tick.addEventListener("change", () => this.tick(run, tick.checked));
    const opener = html("button", { type: "button", class: "cs-run-open", title: label }, item);
    html("span", "cs-run-prompt", opener, index < 0 ? label : `${letterOf(index)}: ${label}`);
    const small = html("small", "", opener);
    methodMark(point.method, small);
    small.append(note);
    if (run === stage.value.run) opener.setAttribute("aria-current", "true");
    opener.addEventListener("click", () => this.open(point));
    if (!point.options) return item;
    const star = button(item, point.starred ? "★" : "☆", `Keep in this browser: ${label}`, () => this.star(/** @type {RunPoint} */ (point)), "cs-star");
    star.setAttribute("aria-pressed", String(Boolean(point.starred)));
    return item;
  }
}
