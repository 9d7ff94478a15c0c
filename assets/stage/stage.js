// The stage: what is shown, which round, which node. Nothing in this file touches the document, so that a live page and
// a replay file share it.

import { inTurn } from "../shared/ink.js";
import { figuresOf, Present, rateText, readPieces, readRound } from "../shared/round.js";

const BUSY = ["queued", "running"];
/** @type {RunView} */
const BLANK = { run: "", state: "empty", message: "", header: null, from: 0, rounds: [], end: null };
const NOTHING = "The text ended before its first token; ask something else, or change the temperature or the seed.";

/** @typedef {import("../types.d.ts").PlainComparison} PlainComparison */
/** A run that was asked for and has no round yet.
 *  @typedef {Pick<RunView, "run" | "state" | "message"> & { prompt: string, turns: [string, string][] }} ComingRun */

// Whether a stage value is that of a run in progress.
export const goesOn = (/** @type {RunView} */ { state }) => BUSY.includes(state);

/** What others listen to. @template Events by name, each with its detail */
export class Teller {
  listeners = /** @type {Map<string, ((detail: never) => unknown)[]>} */ (new Map());

  /** `events`: one or several names, with spaces between.
   *  @template {string} Names @param {Names} events @param {(detail: DetailOf<Events, Names>) => unknown} listener */
  on(events, listener) {
    for (const event of events.split(" ")) this.listeners.set(event, [...(this.listeners.get(event) || []), listener]);
  }

  /** @template {keyof Events & string} Name @param {Name} event @param {Events[Name]} [detail] */
  tell(event, detail) {
    for (const listener of this.listeners.get(event) || []) listener(/** @type {never} */ (detail));
  }
}

export const modes = ["story", "workbench"]; // the views; the lab adds its own if there is a server

/** @extends {Teller<StageEvents>} */
export class Stage extends Teller {
  value = BLANK; // of the run that is shown
  rounds = /** @type {Round[]} */ ([]);
  views = /** @type {RoundView[]} */ ([]); // the rounds of a live run as they were sent
  elsewhere = false; // whether a run is shown that is not the followed one
  coming = /** @type {ComingRun | null} */ (null);
  refusal = ""; // why the latest run did not come or did not go on
  halted = /** @type {string | null} */ (null); // the run that Stop was pressed for
  present = new Present(); // whose nodes are in the run's trees
  pieces = /** @type {Map<number, Piece>} */ (new Map());
  texts = /** @type {Map<number, Piece>} */ (new Map());
  rewritten = false;
  current = -1;
  pinned = /** @type {number | null} */ (null);
  hovered = /** @type {number | null} */ (null);
  selection = /** @type {NodeSelection} */ ({ node: null, pinned: false });
  following = true; // a live run shows its newest round until a person chooses another
  animate = false; // true for a step that is to be animated, false while scrubbing
  mode = "story";
  tab = ""; // of the lab
  resting = false; // on a round that stands for the whole run
  scene = ""; // of the film
  tried = /** @type {number | null} */ (null); // a budget that is tried out on the round that is shown
  retuned = /** @type {Round | null} */ (null); // and the round with it
  tuneError = ""; // or why there is none
  retune = inTurn(() => this.redraft());
  settings = /** @type {Setting} */ ({}); // as the controls have them
  kept = /** @type {RunPoint[]} */ ([]); // the tab's latest runs
  pins = /** @type {Record<string, RunPoint>} */ ({}); // by "A" and "B": the runs that are laid over the one that is shown
  server = /** @type {Server | null} */ (null);
  comparison = /** @type {PlainComparison | null} */ (null);
  comparing = ""; // that this is going on, or why nothing was found
  repetition = /** @type {import("../types.d.ts").Repetition | null} */ (null);
  mending = false;
  mended = /** @type {Promise<void> | undefined} */ (undefined);

  // Whether the run that is shown goes on.
  get live() {
    return goesOn(this.value);
  }

  // Whether a run goes on or is waited for.
  get busy() {
    return Boolean(this.coming) || this.live;
  }

  // Of the latest run: the one that is waited for, if there is one, else the one that is shown.
  get state() {
    return (this.coming || this.value).state;
  }

  /** A run was asked for: from now on its prompt stands for it, and the run that is shown is the earlier one.
   *  @param {string} prompt @param {[string, string][]} turns */
  ask(prompt, turns) {
    this.refusal = "";
    this.halted = null;
    this.coming = { run: "", prompt, turns, state: "running", message: "Waiting for the server …" };
    this.tell("asked");
    this.tell("state");
  }

  // A run without a round is waited for, or has ended so.
  expect(/** @type {RunView} */ { run, state, message, header, end }) {
    if (!BUSY.includes(state)) {
      this.refuse(end ? NOTHING : message);
      return;
    }
    const { prompt, turns } = header || this.coming || { prompt: "", turns: [] };
    this.coming = { run, prompt, turns, state, message: message || "Reading the prompt …" };
    this.tell("state");
  }

  // The run that was waited for will not come.
  refuse(/** @type {string} */ message) {
    this.coming = null;
    this.refusal = message;
    this.tell("refused", message);
    this.tell("state");
  }

  // Whether to skip an update: of a followed run while another one is shown, or a late one of a run that was halted,
  // whose name may not have been known then.
  passesBy(/** @type {RunView} */ value) {
    if (value.followed) this.tell("followed", value);
    if (this.halted === "" && goesOn(value)) this.halted = value.run;
    return (value.followed && this.elsewhere) || (value.run === this.halted && goesOn(value));
  }

  // The server is gone. What it wrote stays, as a run that broke off there.
  lose(/** @type {string} */ message) {
    this.coming = null;
    this.refusal = message;
    this.say(this.live ? "lost" : this.value.state, this.live ? "" : this.value.message);
    this.tell("lost");
  }

  /** Sets the state and the message of the run that is shown, without an update of the server.
   *  @param {RunView["state"]} state @param {string} message */
  say(state, message) {
    this.value = { ...this.value, state, message };
    this.tell("state");
  }
  // Its figures so far: see ``figuresOf``.
  get figures() {
    return figuresOf(this.rounds);
  }

  // Those of as much of the text as does not repeat itself: τ and speed are said of these.
  get measured() {
    return figuresOf(this.fresh);
  }

  // The rounds before the text repeats itself.
  get fresh() {
    return this.repetition ? this.rounds.slice(0, this.repetition.round) : this.rounds;
  }

  // Tokens per second, {text: as every view prints it, value: to draw it}: as measured in turns with plain decoding, where
  // it was, else by the clock of its own rounds; the value is null if the speed-up is withheld.
  get speed() {
    const { against, comparison, measured } = this;
    if (against) return { text: against.speed, value: Number(against.speed) };
    const text = (this.withheld && comparison?.speed.speed) || rateText(measured.tokensPerSecond);
    return { text, value: this.withheld ? null : measured.tokensPerSecond };
  }

  // Why no speed-up is said of a run that was compared; "" if one is.
  get withheld() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" ? comparison.speed.withheld : "";
  }

  get header() {
    return this.value.header;
  }

  // The round that is shown: as it was run, or as it would have been at the budget that is tried out.
  get round() {
    return this.retuned || this.actual;
  }

  get actual() {
    return this.rounds[this.current] || null;
  }

  // Whether a run that has ended is shown at its end: by its last round, or by the one that it rests on.
  get atEnd() {
    return !this.busy && this.rounds.length > 1 && (this.resting || this.current === this.rounds.length - 1);
  }

  // Shows the round that stands for a run that has ended.
  rest(/** @type {number} */ index) {
    this.go(index, { animate: true });
    this.resting = true;
    this.tell("round", { moved: false, push: false });
  }

  // How many rounds before this one were not recorded.
  missing(/** @type {number} */ place) {
    const before = this.rounds[place - 1];
    return Math.max(0, this.rounds[place].index - (before ? before.index + 1 : 0));
  }

  get recorded() {
    return Boolean(this.header?.recorded);
  }

  get reducedMotion() {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  // Takes what the server sends: the latest rounds of the same run, or another run. The old run stays until the new
  // one has a round: a run that fails before its first round leaves the stage as it was.
  show(/** @type {RunView | null} */ value) {
    if (!value?.state || this.passesBy(value)) return;
    const other = value.run !== this.value.run;
    if (other && value.rounds.length === 0) {
      this.expect(value);
      return;
    }
    this.coming = null;
    if (other) this.begin(value);
    this.value = value;
    this.append(value);
    this.tell("value", { other });
    this.tell("state");
    this.settle(other);
  }

  begin(/** @type {RunView} */ value) {
    this.elsewhere = !value.followed && Boolean(value.header); // a run is shown that is not the followed one
    this.rounds = [];
    this.views = [];
    this.present = new Present();
    this.pieces = new Map();
    this.texts = new Map();
    this.current = -1;
    this.unselect();
    this.tried = this.retuned = null;
    this.comparison = null;
    this.comparing = "";
    this.repetition = null;
    this.following = goesOn(value);
    this.tell("begin", value);
  }

  append(/** @type {RunView} */ value) {
    if (!value.header) return;
    if (this.rounds.length === 0) readPieces(value.header.pieces, this.pieces);
    const first = value.from || 0;
    if (first > this.rounds.length) this.mend(value.run);
    else this.add(value.header, value.rounds.slice(this.rounds.length - first));
    if (value.end) this.readTexts(value.end.texts, Infinity);
    if ((value.total ?? 0) > this.rounds.length) this.mended = this.mend(value.run);
    if (value.comparison) this.comparison = value.comparison;
    this.repetition = value.repetition || null;
  }

  /** @param {Header} header @param {RoundView[]} views */
  add(header, views) {
    for (const view of views) {
      readPieces(view.pieces, this.pieces);
      this.readTexts(view.texts, view.start);
      const round = readRound(view, header, this.pieces, this.rounds.at(-1));
      this.rounds.push(round);
      if (!this.recorded) this.views.push(view);
      this.present.note(round);
    }
  }

  /** What tokens add to the text at some positions; those before `start` may stand on the page already.
   *  @param {Record<string, Piece> | undefined} texts @param {number} start */
  readTexts(texts = {}, start) {
    readPieces(texts, this.texts);
    this.rewritten = this.rewritten || Object.keys(texts).some((position) => Number(position) < start);
  }

  // An update carries the latest rounds, a long recording its first ones: the others are asked for, in pieces.
  async mend(/** @type {string} */ run) {
    if (this.mending || !this.server || !this.header) return;
    this.mending = true;
    try {
      let answer;
      do {
        answer = await this.server.replay({ run, from: this.rounds.length });
        if ("error" in answer || this.value.run !== run) return;
        this.add(this.header, answer.rounds.slice(this.rounds.length - answer.from));
      } while (answer.rounds.length && this.rounds.length < (answer.total ?? 0));
      this.tell("value", { other: false });
      if (run === this.halted && answer.end) {
        this.value = { ...this.value, end: answer.end };
        this.say(answer.state, "");
      }
      this.settle(this.current < 0);
    } finally {
      this.mending = false;
    }
  }

  /** The server's comparison of a run, which may not be shown any more.
   *  @param {string} run @param {PlainComparison} comparison */
  compared(run, comparison) {
    if (run === this.value.run) this.comparison = comparison;
    this.tell("compared");
  }

  // The run's speed beside plain decoding's, as printed; null if it is not known, or withheld.
  get against() {
    const { comparison } = this;
    return comparison && comparison.state !== "measuring" && !this.withheld ? comparison.speed : null;
  }

  settle(/** @type {boolean} */ other) {
    const last = this.rounds.length - 1;
    const arrived = this.following && last >= 0 && last !== this.current;
    if (arrived && this.paced) this.tell("arrived");
    else if (arrived) this.go(last, { follow: true, animate: true });
    else if (other) this.go(0, { follow: this.following });
  }

  // Whether the rounds of a live run are shown one by one, however fast they come.
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
      this.retuned = null;
    }
    this.tell("round", { moved, push });
    if (moved) this.tell("select", this.selection);
    if (moved && this.tried !== null) this.retune();
  }

  // Tries another budget out on the rounds that are shown; null goes back to what was run.
  tune(/** @type {number | null} */ budget) {
    this.tried = budget;
    return this.retune();
  }

  async redraft() {
    const { tried, current, header, value: { run } } = this;
    const view = tried === null || !this.actual || !this.server ? null : await this.server.round_at({ run, round: current, budget: tried });
    if (run !== this.value.run || current !== this.current || tried !== this.tried) return;
    this.tuneError = view && "error" in view ? view.error : "";
    this.retuned = view && header && !("error" in view) ? { ...readRound(view, header, this.pieces), budget: tried } : null;
    this.unselect();
    this.tell("round", { moved: false, push: false });
    this.tell("select", this.selection);
  }

  hover(/** @type {number | null} */ node) {
    this.hovered = this.has(node) ? node : null;
    this.choose();
  }

  // Pinning the pinned node again lets it go.
  pin(/** @type {number | null} */ node) {
    this.pinned = this.has(node) && node !== this.pinned ? node : null;
    this.hovered = null;
    this.choose();
    this.tell("pin", this.pinned);
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
    this.tell("select", this.selection);
  }

  /** @param {string} mode @param {{ push?: boolean }} [how] */
  setMode(mode, how = {}) {
    if (!modes.includes(mode)) return;
    const moved = mode !== this.mode;
    this.mode = mode;
    if (this.tried !== null) this.tune(null);
    this.tell("mode", { moved, push: Boolean(how.push) });
  }

  setTab(/** @type {string} */ tab) {
    this.tab = tab;
    this.tell("tab", tab);
  }

  // The person pressed Stop. Updates still on their way are skipped: the server is asked how the run ended, since it
  // may have ended by itself a moment before.
  halt() {
    const { coming, value } = this;
    if (coming) {
      this.halted = coming.run;
      this.coming = null;
      this.tell("withdrawn");
      this.tell("state");
    } else if (this.live) {
      this.halted = value.run;
      this.say("stopped", "");
      this.mend(value.run);
    }
  }
}
