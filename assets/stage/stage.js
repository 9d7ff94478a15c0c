// The stage: what is shown, which round, which node. Nothing in this file touches the document, so that a live page and
// a replay file share it.

import { EventEmitter } from "../shared/events.js";
import { inTurn } from "../shared/ink.js";
import { figuresOf, rateText, readRound, Run } from "../shared/round.js";

const BUSY = ["queued", "running"];
const STOPPED = "The run was stopped before its first token.";
const NOTHING = "The text ended before its first token; ask something else, or change the temperature or the seed.";

/** @import { About, PlainComparison, StateLine } from "../types.d.ts" */
/** A run that was asked for and has no round yet.
 *  @typedef {Pick<RunValue, "run" | "state" | "message"> & { prompt: string, turns: [string, string][] }} PendingRun */

export const modes = ["story", "workbench"]; // the views; the lab adds its own if there is a server

/** @extends {EventEmitter<StageEvents>} */
export class Stage extends EventEmitter {
  run = new Run(""); // that is shown: its lines decoded
  value = /** @type {RunValue} */ ({ run: "", state: "empty", message: "", followed: false }); // and how it stands
  /** The run being received: `run`, or a new one before its first round; how it stands, and what is known of it. */
  incoming = { run: this.run, state: /** @type {StateLine} */ ({ run: "", state: "done", message: "" }), about: /** @type {About} */ ({}) };
  about = /** @type {About} */ ({}); // what is known of the run that is shown
  reading = /** @type {AbortController | undefined} */ (undefined);
  elsewhere = false; // whether another run than the followed one is shown or requested
  pending = /** @type {PendingRun | null} */ (null);
  refusal = ""; // why the latest run failed
  current = -1;
  pinned = /** @type {number | null} */ (null);
  hovered = /** @type {number | null} */ (null);
  selection = /** @type {NodeSelection} */ ({ node: null, pinned: false });
  following = true; // a live run shows its newest round until a person chooses another
  animate = false; // true for a step that is to be animated, false while scrubbing
  mode = "story";
  tab = ""; // of the lab
  resting = false; // shows the representative round of a finished run
  scene = ""; // of the film
  /** A budget that is tried out on the round that is shown: the round with it, or why there is none. */
  trial = { budget: /** @type {number | null} */ (null), round: /** @type {Round | null} */ (null), error: "" };
  retune = inTurn(() => this.redraft());
  settings = /** @type {Setting} */ ({}); // as the controls have them
  kept = /** @type {RunPoint[]} */ ([]); // this browser's runs, the latest first
  ticked = /** @type {RunPoint[]} */ ([]); // the runs that are laid over the one that is shown
  beside = /** @type {RunPoint | null} */ (null); // another answer to the same turn
  sought = /** @type {Set<number>} */ (new Set()); // the tokens that a search has found
  server = /** @type {Server | null} */ (null);
  loaded = ""; // the name of the rig that answers
  branch = /** @type {{ run: string, prompt_ids: number[] } | null} */ (null); // the run left last, and what went on from it
  comparison = /** @type {PlainComparison | null} */ (null);
  comparing = ""; // progress or error of the comparison

  // Whether the shown run is in progress.
  get live() {
    return BUSY.includes(this.value.state);
  }

  // Whether a run can begin at a node of the round that is shown: only the rig that drafted it knows its tokens.
  get canBranch() {
    const recordedSoFar = this.actual?.index === this.current; // no round before it is missing
    return Boolean(this.server && this.header && !this.header.engine && !this.busy && !this.trial.round && recordedSoFar) && this.header?.rig === this.loaded;
  }

  // The run that the shown one branched off, or "" if that is not known.
  get left() {
    const { branch, header } = this;
    return branch && String(branch.prompt_ids) === String(header?.prompt_ids) ? branch.run : "";
  }

  // Whether a token ends the text, so that a run cannot be forced to go on with it.
  ends(/** @type {number} */ token) {
    return Boolean(this.header?.stop_ids.includes(token));
  }

  // Whether a run is in progress or pending.
  get busy() {
    return Boolean(this.pending) || this.live;
  }

  // The state of the pending run if there is one, else of the shown run.
  get state() {
    return (this.pending || this.value).state;
  }

  get rounds() {
    return this.run.rounds;
  }

  get header() {
    return this.run.header;
  }

  /** Shows the prompt of a requested run; the current run stays until its first round.
   *  @param {string} prompt @param {[string, string][]} turns */
  ask(prompt, turns) {
    this.refusal = "";
    this.pending = { run: "", prompt, turns, state: "running", message: "Waiting for the server …" };
    this.emit("asked");
    this.emit("state");
  }

  // The requested run failed. The one that is shown is read no longer.
  refuse(/** @type {string} */ message) {
    this.pending = null;
    if (this.live) this.value = { ...this.value, state: "stopped", message: "" };
    this.refusal = message;
    this.emit("refused", message);
    this.emit("state");
  }

  // The connection is lost. The text so far stays as an interrupted run.
  lose(/** @type {string} */ message) {
    this.pending = null;
    this.refusal = message;
    this.say(this.live ? "lost" : this.value.state, this.live ? "" : this.value.message);
    this.emit("lost");
  }

  /** Sets the state and the message of the run that is shown, without an update of the server.
   *  @param {RunValue["state"]} state @param {string} message */
  say(state, message) {
    this.value = { ...this.value, state, message };
    this.emit("state");
  }

  // Its figures so far: see ``figuresOf``.
  get figures() {
    return figuresOf(this.rounds);
  }

  // The figures before the text begins to loop; τ and speed are computed from these.
  get measured() {
    return figuresOf(this.fresh);
  }

  // Where the text begins to loop, {token, round, words}, or null.
  get repetition() {
    const { repetition } = this.about;
    return repetition && repetition.round < this.rounds.length ? repetition : null;
  }

  // The rounds before the text repeats itself.
  get fresh() {
    return this.repetition ? this.rounds.slice(0, this.repetition.round) : this.rounds;
  }

  // Tokens per second, {text: as printed, value: as drawn}: measured interleaved with plain decoding if it was, else
  // by the run's own clock; the value is null if the speed-up is withheld.
  get speed() {
    const { against, comparison, measured } = this;
    if (against) return { text: against.speed, value: Number(against.speed) };
    const text = (this.withheld && comparison?.speed.speed) || rateText(measured.tokensPerSecond);
    return { text, value: this.withheld ? null : measured.tokensPerSecond };
  }

  // Why a compared run has no speed-up, or "".
  get withheld() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" ? comparison.speed.withheld : "";
  }

  // The round that is shown: as it was run, or as it would have been at the budget that is tried out.
  get round() {
    return this.trial.round || this.actual;
  }

  get actual() {
    return this.rounds[this.current] || null;
  }

  // Whether a finished run is shown at its end: its last round, or its representative one.
  get atEnd() {
    return !this.busy && this.rounds.length > 1 && (this.resting || this.current === this.rounds.length - 1);
  }

  // Shows the representative round of a finished run.
  rest(/** @type {number} */ index) {
    this.go(index, { animate: true });
    this.resting = true;
    this.emit("round", { moved: false, push: false });
  }

  get recorded() {
    return Boolean(this.header?.recorded);
  }

  get reducedMotion() {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  /** Switches to another stream of lines. Resolves to whether its run is shown: a live one from its first round on.
   *  @param {RunLines} lines @returns {Promise<boolean>} */
  follow(lines) {
    this.reading?.abort();
    const { signal } = this.reading = new AbortController();
    this.elsewhere = true;
    this.refusal = "";
    return new Promise((shown) => { this.readAll(lines, signal, shown).then(shown); });
  }

  /** @param {RunLines} lines @param {AbortSignal} signal @param {(shown: boolean) => void} shown */
  async readAll(lines, signal, shown) {
    try {
      for await (const some of lines(signal)) {
        if (signal.aborted) return false;
        this.read(some);
        if (this.live && this.incoming.run === this.run) shown(true);
      }
    } catch {
      if (!signal.aborted) this.emit("broken");
      return false;
    }
    if (this.incoming.run === this.run && !this.pending) return true;
    this.refuse(this.incoming.run.end ? NOTHING : this.incoming.state.message || STOPPED);
    return false;
  }

  /** Handles received lines. A new run replaces the current one at its first round, so a run that fails earlier changes
   *  nothing. @param {import("../types.d.ts").StreamLine[]} lines */
  read(lines, followed = false) {
    const { incoming } = this;
    let begun = false;
    for (const line of lines) {
      if ("state" in line) {
        incoming.state = line;
        if (line.run !== incoming.run.name) incoming.run = line.run === this.run.name ? this.run : new Run(line.run);
        if (incoming.run === this.run) this.value = { ...this.value, state: line.state, message: line.message };
      } else if ("about" in line) {
        if (incoming.run === this.run) this.setComments(line.about);
        else incoming.about = line.about;
      } else {
        if ("header" in line) incoming.run = new Run(incoming.state.run);
        incoming.run.read(line);
      }
      if ("round" in line && incoming.run !== this.run) {
        this.begin(followed);
        begun = true;
      }
    }
    if (incoming.run !== this.run) return this.showPending();
    this.emit("value", { other: begun });
    this.emit("state");
    this.settle(begun);
  }

  setComments(/** @type {About} */ about) {
    this.about = about;
    this.comparison = about.comparison || this.comparison;
  }

  // Shows a run without rounds as pending.
  showPending() {
    const { state, run, message } = this.incoming.state;
    if (!BUSY.includes(state)) return;
    const { prompt, turns } = this.incoming.run.header || this.pending || { prompt: "", turns: [] };
    this.pending = { run, prompt, turns, state, message: message || "Reading the prompt …" };
    this.emit("state");
  }

  begin(/** @type {boolean} */ followed) {
    this.pending = null;
    this.run = this.incoming.run;
    this.value = { ...this.incoming.state, followed };
    this.current = -1;
    this.unselect();
    this.trial = { budget: null, round: null, error: "" };
    this.comparison = null;
    this.comparing = "";
    this.setComments(this.incoming.about);
    this.incoming.about = {};
    this.following = this.live;
    this.emit("begin");
  }

  /** Stores the server's comparison, if its run is still shown.
   *  @param {string} run @param {PlainComparison} comparison */
  compared(run, comparison) {
    if (run === this.value.run) this.comparison = comparison;
    this.emit("compared");
  }

  // The printed speed-up over plain decoding; null if unknown or withheld.
  get against() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" && !this.withheld ? comparison.speed : null;
  }

  settle(/** @type {boolean} */ other) {
    const last = this.rounds.length - 1;
    const arrived = this.following && last >= 0 && last !== this.current;
    if (arrived && this.paced) this.emit("arrived");
    else if (arrived) this.go(last, { follow: true, animate: true });
    else if (other) this.go(0, { follow: this.following });
  }

  // Whether a live run is played at reading speed.
  get paced() {
    return this.mode === "story" && !this.recorded && !this.reducedMotion && !this.value.followed;
  }

  /** Shows a round. `follow` keeps up with a live run, `animate` shows it growing, `push` lets Back return here.
   *  @param {number} index @param {{ follow?: boolean, animate?: boolean, push?: boolean }} [how] */
  go(index, { follow = false, animate = false, push = false } = {}) {
    const place = Math.max(Math.min(0, this.rounds.length - 1), Math.min(this.rounds.length - 1, index));
    const moved = place !== this.current;
    this.resting = false;
    this.following = follow;
    this.animate = animate;
    if (moved) {
      this.current = place;
      this.unselect();
      this.trial.round = null;
    }
    this.emit("round", { moved, push });
    if (moved) this.emit("select", this.selection);
    if (moved && this.trial.budget !== null) this.retune();
  }

  // Shows rounds as they would have been at another budget; null goes back to the actual ones.
  tune(/** @type {number | null} */ budget) {
    this.trial.budget = budget;
    return this.retune();
  }

  async redraft() {
    const { trial: { budget }, current, header, value: { run } } = this;
    const line = budget === null || !this.actual || !this.server ? null : await this.server.round_at({ run, round: current, budget });
    if (run !== this.value.run || current !== this.current || budget !== this.trial.budget) return;
    const error = line && "error" in line ? line.error : "";
    const round = line && header && !("error" in line) ? { ...readRound(line, header, this.run.pieces), budget } : null;
    this.trial = { budget, round, error };
    this.unselect();
    this.emit("round", { moved: false, push: false });
    this.emit("select", this.selection);
  }

  hover(/** @type {number | null} */ node) {
    this.hovered = this.has(node) ? node : null;
    this.choose();
  }

  // Toggles the pin of a node.
  pin(/** @type {number | null} */ node) {
    this.pinned = this.has(node) && node !== this.pinned ? node : null;
    this.hovered = null;
    this.choose();
    this.emit("pin", this.pinned);
  }

  has(/** @type {number | null} */ node) {
    return this.round !== null && node !== null && Number.isInteger(node) && node >= 0 && node < this.round.n;
  }

  unselect() {
    this.pinned = this.hovered = null;
    this.selection = { node: null, pinned: false };
  }

  choose() {
    const node = this.hovered === null ? this.pinned : this.hovered;
    const pinned = node !== null && node === this.pinned;
    if (node === this.selection.node && pinned === this.selection.pinned) return;
    this.selection = { node, pinned };
    this.emit("select", this.selection);
  }

  /** @param {string | null} mode @param {{ push?: boolean }} [how] */
  setMode(mode, how = {}) {
    if (mode === null || !modes.includes(mode)) return;
    const moved = mode !== this.mode;
    this.mode = mode;
    if (this.trial.budget !== null) this.tune(null);
    this.emit("mode", { moved, push: Boolean(how.push) });
  }

  setTab(/** @type {string} */ tab) {
    this.tab = tab;
    this.emit("tab", tab);
  }

  // Returns the run to stop, or "". Its last lines are still read, because it may already have finished.
  halt() {
    const { pending, value: { run } } = this;
    if (pending) {
      this.reading?.abort();
      this.pending = null;
      this.emit("withdrawn");
      this.emit("state");
      return pending.run;
    }
    if (!this.live) return "";
    this.say("stopped", "");
    return run;
  }
}
