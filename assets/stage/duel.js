// The race: both texts, of plain decoding and of the run with trees, typed on one clock. The times are those of the
// comparison, slowed down for the eye; if the speed-up is withheld, all passes take equally long.

import { button, fitType, html, write } from "../shared/ink.js";
import { counted, TokenReader } from "../shared/round.js";

const MIN_FONT_SIZE = 13; // pixels
const MAX_TYPE = 40;
const RACE_OPENS_AT = 0.1; // of its time: something is written already

/** @typedef {{ text: string, origin?: Origin, pass: number }} TypedToken */
/** What the comparison measured of a text: the time of each token, and its seconds and speed as they are printed.
 *  @typedef {{ times: number[], seconds: string, speed: string }} Measured */
/** @typedef {ReturnType<Duel["track"]>} Track */

// Those of plain decoding: each took a pass. They are counted after the first `before`.
const plainTokens = (/** @type {string[]} */ texts, before = 0) => texts.map((text, place) => ({ text, pass: place + 1 - before }));

export class Duel {
  running = /** @type {Track[]} */ ([]);
  end = 1; // on the tracks' own clock
  milliseconds = 1; // until then on the screen
  began = 0;
  frame = 0;

  /** @param {Stage} stage @param {HTMLElement} parent @param {() => void} leave */
  constructor(stage, parent, leave) {
    this.stage = stage;
    this.box = html("div", { class: "cs-duel", "aria-label": "Both texts, typed on one clock" }, parent);
    const head = html("header", "", this.box);
    this.title = html("div", { class: "cs-duel-title", role: "heading", "aria-level": "2" }, head);
    this.clock = html("span", "cs-duel-clock", head);
    button(head, "×", "Back to text and tree", leave);
    this.plain = this.track("One token a pass", "is-plain");
    this.tree = this.track("With the draft tree", "is-tree");
    this.box.hidden = true;
  }

  track(/** @type {string} */ name, /** @type {string} */ look) {
    const box = html("article", `cs-track ${look}`, this.box);
    const head = html("header", "", box);
    html("div", { class: "cs-track-name", role: "heading", "aria-level": "3" }, head, name);
    const flag = html("span", "cs-track-flag", head);
    const fill = html("div", "cs-track-fill", html("div", "cs-track-bar", box));
    const text = html("div", { class: "cs-track-text", tabIndex: 0, role: "group", "aria-label": name }, box);
    return { box, flag, fill, text, spans: /** @type {HTMLElement[]} */ ([]), shown: 0,
      tokens: /** @type {TypedToken[]} */ ([]), times: /** @type {number[]} */ ([]), measured: /** @type {Measured | null} */ (null) };
  }

  /** Plain decoding alone goes on with its text; the first of these passes is done at once.
   *  @param {number} before how many tokens are there already @param {number} beats @param {number} milliseconds */
  playPlain(before, beats, milliseconds) {
    const { comparison, speedup } = this.stage;
    if (!comparison) return;
    write(this.title, `Plain decoding: the next ${beats} tokens`);
    const tokens = plainTokens(comparison.tracks.texts.slice(0, before + beats), before);
    const times = tokens.map(({ pass }) => pass / Number(speedup?.plain_speed));
    this.setTrack(this.plain, tokens, speedup && { times, seconds: times[times.length - 1].toFixed(3), speed: speedup.plain_speed });
    for (const span of this.plain.spans.slice(before)) span.classList.add("is-beat");
    this.startTracks([this.plain], milliseconds, 1 / beats);
  }

  // Both texts, at the times of the comparison.
  race(/** @type {number} */ milliseconds) {
    const { speedup, comparison, run, roundsBeforeRepetition } = this.stage;
    if (!comparison) return;
    const { title, texts, seconds: [own, plain] = [], ends } = comparison.tracks;
    const reader = new TokenReader(run);
    const drafted = roundsBeforeRepetition.flatMap((round, pass) => round.keep.map((node, place) => ({
      text: reader.read(round.tokens[node], round.start + place), origin: round.origin(node), pass: pass + 1 })));
    write(this.title, title);
    this.setTrack(this.plain, plainTokens(texts), speedup && { times: plain, seconds: ends[1], speed: speedup.plain_speed });
    this.setTrack(this.tree, drafted.slice(0, own?.length), speedup && { times: own, seconds: ends[0], speed: speedup.speed });
    this.startTracks([this.plain, this.tree], milliseconds, RACE_OPENS_AT);
  }

  /** Without measured times, the clock counts passes. @param {Track} track @param {TypedToken[]} tokens @param {Measured | null} measured */
  setTrack(track, tokens, measured) {
    Object.assign(track, { shown: 0, tokens, measured, times: measured?.times.slice(0, tokens.length) ?? tokens.map(({ pass }) => pass) });
    track.spans = tokens.map(({ text, origin }) => html("span", `is-pending ${origin ? `cs-token o-${origin}` : ""}`, null, text));
    track.text.replaceChildren(...track.spans);
    track.text.scrollTop = 0;
    track.box.classList.remove("is-over");
  }

  /** @param {Track[]} tracks @param {number} milliseconds @param {number} opensAt the share of them that has passed already */
  startTracks(tracks, milliseconds, opensAt) {
    this.running = tracks;
    this.end = Math.max(1e-9, ...tracks.map(({ times }) => times[times.length - 1] ?? 0));
    this.milliseconds = milliseconds;
    this.box.classList.toggle("is-alone", tracks.length === 1);
    this.box.hidden = false;
    fitType(this.box, tracks.map(({ text }) => text), MIN_FONT_SIZE, MAX_TYPE);
    this.began = performance.now() - milliseconds * (this.stage.reducedMotion ? 1 : opensAt);
    this.drawFrame();
  }

  drawFrame() {
    cancelAnimationFrame(this.frame);
    const { end, running, milliseconds } = this;
    const at = Math.min(1, (performance.now() - this.began) / milliseconds) * end;
    const factor = milliseconds / 1000 / end;
    const pace = factor >= 1.5 ? `, in slow motion (1/${Math.round(factor)})` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times as fast` : "";
    write(this.clock, running[0].measured ? `${at.toFixed(3)} s of ${end.toFixed(3)} s${pace}` : "by passes, as their time is not known");
    for (const track of running) this.advanceTrack(track, at);
    if (at < end && !this.box.hidden) this.frame = requestAnimationFrame(() => this.drawFrame());
  }

  advanceTrack(/** @type {Track} */ track, /** @type {number} */ at) {
    const { spans, times, tokens, measured } = track;
    while (track.shown < times.length && times[track.shown] <= at + 1e-9) spans[track.shown++].classList.remove("is-pending");
    const over = track.shown === times.length;
    track.fill.style.width = `${(100 * track.shown) / Math.max(1, times.length)}%`;
    track.box.classList.toggle("is-over", over);
    const passes = track.shown ? tokens[track.shown - 1].pass : 0;
    const counts = counted(passes, "pass", "passes");
    const timed = measured ? over ? `, ${measured.seconds} s: ${measured.speed} tokens/s` : `, ${at.toFixed(3)} s` : "";
    write(track.flag, `${over && this.running.length > 1 ? "✓ " : ""}${counts}${timed}`);
    const last = spans[Math.max(0, track.shown - 1)];
    if (last) track.text.scrollTop = Math.max(0, last.offsetTop + last.offsetHeight - track.text.clientHeight + 8);
  }

  close() {
    this.box.hidden = true;
    cancelAnimationFrame(this.frame);
  }
}
