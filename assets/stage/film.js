// The film of a run: plain decoding writes its first words, a drafter guesses, one pass keeps a path of the guesses, both
// race, and tree, figures and answer are left to read. It only leads: text, tree, race and sentences stand in their usual
// places. Under reduced motion the scenes are still, and one steps through them.

/** @import { Duel } from "./duel.js" */
/** @import { Player } from "./player.js" */

import { action, button, html, write } from "../shared/ink.js";
import { figuresOf } from "../shared/round.js";

const BEATS = 3; // passes of plain decoding that are shown
const BEAT_MS = 700;
const RACE_MS = 4000; // how long the slower text takes on the screen
/** @type {Record<string, number>} */
const SCENE_MS = { plain: BEATS * BEAT_MS + 700, guess: 4000, verify: 4400, race: RACE_MS + 500, same: 2000 }; // under 18 s in all, and the page opens within 2
const WORD = /^( \p{L}{2}|\p{Lu}\p{Ll}|\p{Lo}| ?\d)/u; // a token that begins a word or number
const REST_OF_WORD = /^[\p{Ll}'’]/u; // one that goes on with a word
const MAX_FORKS = 4; // of the path: more make a round no better to show
const FIELD = "#canopy-prompt textarea, .cs-opening textarea";

// The round to show: one that kept many words, and where the path could have gone on with others.
export function bestOf(/** @type {Round[]} */ rounds) {
  const worth = rounds.map(({ keep, children, tokens, text }) => {
    const matches = (/** @type {RegExp} */ form, /** @type {number} */ node) => form.test(text(tokens[node]));
    const isWord = (/** @type {number} */ node) => matches(WORD, node) && !children[node].some((child) => matches(REST_OF_WORD, child));
    const words = (/** @type {number[]} */ nodes) => nodes.filter(isWord).length + nodes.length / 10;
    const forks = keep.flatMap((node, place) => children[node].filter((child) => child !== keep[place + 1]).slice(place + 1 < keep.length ? 0 : 1));
    return words(keep) * (1 + Math.min(MAX_FORKS, words(forks)));
  });
  return worth.indexOf(Math.max(...worth));
}

// The same of a person's own run, of which nobody has chosen a round: one that kept most, of these one with most branches.
export function fullestOf(/** @type {Round[]} */ rounds) {
  const worth = rounds.map(({ keep, children }) => {
    const branches = keep.reduce((sum, node) => sum + children[node].length, 0);
    return keep.length + branches / (branches + 1);
  });
  return worth.indexOf(Math.max(...worth));
}

// The scenes that a run has. Plain decoding's shows the words that the run wrote too, so they have to be the same.
export function scenesOf(/** @type {Pick<Stage, "comparison" | "fresh">} */ { comparison, fresh }) {
  const race = Boolean(comparison && comparison.state !== "measuring" && comparison.tracks.texts);
  const same = race && comparison?.text.verdict === "same";
  const best = fresh[bestOf(fresh)];
  const drafts = Boolean(best) && best.n > 1 && !best.chunked;
  return [same && drafts ? "plain" : "", ...(drafts ? ["guess", "verify"] : []), race ? "race" : "", same ? "same" : "", "card"].filter(Boolean);
}

export class Film {
  /** @param {Stage} stage @param {HTMLElement} root @param {HTMLElement} story @param {Duel} duel @param {Player} player */
  constructor(stage, root, story, duel, player) {
    this.stage = stage;
    this.root = root;
    this.duel = duel;
    this.player = player;
    this.watched = ""; // the live run that is watched
    this.timer = 0;
    this.hurry = 1; // of the time that a scene is shown
    const bar = html("div", "cs-film", story);
    this.clock = html("span", { class: "cs-film-clock", title: "Engine time of the rounds so far; they are shown at the speed of reading" }, bar);
    this.back = button(bar, "◀", "The scene before (←)", () => this.step(-1));
    this.place = html("span", "cs-film-place", bar);
    this.on = button(bar, "▶", "The next scene (→)", () => this.step(1));
    this.jump = action(bar, "Skip", "To the end (Esc)", () => this.leave());
    this.turn = action(bar, "Your turn", "Write a prompt of your own", () => {
      const field = document.querySelector(FIELD);
      field.focus();
      field.select();
    }, "cs-film-next");
    this.tune = action(bar, "Tune its budget", "To the workbench: try node budgets out on this run", () => stage.setMode("workbench", { push: true }), "cs-film-next");
    this.both = action(bar, "▶ Watch both", "What each wrote, typed on one clock: one token a pass, and with the draft tree", () => this.go("race"));
    this.again = action(bar, "↻ Replay", "All of it again, from the first word", () => this.go(this.scenes[0]));
    this.ends = html("div", { class: "cs-ends", role: "img" }, story);
    this.draw();
    stage.on("asked begin hand", () => this.stop());
    stage.on("mode", ({ moved }) => moved && this.stop());
    stage.on("finale", () => { // all rounds were watched
      this.watched = "";
      this.rest();
    });
    stage.on("state", () => this.look());
    stage.on("compared play round state mode", () => this.draw());
  }

  get best() {
    const { recorded, fresh } = this.stage;
    return recorded ? bestOf(fresh) : fullestOf(fresh);
  }

  get scenes() {
    return scenesOf(this.stage);
  }

  // What the page opens with, from where the first page had come to; a recording without all scenes plays its rounds.
  open(/** @type {string | null} */ begun) {
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
      const before = stage.rounds.slice(0, this.best).reduce((sum, { keep }) => sum + keep.length, 0);
      const beats = Math.min(BEATS, stage.rounds[this.best].keep.length);
      duel.alone(before, beats, beats * BEAT_MS);
    } else if (name === "race" || (name === "same" && duel.box.hidden)) duel.race(name === "race" ? RACE_MS : 0);
    else if (name !== "same") duel.close();
    if (["guess", "verify"].includes(name)) stage.go(this.best, { animate: true });
    else if (name === "card") stage.rest(this.best);
    stage.emit("scene");
    this.timer = stage.reducedMotion || name === "card" ? 0 : setTimeout(() => this.step(1), SCENE_MS[name] * this.hurry);
    this.draw();
  }

  // Returns whether there was a scene to go on from.
  step(/** @type {number} */ by) {
    const { scenes, stage: { scene } } = this;
    const place = scenes.indexOf(scene) + by;
    if (scene && scenes[place]) this.go(scenes[place]);
    return Boolean(scene);
  }

  // The person takes over.
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

  // To the card, or from it; of a live run to its newest round. Returns whether there was anything to leave.
  leave() {
    const { stage: { scene, rounds }, paced, player } = this;
    if (paced) player.skip();
    else if (scene === "card") this.stop();
    else if (scene) this.go("card");
    return paced || Boolean(scene && rounds.length);
  }

  // Whether rounds of a live run are being shown one by one.
  get paced() {
    return this.player.playing && this.stage.following;
  }

  // At the end of a run: the story shows its last frame, other views the best round of a live one.
  rest() {
    const { stage } = this;
    if (stage.mode === "story") this.go("card");
    else if (!stage.recorded) stage.rest(this.best);
  }

  // A live run that was not shown round by round ends on its best round too, not on its end token.
  look() {
    const { stage } = this;
    const { run, followed } = stage.value;
    if (stage.live) this.watched = followed ? "" : run;
    if (stage.busy || this.watched !== run || !stage.following || !stage.rounds.length || stage.paced) return;
    this.watched = "";
    this.rest();
  }

  draw() {
    const { stage, paced, scenes } = this;
    const { scene, rounds, current } = stage;
    const still = Boolean(scene) && stage.reducedMotion;
    write(this.clock, paced ? `${figuresOf(rounds.slice(0, current + 1)).seconds.toFixed(2)} s` : "");
    for (const part of [this.back, this.place, this.on]) part.hidden = !still;
    write(this.place, `${scenes.indexOf(scene) + 1} of ${scenes.length}`);
    this.back.disabled = scenes[0] === scene;
    this.on.disabled = scene === "card";
    this.jump.hidden = !paced && (!scene || scene === "card");
    this.both.hidden = !scenes.includes("race") || !(scene === "card" || (!scene && stage.atEnd));
    this.again.hidden = this.both.hidden || still;
    // What to do next, once all was seen.
    const { recorded, against, server } = stage;
    const tunes = !recorded && against && Boolean(server);
    this.turn.hidden = scene !== "card" || Boolean(tunes) || !(server || document.querySelector(FIELD));
    this.tune.hidden = scene !== "card" || !tunes || against.standing === "slower"; // what is slower offers its way out
    document.body.classList.toggle("cs-your-turn", !this.turn.hidden);
    this.drawEnds();
  }

  // Two bars of the last frame, for plain decoding and for the run with trees: their seconds; their passes as long as no
  // speed may be said.
  drawEnds() {
    const { scene, header, comparison, against, measured: { tokens, rounds } } = this.stage;
    const seconds = against && comparison?.tracks.ends;
    const [tree, plain] = seconds ?? [String(rounds), String(tokens)];
    this.ends.hidden = scene !== "card" || !header?.drafters.length || header.chunked;
    if (this.ends.hidden) return;
    const unit = seconds ? "s" : "passes";
    const label = `One token a pass: ${plain} ${unit}; with the draft tree: ${tree} ${unit}`;
    if (this.ends.ariaLabel === label) return;
    this.ends.ariaLabel = label;
    this.ends.replaceChildren(...[["One token a pass", plain], ["With the draft tree", tree]].map(([name, value], place) => {
      const row = html("div", place ? "is-tree" : "");
      html("span", "", row, name);
      const share = Number(value) / Math.max(Number(plain), Number(tree));
      Object.assign(html("i", "", row).style, { width: `${40 * share}%`, animationDuration: `${2 * share}s` });
      html("b", "", row, `${value} ${unit}`);
      return row;
    }));
  }
}
