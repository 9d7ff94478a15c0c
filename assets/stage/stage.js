// The state of the page: which run, round and node are shown. Nothing in this file touches the document, so that a live
// page and a replay file share it.

import { EventEmitter } from "../shared/events.js";
import { oneAtATime } from "../shared/ink.js";
import { DecodedRun, figuresOf, letterOf, rateText, readRound } from "../shared/round.js";

const BUSY = ["queued", "running"];
const STOPPED = "The run was stopped before its first token.";
const NOTHING = "The text ended before its first token; ask something else, or change the temperature or the seed.";

/** A run that was asked for and has no round yet.
 *  @typedef {Pick<RunValue, "run" | "state" | "message"> & { prompt: string, turns: [string, string][] }} RequestedRun */

export const modes = ["story", "workbench"]; // the views; the lab adds its own if there is a server

/** @extends {EventEmitter<StageEvents>} */
export class Stage extends EventEmitter {
  run = new DecodedRun(""); // the run that is shown
  value = /** @type {RunValue} */ ({ run: "", state: "empty", message: "", followed: false }); // its name, state and message
  /** The run being received: `run`, or a new one before its first round; its state, and what the server says about it. */
  incoming = { run: this.run, state: /** @type {StateLine} */ ({ run: "", state: "done", message: "" }), about: /** @type {About} */ ({}) };
  about = /** @type {About} */ ({}); // what the server says about the run that is shown
  reader = /** @type {AbortController | undefined} */ (undefined);
  leftFollowedRun = false; // whether another run than the followed one is shown or requested
  pending = /** @type {RequestedRun | null} */ (null);
  refusal = ""; // why the latest run failed
  current = -1;
  pinned = /** @type {number | null} */ (null);
  hovered = /** @type {number | null} */ (null);
  selection = /** @type {NodeSelection} */ ({ node: null, pinned: false, round: null });
  following = true; // a live run shows its newest round until a person chooses another
  animate = false; // true for a step that is to be animated, false while scrubbing
  mode = "story";
  tab = ""; // of the lab
  atRepresentative = false; // shows the representative round of a finished run
  scene = ""; // of the film
  /** A budget that is tried out on the round that is shown: the round with it, or why there is none. */
  budgetPreview = { budget: /** @type {number | null} */ (null), round: /** @type {Round | null} */ (null), error: "" };
  draftAgain = oneAtATime(() => this.redraft());
  settings = /** @type {Setting} */ ({}); // as the controls have them
  ownRuns = /** @type {RunPoint[]} */ ([]); // this browser's runs, the latest first
  overlaidRuns = /** @type {RunPoint[]} */ ([]); // the runs that are laid over the one that is shown
  linkedRuns = /** @type {string[]} */ ([]); // the names of those that a link asks the lab to compare
  otherAnswer = /** @type {RunPoint | null} */ (null); // another answer to the same turn
  foundTokens = /** @type {Set<number>} */ (new Set()); // the tokens that a search has found
  keyNode = /** @type {number | null} */ (null); // the node of the mask's column under the pointer
  server = /** @type {Server | null} */ (null);
  loadedRig = ""; // the name of the rig that answers
  branch = /** @type {{ run: string, prompt_ids: number[] } | null} */ (null); // the latest run that was branched off, and the branch's prompt
  comparison = /** @type {PlainComparison | null} */ (null);
  comparing = ""; // progress or error of the comparison

  // Whether the shown run is in progress.
  get live() {
    return BUSY.includes(this.value.state);
  }

  // Whether a run can begin at a node of the shown round: only the rig that drafted it knows its tokens.
  get canBranch() {
    const recordedSoFar = this.recordedRound?.index === this.current; // no round before it is missing
    return Boolean(this.server && this.header && !this.header.engine && !this.busy && !this.budgetPreview.round && recordedSoFar) && this.header?.rig === this.loadedRig;
  }

  // The name of the run that the shown one branched off; "" if unknown.
  get parentRun() {
    const { branch, header } = this;
    return branch && String(branch.prompt_ids) === String(header?.prompt_ids) ? branch.run : "";
  }

  // Whether a token ends the text, so that a run cannot be forced to go on with it.
  endsText(/** @type {number} */ token) {
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
  showRequested(prompt, turns) {
    this.refusal = "";
    this.linkedRuns = [];
    this.pending = { run: "", prompt, turns, state: "running", message: "Waiting for the server …" };
    this.emit("requested");
    this.emit("state");
  }

  // Says why the requested run failed, and reads the shown one no longer.
  failRequest(/** @type {string} */ message) {
    this.pending = null;
    this.refusal = message;
    this.emit("refused", message);
    this.setState(this.live ? "stopped" : this.value.state, this.live ? "" : this.value.message);
  }

  // Ends a run whose connection is lost; its text so far stays.
  disconnect(/** @type {string} */ message) {
    this.pending = null;
    this.refusal = message;
    this.setState(this.live ? "lost" : this.value.state, this.live ? "" : this.value.message);
    this.emit("serverLost");
  }

  /** Sets the state and the message of the run that is shown, without an update of the server.
   *  @param {RunValue["state"]} state @param {string} message */
  setState(state, message) {
    this.value = { ...this.value, state, message };
    this.emit("state");
  }

  get figures() {
    return figuresOf(this.rounds);
  }

  // The figures from which τ and speed are printed.
  get figuresBeforeRepetition() {
    return figuresOf(this.roundsBeforeRepetition);
  }

  // The overlaid runs of the shown prompt, each with its letter; those of other prompts do not compare.
  get overlays() {
    return this.overlaidRuns.map((point, place) => ({ ...point, pin: letterOf(place) })).filter(({ prompt }) => prompt === this.header?.prompt);
  }

  // Where the text begins to loop, {token, round, words}, or null.
  get repetition() {
    const { repetition } = this.about;
    return repetition && repetition.round < this.rounds.length ? repetition : null;
  }

  // Whether a live run is played behind its newest round.
  get playsBehind() {
    return this.following && this.current >= 0 && this.current < this.rounds.length - 1;
  }

  get roundsBeforeRepetition() {
    return this.repetition ? this.rounds.slice(0, this.repetition.round) : this.rounds;
  }

  // Tokens per second, {text: as printed, value: to compare, doubt}: measured interleaved with plain decoding, or else by the
  // run's own clock; if the speed-up is withheld, the value is null and the doubt says why in two words.
  get speed() {
    const { speedup, comparison, figuresBeforeRepetition: { tokensPerSecond }, withheld } = this;
    if (speedup) return { text: speedup.speed, value: Number(speedup.speed), doubt: "" };
    if (!withheld) return { text: rateText(tokensPerSecond), value: tokensPerSecond, doubt: this.recorded || this.value.followed ? "" : "while drawn" };
    return { text: comparison?.speed.speed || rateText(tokensPerSecond), value: null, doubt: this.slowed ? "busy machine" : "not compared" };
  }

  // Why a compared run has no speed-up, or "".
  get withheld() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" ? comparison.speed.withheld : "";
  }

  // Whether other programs slowed the run or what it was compared with.
  get slowed() {
    const { comparison, withheld } = this;
    return Boolean(withheld && comparison?.speed.again && comparison.state !== "interrupted");
  }

  // The shown round: as recorded, or as predicted at the budget that is tried out.
  get round() {
    return this.budgetPreview.round || this.recordedRound;
  }

  get recordedRound() {
    return this.rounds[this.current] || null;
  }

  // Whether a finished run is shown at its end: its last round, or its representative one.
  get atEnd() {
    return !this.busy && this.rounds.length > 0 && (this.atRepresentative || this.current === this.rounds.length - 1);
  }

  // Shows the representative round of a finished run.
  showRepresentative(/** @type {number} */ index) {
    this.go(index, { animate: true });
    this.atRepresentative = true;
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
    this.reader?.abort();
    const { signal } = this.reader = new AbortController();
    this.leftFollowedRun = true;
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
      if (!signal.aborted) this.emit("disconnected");
      return false;
    }
    if (this.incoming.run === this.run && !this.pending) return true;
    this.failRequest(this.incoming.run.end ? NOTHING : this.incoming.state.message || STOPPED);
    return false;
  }

  /** Handles received lines. A new run replaces the current one at its first round, so a run that fails earlier changes
   *  nothing. @param {StreamLine[]} lines */
  read(lines, followed = false) {
    const { incoming } = this;
    let begun = false;
    for (const line of lines) {
      if ("state" in line) {
        incoming.state = line;
        if (line.run !== incoming.run.name) incoming.run = line.run === this.run.name ? this.run : new DecodedRun(line.run);
        if (incoming.run === this.run) this.value = { ...this.value, state: line.state, message: line.message };
      } else if ("about" in line) {
        if (incoming.run === this.run) this.setComments(line.about);
        else incoming.about = line.about;
      } else {
        if ("header" in line) incoming.run = new DecodedRun(incoming.state.run);
        incoming.run.read(line);
      }
      if ("round" in line && incoming.run !== this.run) {
        this.showIncoming(followed);
        begun = true;
      }
    }
    if (incoming.run !== this.run) {
      const { prompt, turns } = incoming.run.header || this.pending || { prompt: "", turns: [] };
      if (BUSY.includes(incoming.state.state)) this.pending = { ...incoming.state, prompt, turns };
      return this.emit("state");
    }
    this.emit("lines", { other: begun });
    if (begun || lines.some((line) => !("round" in line))) this.emit("state"); // a round alone changes none
    this.showNewest(begun);
  }

  setComments(/** @type {About} */ about) {
    this.about = about;
    this.comparison = about.comparison || this.comparison;
  }

  showIncoming(/** @type {boolean} */ followed) {
    this.pending = null;
    this.run = this.incoming.run;
    this.value = { ...this.incoming.state, followed };
    this.current = -1;
    this.unselect();
    this.budgetPreview = { budget: null, round: null, error: "" };
    this.comparison = null;
    this.comparing = "";
    this.setComments(this.incoming.about);
    this.incoming.about = {};
    this.following = this.live;
    this.emit("run");
  }

  /** Stores the server's comparison, if its run is still shown.
   *  @param {string} run @param {PlainComparison} comparison */
  setComparison(run, comparison) {
    if (run === this.value.run) this.comparison = comparison;
    this.emit("compared");
  }

  // The printed speed-up over plain decoding; null if unknown or withheld.
  get speedup() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" && !this.withheld ? comparison.speed : null;
  }

  showNewest(/** @type {boolean} */ other) {
    const last = this.rounds.length - 1;
    const arrived = this.following && last >= 0 && last !== this.current;
    if (arrived && this.playsAtReadingSpeed) this.emit("arrived");
    else if (arrived) this.go(last, { follow: true, animate: true });
    else if (other) this.go(0, { follow: this.following });
  }

  // Whether a live run is played at reading speed.
  get playsAtReadingSpeed() {
    return this.mode === "story" && !this.recorded && !this.reducedMotion && !this.value.followed;
  }

  /** Shows a round. `follow` keeps up with a live run, `animate` shows it growing, `push` lets Back return here.
   *  @param {number} index @param {{ follow?: boolean, animate?: boolean, push?: boolean }} [how] */
  go(index, { follow = false, animate = false, push = false } = {}) {
    const shown = Math.max(Math.min(0, this.rounds.length - 1), Math.min(this.rounds.length - 1, index));
    const moved = shown !== this.current;
    this.atRepresentative = false;
    this.following = follow;
    this.animate = animate;
    if (moved) {
      this.current = shown;
      this.unselect();
      this.budgetPreview.round = null;
    }
    this.emit("round", { moved, push });
    if (moved) this.emit("select", this.selection);
    if (moved && this.budgetPreview.budget !== null) this.draftAgain();
  }

  // Shows rounds as predicted at another budget; null shows the recorded ones again.
  tryBudget(/** @type {number | null} */ budget) {
    this.budgetPreview.budget = budget;
    return this.draftAgain();
  }

  async redraft() {
    const { budgetPreview: { budget }, current, header, value: { run } } = this;
    const line = budget === null || !this.recordedRound || !this.server ? null : await this.server.round_at({ run, round: current, budget });
    if (run !== this.value.run || current !== this.current || budget !== this.budgetPreview.budget) return;
    const error = line && "error" in line ? line.error : "";
    const round = line && header && !("error" in line) ? { ...readRound(line, header, this.run.pieces), budget } : null;
    this.budgetPreview = { budget, round, error };
    this.unselect();
    this.emit("round", { moved: false, push: false });
    this.emit("select", this.selection);
  }

  /** Selects the node under the pointer; a node of another round selects that round. @param {number | null} node @param {number} round */
  hover(node, round = this.current) {
    const here = round === this.current;
    this.hovered = here && this.hasNode(node) ? node : null;
    this.updateSelection(here ? null : round);
  }

  // Toggles the pin of a node.
  pin(/** @type {number | null} */ node) {
    this.pinned = this.hasNode(node) && node !== this.pinned ? node : null;
    this.hovered = null;
    this.updateSelection();
    this.emit("pin", this.pinned);
  }

  hasNode(/** @type {number | null} */ node) {
    return this.round !== null && node !== null && Number.isInteger(node) && node >= 0 && node < this.round.n;
  }

  unselect() {
    this.pinned = this.hovered = null;
    this.selection = { node: null, pinned: false, round: null };
  }

  updateSelection(/** @type {number | null} */ round = null) {
    const node = this.hovered === null ? this.pinned : this.hovered;
    const pinned = node !== null && node === this.pinned;
    const before = this.selection;
    if (node === before.node && pinned === before.pinned && round === before.round) return;
    this.selection = { node, pinned, round };
    this.emit("select", this.selection);
  }

  /** @param {string | null} mode @param {{ push?: boolean }} [how] */
  setMode(mode, how = {}) {
    if (mode === null || !modes.includes(mode)) return;
    const moved = mode !== this.mode;
    this.mode = mode;
    if (this.budgetPreview.budget !== null) this.tryBudget(null);
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
      this.reader?.abort();
      this.pending = null;
      this.emit("cancelled");
      this.emit("state");
      return pending.run;
    }
    if (!this.live) return "";
    this.setState("stopped", "");
    return run;
  }
}
