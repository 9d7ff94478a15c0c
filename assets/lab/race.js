// A race: methods on one prompt, measured one after the other, replayed together on one wall clock.

import { Chips, field, foldIn } from "./forms.js";
import { prose, WORDS } from "./plots.js";
import { JobButton, Tool } from "./tools.js";
import { button, html, methodColour, methodMark } from "../shared/ink.js";
import { METHODS } from "../methods.js";
import { controls } from "../stage/controls.js";

const SPEEDS = [["1", "real time"], ["0.5", "1/2"], ["0.25", "1/4"], ["0.1", "1/10"], ["0.05", "1/20"]];
/** @type {Record<string, string>} */
const SPLITS = { "full for each": "each", shared: "total" }; // by their names in the bar
const WATCHED_SECONDS = 9; // about how long it should take to watch the slowest track

export class Race extends Tool {
  clockSeconds = 0;
  seconds = 0; // of the longest track
  playing = false;
  drawn = /** @type {ReturnType<Race["track"]>[]} */ ([]); // the tracks

  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    const title = "Measure the methods one at a time on the prompt in the bar above, then replay them together";
    this.begin = new JobButton(this, { label: "▶ Race", title, act: () => this.start(),
      ending: "■ Stop", endingTitle: "End the race after the current run" });
    const { methods, limits, defaults } = lab.setup;
    const details = foldIn(pane, "Choose the methods", "lab-form lab-race-form");
    this.methods = /** @type {Chips<string>} */ (new Chips(details, "Methods, at the node budget in the bar above"));
    this.methods.addMethods(methods, defaults.methods);
    this.auto = /** @type {Chips<string>} */ (new Chips(details, "Methods, at the budget auto"));
    this.auto.box.title = WORDS.auto;
    this.auto.addMethods(methods.filter((name) => METHODS[name]?.drafts !== false), []);
    const row = html("div", "lab-row", details);
    this.repeats = field("input", row, "Repeats", { type: "number", value: 3, min: 3, max: 20, title: "Runs per method; at least three" });
    this.tokens = field("input", row, "Max tokens", { type: "number", value: defaults.max_tokens, min: 1, max: limits.max_tokens });
    this.box = html("section", { class: "lab-plot lab-race", "aria-label": "Race", hidden: true }, pane);
    prose(html("p", "lab-caption lab-race-caption", this.box),
      "Measured one at a time, each alone on the machine, then replayed on one clock; medians with {spread}, against {plain decoding}.");
    const bar = html("div", "lab-race-bar", this.box);
    this.play = button(bar, "▶", "Play or pause the race", () => (this.playing ? this.pause() : this.run()));
    this.range = html("input", { type: "range", min: 0, max: 1000, value: 0, "aria-label": "Wall clock of the race" }, bar);
    this.range.addEventListener("input", () => {
      this.pause();
      this.show((this.seconds * Number(this.range.value)) / 1000);
    });
    this.clock = html("output", "lab-clock", bar);
    this.speed = html("select", { "aria-label": "Speed of the replay" }, bar);
    for (const [value, text] of SPEEDS) this.speed.append(new Option(text, value));
    this.tracks = html("div", "lab-tracks", html("div", { class: "lab-scroll", tabIndex: 0 }, this.box));
  }

  async start() {
    this.pause();
    const value = (/** @type {string} */ selector) => document.querySelector(selector)?.value;
    const query = {
      prompt: value("#canopy-prompt textarea"), turns: controls.turns, budget: value("#canopy-budget input"),
      temperature: value("#canopy-temperature input") || 0, split: SPLITS[value("#canopy-split input")] || "total",
      methods: this.methods.values, auto: this.auto.values, repeats: this.repeats.value, max_tokens: this.tokens.value };
    const { result } = await this.begin.run("lab_race", query);
    if (result) this.open(result);
  }

  open(/** @type {RaceView} */ race) {
    this.seconds = race.seconds;
    this.box.hidden = false;
    const best = Math.max(...race.tracks.map(({ row }) => (row && !row.record.withheld ? row.total.median : 0)));
    this.drawn = race.tracks.map((track) => this.track(track, best));
    this.tracks.replaceChildren(...this.drawn.map(({ box }) => box));
    const speed = race.seconds / WATCHED_SECONDS;
    this.speed.value = (SPEEDS.find(([value]) => Number(value) <= speed) ?? SPEEDS[SPEEDS.length - 1])[0];
    const { reducedMotion } = this.lab.stage;
    this.show(reducedMotion ? race.seconds : 0);
    if (!reducedMotion) this.run();
  }

  /** @param {RaceView["tracks"][0]} track @param {number} best the most tokens per second */
  track(track, best) {
    const box = html("article", "lab-track");
    box.style.setProperty("--track", methodColour(track.method));
    const head = html("header", "", box);
    methodMark(track.method, head);
    html("strong", "", head, track.label);
    const figures = html("span", "lab-track-figures", head);
    if (track.row) this.addFigures(figures, track.row, track.difference, best);
    else html("span", "lab-track-failure", head, track.failure);
    const course = html("div", "lab-course", box);
    const fill = html("div", "lab-course-fill", course);
    const flag = html("span", "lab-flag", course);
    const text = html("p", "lab-track-text", box);
    return { track, box, fill, flag, text, last: track.seconds.at(-1) || 0, shown: -1, still: Boolean(track.row?.record.withheld) };
  }

  /** @param {Element} parent @param {TableRow} row @param {string} difference @param {number} best */
  addFigures(parent, { total, speedup, record, tau, repeating }, difference, best) {
    /** @param {string} text @param {string} title */
    const figure = (text, title, className = "") => html("span", { class: className, title }, parent, text);
    /** @param {Estimate} estimate @param {number} digits */
    const range = ({ minimum, maximum }, digits) => `${minimum.toFixed(digits)} to ${maximum.toFixed(digits)}`;
    if (total.median === best && record.ratio > 1) figure("fastest", "The most tokens per second in this race", "lab-tag");
    figure(`${record.speed} tokens/s`, `${WORDS["tokens/s"]} Spread: ${range(total, 0)}`);
    figure(`(${range(total, 0)})`, WORDS.spread, "lab-quiet");
    if (record.times && speedup) figure(record.times, `Its tokens/s divided by plain decoding's. Single repeats: ${range(speedup, 2)}`);
    else if (record.withheld) figure("speed-up withheld", record.withheld, "lab-quiet");
    figure(`τ ${tau.median.toFixed(2)}`, WORDS["τ"]);
    if (repeating) figure("repeats itself", "The text repeats itself, which is easy to draft; these figures count it.", "lab-tag is-warning");
    figure(difference ? "≠ text differs" : "= same text",
      difference || "The text is the same as plain decoding's, token for token, in every repeat.", difference ? "lab-tag is-warning" : "lab-quiet");
  }

  run() {
    if (this.clockSeconds >= this.seconds) this.show(0);
    this.playing = true;
    this.play.textContent = "❚❚";
    let before = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (!this.playing) return;
      this.show(this.clockSeconds + ((now - before) / 1000) * Number(this.speed.value));
      before = now;
      if (this.clockSeconds >= this.seconds) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this.play.textContent = "▶";
  }

  // Shows the race at this time of its clock.
  show(/** @type {number} */ clockSeconds) {
    const { seconds } = this;
    this.clockSeconds = Math.max(0, Math.min(seconds, clockSeconds));
    this.range.value = String(seconds ? (1000 * this.clockSeconds) / seconds : 0);
    this.clock.textContent = `${this.clockSeconds.toFixed(2)} of ${seconds.toFixed(2)} s`;
    for (const drawn of this.drawn) this.drawTrack(drawn);
  }

  drawTrack(/** @type {ReturnType<Race["track"]>} */ drawn) {
    const { track, fill, flag, text, last, still } = drawn;
    const over = still || this.clockSeconds >= last;
    const count = over ? track.seconds.length : track.seconds.findIndex((second) => second > this.clockSeconds);
    const tokens = count > 0 ? track.tokens[count - 1] : 0;
    fill.style.width = still ? "0" : `${(100 * tokens) / Math.max(1, track.tokens.at(-1) || 0)}%`; // of the text: the fastest track is full first
    flag.textContent = over && track.end ? `✓ ${tokens} tokens in ${track.end} s` : `${tokens} tokens`;
    flag.classList.toggle("is-over", over && !still);
    if (count === drawn.shown) return;
    drawn.shown = count;
    text.textContent = track.parts.slice(0, count).join("");
    text.scrollTop = text.scrollHeight;
  }
}
