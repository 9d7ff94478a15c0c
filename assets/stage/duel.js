// What plain decoding and the run with trees wrote, typed on one clock. The times are those of the comparison, in which
// both took turns, slowed down for the eye; each lane shows the tokens of its own text.

import { button, html, write } from "../shared/ink.js";
import { counted, TokenReader } from "../shared/round.js";

// The first tokens of the run with trees, as {text, origin, pass}.
function drafted(stage, count) {
  const reader = new TokenReader(stage);
  const tokens = stage.rounds.flatMap((round, pass) => round.keep.map((node, place) => ({
    text: reader.read(round.tokens[node], round.start + place), origin: round.origin(node), pass: pass + 1 })));
  return tokens.slice(0, count);
}

// Those of plain decoding: each took a pass.
const plainly = (texts) => texts.map((text, place) => ({ text, pass: place + 1 }));

export class Duel {
  constructor(stage, parent, leave) {
    this.stage = stage;
    this.box = html("div", { class: "cs-duel", "aria-label": "Both texts, typed on one clock" }, parent);
    const head = html("header", "", this.box);
    this.title = html("div", { class: "cs-duel-title", role: "heading", "aria-level": "2" }, head);
    this.clock = html("span", "cs-duel-clock", head);
    button(head, "×", "Back to text and tree", leave);
    this.lanes = [this.lane("One token a pass", "is-plain"), this.lane("With the draft tree", "is-tree")];
    this.box.hidden = true;
  }

  lane(name, look) {
    const box = html("article", `cs-lane ${look}`, this.box);
    const head = html("header", "", box);
    html("div", { class: "cs-lane-name", role: "heading", "aria-level": "3" }, head, name);
    const flag = html("span", "cs-lane-flag", head);
    const track = html("div", "cs-lane-track", box);
    const fill = html("div", "cs-lane-fill", track);
    const text = html("div", { class: "cs-lane-text", tabIndex: 0, role: "group", "aria-label": name }, box);
    return { box, flag, fill, text };
  }

  // Plain decoding alone writes its first tokens: each of them is a pass, and a beat.
  alone(count, milliseconds) {
    const { comparison: { lanes }, against } = this.stage;
    const [plain] = this.lanes;
    write(this.title, "Plain decoding");
    this.fill(plain, plainly(lanes.texts.slice(0, count)), Array.from({ length: count }, (_, place) => place + 1), null);
    this.start([plain], count, milliseconds);
    const slowed = Math.round((milliseconds / count / 1000) * Number(against.plain_speed));
    write(this.clock, slowed > 1 ? `slowed ${slowed} times` : "");
  }

  // Both texts, at the times of the comparison.
  race(milliseconds) {
    const { against, comparison } = this.stage;
    const { title, texts, seconds: [own, plain], ends } = comparison.lanes;
    const [one, tree] = this.lanes;
    write(this.title, title);
    this.fill(one, plainly(texts), plain, { seconds: ends[1], speed: against.plain_speed });
    this.fill(tree, drafted(this.stage, own.length), own, { seconds: ends[0], speed: against.speed });
    this.start(this.lanes, Math.max(own.at(-1), plain.at(-1)), milliseconds);
  }

  fill(lane, tokens, times, printed) {
    Object.assign(lane, { tokens, times: times.slice(0, tokens.length), printed, shown: 0 });
    lane.spans = tokens.map(({ text, origin }) => html("span", `is-coming ${origin ? `cs-token o-${origin}` : ""}`, null, text));
    lane.text.replaceChildren(...lane.spans);
    lane.text.scrollTop = 0;
    lane.box.classList.remove("is-over");
  }

  start(lanes, end, milliseconds) {
    this.running = lanes;
    this.end = end; // on the lanes' own clock
    this.milliseconds = milliseconds; // until then on the screen
    this.box.classList.toggle("is-alone", lanes.length === 1);
    this.box.hidden = false;
    this.began = performance.now() - (this.stage.reducedMotion ? milliseconds : 0);
    this.run();
  }

  run() {
    cancelAnimationFrame(this.frame);
    const { end, running, milliseconds } = this;
    const at = Math.min(1, (performance.now() - this.began) / milliseconds) * end;
    if (running.length > 1) {
      const factor = milliseconds / 1000 / end;
      const pace = factor >= 1.5 ? `, slowed ${Math.round(factor)} times` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times as fast` : "";
      write(this.clock, `${at.toFixed(2)} s of ${end.toFixed(2)} s${pace}`);
    }
    for (const lane of running) this.advance(lane, at);
    if (at < end && !this.box.hidden) this.frame = requestAnimationFrame(() => this.run());
  }

  advance(lane, at) {
    const { spans, times, tokens } = lane;
    while (lane.shown < times.length && times[lane.shown] <= at + 1e-9) spans[lane.shown++].classList.remove("is-coming");
    const over = lane.shown === times.length;
    lane.fill.style.width = `${(100 * lane.shown) / Math.max(1, times.length)}%`;
    lane.box.classList.toggle("is-over", over);
    const passes = lane.shown ? tokens[lane.shown - 1].pass : 0;
    const wrote = `${counted(lane.shown, "token")} in ${passes} ${passes === 1 ? "pass" : "passes"}`;
    const { printed } = lane;
    const timed = over && printed ? `✓ ${wrote}, ${printed.seconds} s: ${printed.speed} tokens/s` : `${wrote}, ${at.toFixed(2)} s`;
    write(lane.flag, printed ? timed : `pass ${passes}`);
    const last = spans[Math.max(0, lane.shown - 1)];
    if (last) lane.text.scrollTop = Math.max(0, last.offsetTop + last.offsetHeight - lane.text.clientHeight + 8);
  }

  close() {
    this.box.hidden = true;
    cancelAnimationFrame(this.frame);
  }
}
