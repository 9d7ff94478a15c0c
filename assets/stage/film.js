// The film explains a finished run in scenes: "plain" (plain decoding writes some tokens), "guess" (a drafter proposes a
// tree), "verify" (one pass keeps a path of it), "race" (both side by side), "same" (the texts are equal) and "card", the last
// frame, which stays. A scene only sets what text, tree, race and story show. Under reduced motion the reader steps through.

import { action, button, html, write } from "../shared/ink.js";
import { counted } from "../shared/round.js";

const BEATS = 3; // passes of plain decoding that are shown
const BEAT_MS = 600;
const MARK_MS = 4000; // of a panel to look at
const RACE_MS = 4000; // how long the slower text takes on the screen
/** @type {Record<string, number>} */
const SCENE_MS = { plain: BEATS * BEAT_MS + 400, guess: 2800, verify: 4400, race: RACE_MS + 500, same: 2000 }; // 16 s in all, and the page opens within 2
const WORD = /^( \p{L}{2}|\p{Lu}\p{Ll}|\p{Lo}| ?\d)/u; // a token that begins a word or number
const REST_OF_WORD = /^[\p{Ll}'’]/u; // one that goes on with a word
const MAX_FORKS = 4; // of the path: more make a round no better to show
const FIELD = "#canopy-prompt textarea, .cs-opening textarea";

/** The round whose kept path has many words, and many rejected words beside it; a line shows less, no accepted guess least.
 *  @param {Round[]} rounds @param {Round[]} all from which it comes if they kept no guess @returns {number} */
export function bestRound(rounds, all = rounds) {
  const worth = rounds.map(({ keep, children, tokens, text }) => {
    const matches = (/** @type {RegExp} */ form, /** @type {number} */ node) => form.test(text(tokens[node]));
    const isWord = (/** @type {number} */ node) => matches(WORD, node) && !children[node].some((child) => matches(REST_OF_WORD, child));
    const words = (/** @type {number[]} */ nodes) => nodes.filter(isWord).length + nodes.length / 10;
    const forks = keep.flatMap((node, place) => children[node].filter((child) => child !== keep[place + 1]).slice(place + 1 < keep.length ? 0 : 1));
    return keep.length === 1 ? 0 : words(keep) * (forks.length ? 2 + Math.min(MAX_FORKS, words(forks)) : 1);
  });
  const best = Math.max(...worth);
  return best || rounds.length === all.length ? worth.indexOf(best) : bestRound(all);
}

// The scenes that a run has. "plain" shows the run's own words, so it needs plain decoding to have written the same text.
export function scenesOf(/** @type {Pick<Stage, "comparison" | "roundsBeforeRepetition">} */ { comparison, roundsBeforeRepetition }) {
  const race = Boolean(comparison && comparison.state !== "measuring" && comparison.tracks.texts);
  const same = race && comparison?.text.verdict === "same";
  const best = roundsBeforeRepetition[bestRound(roundsBeforeRepetition)];
  const drafts = Boolean(best) && best.n > 1 && !best.chunked;
  return [same && drafts ? "plain" : "", ...(drafts ? ["guess", "verify"] : []), race ? "race" : "", same ? "same" : "", "card"].filter(Boolean);
}

export class Film {
  /** @param {Stage} stage @param {HTMLElement} root @param {HTMLElement} story @param {import("./duel.js").Duel} duel @param {Player} player */
  constructor(stage, root, story, duel, player) {
    this.stage = stage;
    this.root = root;
    this.duel = duel;
    this.player = player;
    this.watched = ""; // the live run that is to end with its last frame
    this.timer = 0;
    const bar = html("div", "cs-film", story);
    this.backButton = button(bar, "◀", "The scene before (←)", () => this.step(-1));
    this.sceneNumber = html("span", "cs-film-place", bar);
    this.nextButton = button(bar, "▶", "The next scene (→)", () => this.step(1));
    this.skipButton = action(bar, "Skip", "To the end (Esc)", () => this.leave());
    this.promptButton = action(bar, "Your turn", "Write a prompt of your own", () => {
      const field = document.querySelector(FIELD);
      field.focus();
      field.select();
    }, "cs-film-next");
    this.budgetButton = action(bar, "Tune its budget", "To the workbench: try node budgets out on this run", () => {
      stage.setMode("workbench", { push: true });
      const panel = root.querySelector("[data-panel=budget]");
      panel?.classList.add("is-marked");
      panel?.scrollIntoView({ block: "nearest" });
      setTimeout(() => panel?.classList.remove("is-marked"), MARK_MS);
    }, "cs-film-next");
    this.raceButton = action(bar, "▶ Watch both", "What each wrote, typed on one clock: one token a pass, and with the draft tree", () => this.go("race"));
    this.replayButton = action(bar, "↻ Replay", "All of it again, from the first word", () => this.go(this.scenes[0]));
    this.endBars = html("div", { class: "cs-ends", role: "img" }, story);
    this.draw();
    stage.on("requested run takeover", () => this.stop());
    stage.on("mode", ({ moved }) => moved && this.stop());
    stage.on("playEnded", () => this.showLastFrame()); // all rounds were watched
    stage.on("state", () => this.endUnpacedRun());
    stage.on("compared play round state mode", () => this.draw());
  }

  get shownRound() {
    return bestRound(this.stage.roundsBeforeRepetition, this.stage.rounds);
  }

  get scenes() { // of a finished run
    return this.stage.busy ? [] : scenesOf(this.stage);
  }

  // Continues where the loading page stopped; a recording that lacks a scene plays its rounds.
  open(/** @type {string | null | undefined} */ begun) {
    const { stage, player } = this;
    if (begun === "card") this.go("card");
    else if (stage.mode === "story" && this.scenes[0] === "plain") this.go("plain");
    else if (!stage.reducedMotion) player.play();
  }

  go(/** @type {string} */ name) {
    const { stage, duel, player } = this;
    clearTimeout(this.timer);
    player.pause();
    stage.scene = this.root.dataset.scene = name;
    if (name === "plain") {
      const before = stage.rounds.slice(0, this.shownRound).reduce((sum, { keep }) => sum + keep.length, 0);
      const beats = Math.min(BEATS, stage.rounds[this.shownRound].keep.length);
      duel.playPlain(before, beats, beats * BEAT_MS);
    } else if (name === "race" || (name === "same" && duel.box.hidden)) duel.race(name === "race" ? RACE_MS : 0);
    else if (name !== "same") duel.close();
    if (["guess", "verify"].includes(name)) stage.go(this.shownRound, { animate: true });
    else if (name === "card") stage.showRepresentative(this.shownRound);
    stage.emit("scene");
    if (name === "same") duel.drawFrame(); // its words may leave less room
    this.timer = stage.reducedMotion || name === "card" ? 0 : setTimeout(() => this.step(1), SCENE_MS[name]);
    this.draw();
  }

  // Returns whether there was a scene to go on from.
  step(/** @type {number} */ by) {
    const { scenes, stage: { scene } } = this;
    const place = scenes.indexOf(scene) + by;
    if (scene && scenes[place]) this.go(scenes[place]);
    return Boolean(scene);
  }

  // Leaves the film when the person does something else.
  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.stage.scene) return;
    this.stage.scene = "";
    delete this.root.dataset.scene;
    this.duel.close();
    this.stage.emit("scene");
    this.draw();
  }

  // Skips to the last frame, or leaves it; a live run skips to its newest round. Returns whether there was anything to leave.
  leave() {
    const { stage: { scene, rounds }, playsLiveRun, player } = this;
    if (playsLiveRun) player.skip();
    else if (scene === "card") this.stop();
    else if (scene) this.go("card");
    return playsLiveRun || Boolean(scene && rounds.length);
  }

  // Whether rounds of a live run are being shown one by one.
  get playsLiveRun() {
    return this.player.playing && this.stage.following;
  }

  // Ends a run: the story shows the film's last frame, the workbench a live run's representative round.
  showLastFrame() {
    const { stage } = this;
    this.watched = "";
    if (stage.mode === "story") this.go("card");
    else if (!stage.recorded) stage.showRepresentative(this.shownRound);
  }

  // A live run whose rounds were not paced ends on its representative round too, not on its end token.
  endUnpacedRun() {
    const { stage } = this;
    const { run, followed } = stage.value;
    if (stage.live) this.watched = followed ? "" : run;
    if (stage.busy || this.watched !== run || !stage.following || !stage.rounds.length || stage.playsAtReadingSpeed) return;
    this.showLastFrame();
  }

  draw() {
    const { stage, playsLiveRun, scenes } = this;
    const { scene, recorded, speedup, server } = stage;
    const still = Boolean(scene) && stage.reducedMotion;
    for (const part of [this.backButton, this.sceneNumber, this.nextButton]) part.hidden = !still;
    write(this.sceneNumber, `${scenes.indexOf(scene) + 1} of ${scenes.length}`);
    this.backButton.disabled = scenes[0] === scene;
    this.nextButton.disabled = scene === "card";
    this.skipButton.hidden = !playsLiveRun && (!scene || scene === "card");
    this.raceButton.hidden = !scenes.includes("race") || !(scene === "card" || (!scene && stage.atEnd));
    this.replayButton.hidden = this.raceButton.hidden || still;
    // What to do next, once all was seen.
    const tunes = !recorded && speedup && Boolean(server);
    this.promptButton.hidden = scene !== "card" || Boolean(tunes) || !(server || document.querySelector(FIELD));
    this.budgetButton.hidden = scene !== "card" || !tunes || speedup.outcome === "slower"; // what is slower offers its way out
    document.body.classList.toggle("cs-your-turn", !this.promptButton.hidden);
    this.drawEndBars();
  }

  // Two bars, plain and with trees: seconds, or passes if the speed-up is withheld.
  drawEndBars() {
    const { scene, header, comparison, speedup, figuresBeforeRepetition: { tokens, rounds } } = this.stage;
    const ends = speedup && comparison?.tracks.ends;
    // If plain decoding's text is another one, its bar is the time that it takes for as many tokens as the run has.
    const seconds = ends && (comparison.text.verdict === "same" ? ends : [ends[0], (Number(ends[0]) * speedup.ratio).toFixed(ends[0]?.split(".")[1]?.length)]);
    const [tree, plain] = seconds ?? [String(rounds), String(tokens)];
    this.endBars.hidden = scene !== "card" || !header?.drafters.length || header.chunked;
    if (this.endBars.hidden) return;
    const worded = (/** @type {string} */ value) => (seconds ? `${value} s` : counted(value, "pass", "passes"));
    const label = `One token a pass: ${worded(plain)}; with the draft tree: ${worded(tree)}`;
    if (this.endBars.ariaLabel === label) return;
    this.endBars.ariaLabel = label;
    this.endBars.replaceChildren(...[["One token a pass", plain], ["With the draft tree", tree]].map(([name, value], place) => {
      const row = html("div", place ? `is-${speedup?.outcome}` : "");
      html("span", "", row, name);
      row.style.setProperty("--share", String(Number(value) / Math.max(Number(plain), Number(tree))));
      html("i", "", row);
      html("b", "", row, worded(value));
      return row;
    }));
  }
}
