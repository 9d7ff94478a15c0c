// The end of the story: what plain decoding and the run with trees wrote, typed on one clock. The times are those of
// the comparison, in which both took turns, slowed down for the eye; each lane shows the tokens of its own text.

import { action, button, html, write } from "../panels/ink.js";
import { sumsOf } from "./metrics.js";
import { TokenReader } from "./round.js";
import { cutOf, waitingWords } from "./stage.js";

const WATCHED_SECONDS = 6; // how long the slower lane takes on the screen

// The first tokens of the run with trees, as {text, origin}.
function drafted({ rounds, pieces }, count) {
  const reader = new TokenReader(pieces);
  const tokens = rounds.flatMap((made) => made.keep.map((node) => [made.tokens[node], made.origin(node)]));
  return tokens.slice(0, count).map(([id, origin]) => ({ text: reader.read(id), origin }));
}

export class Duel {
  constructor(stage, parent) {
    this.stage = stage;
    this.box = html("section", { class: "cs-duel", "aria-label": "Both texts, typed on one clock" }, parent);
    const head = html("header", "", this.box);
    this.title = html("div", { class: "cs-duel-title", role: "heading", "aria-level": "2" }, head);
    this.clock = html("span", "cs-duel-clock", head);
    this.next = action(head, "Tune its budget", "To the workbench: try node budgets out on this run", () => stage.setMode("workbench", { push: true }), "cs-watch");
    button(head, "×", "Back to text and tree", () => this.close());
    this.lanes = [this.lane("One token a pass", "is-plain"), this.lane("With the draft tree", "is-tree")];
    this.box.hidden = true;
    for (const event of ["asked", "begin", "mode", "hand"]) stage.on(event, () => this.close());
    stage.on("round", ({ moved }) => moved && this.close());
    stage.on("finale", () => this.open());
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

  get possible() {
    const { stage } = this;
    return !stage.busy && Boolean(stage.against);
  }

  open() {
    if (!this.possible || this.stage.mode !== "story") return;
    const { against, comparison } = this.stage;
    const { title, texts, seconds: [own, plain] } = comparison.lanes;
    write(this.title, title);
    this.end = Math.max(own[own.length - 1], plain[plain.length - 1]);
    const [one, tree] = this.lanes;
    this.fill(one, texts.map((text) => ({ text })), plain, against.plain_speed);
    this.fill(tree, drafted(this.stage, own.length), own, against.speed);
    this.box.hidden = false;
    const still = this.stage.reducedMotion;
    this.began = performance.now() - (still ? 1000 * WATCHED_SECONDS : 0);
    this.run();
  }

  fill(lane, tokens, times, speed) {
    lane.times = times.slice(0, tokens.length);
    lane.speed = speed;
    lane.passes = lane.times.map((time, place) => Number(time !== lane.times[place - 1])); // a round's tokens came at once
    lane.shown = 0;
    lane.spans = tokens.map(({ text, origin }) => html("span", `is-coming ${origin ? `cs-token is-${origin}` : ""}`, null, text));
    lane.text.replaceChildren(...lane.spans);
    lane.text.scrollTop = 0;
    lane.box.classList.remove("is-over");
  }

  run() {
    cancelAnimationFrame(this.frame);
    const at = Math.min(1, (performance.now() - this.began) / (1000 * WATCHED_SECONDS)) * this.end;
    const factor = WATCHED_SECONDS / this.end;
    const pace = factor >= 1.5 ? `, slowed ${Math.round(factor)} times` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times as fast` : "";
    write(this.clock, `${at.toFixed(3)} s of ${this.end.toFixed(3)} s${pace}`);
    for (const lane of this.lanes) this.advance(lane, at);
    this.next.hidden = at < this.end || !this.stage.server;
    if (at < this.end && !this.box.hidden) this.frame = requestAnimationFrame(() => this.run());
  }

  advance(lane, at) {
    const { spans, times } = lane;
    while (lane.shown < times.length && times[lane.shown] <= at + 1e-9) spans[lane.shown++].classList.remove("is-coming");
    const over = lane.shown === times.length;
    lane.fill.style.width = `${(100 * lane.shown) / Math.max(1, times.length)}%`;
    lane.box.classList.toggle("is-over", over);
    const passes = lane.passes.slice(0, lane.shown).reduce((sum, one) => sum + one, 0);
    write(lane.flag, `${over ? "✓ " : ""}${lane.shown} tokens in ${passes} passes${over ? `, ${lane.speed} tokens/s` : ""}`);
    const last = spans[Math.max(0, lane.shown - 1)];
    if (last) lane.text.scrollTop = Math.max(0, last.offsetTop + last.offsetHeight - lane.text.clientHeight + 8);
  }

  // Returns whether it was open.
  close() {
    const open = !this.box.hidden;
    this.box.hidden = true;
    cancelAnimationFrame(this.frame);
    return open;
  }
}

// A run that was watched live ends on what is worth seeing, not on its end token: on its best round, and in the story,
// once both were timed, on the race.
export class Ending {
  constructor(stage, duel) {
    this.stage = stage;
    this.duel = duel;
    this.watched = ""; // the run that is watched
    this.best = null; // the round on which it ended
    stage.on("state", () => this.look());
    stage.on("compared", () => this.race());
  }

  look() {
    const { stage } = this;
    const { run, followed } = stage.value;
    if (stage.live) this.watched = followed ? "" : run;
    if (stage.busy || this.watched !== run || !stage.following || !stage.rounds.length) return;
    this.watched = "";
    const lengths = stage.rounds.map(({ keep }) => keep.length);
    stage.rest(lengths.indexOf(Math.max(...lengths)));
    this.best = stage.round;
  }

  race() {
    const { stage } = this;
    if (this.best && stage.round === this.best && stage.against && stage.comparison.state !== "measuring") this.duel.open();
  }
}

// The story's sentence: what one pass of the big model just did, for people who have never heard of drafting; at the end
// the outcome, and a race against plain decoding. What is said beside plain decoding comes from the server's comparison.
const VERDICTS = {
  faster: ({ times }) => [[", "], [times, "cs-total is-fast"], [" as fast as one at a time."]],
  slower: ({ times }) => [[", yet slower than one at a time: "], [times, "cs-total"], ["."]],
  alike: ({ times }) => [[", not clearly faster or slower than one at a time: "], [times, "cs-total"], ["."]],
};

export class Story {
  constructor(stage, parent, duel) {
    this.stage = stage;
    this.box = html("div", "cs-story", parent);
    this.headline = html("p", "cs-headline", this.box);
    this.more = html("p", "cs-more", this.box);
    this.words = html("span", "", this.more);
    this.race = action(this.more, "▶ Watch both", "What each wrote, typed on one clock: one token a pass, and with the draft tree", () => duel.open(), "cs-watch");
    for (const event of ["round", "value", "begin", "mode", "state", "compared"]) stage.on(event, () => this.draw());
    this.draw();
  }

  draw() {
    const { stage } = this;
    const made = stage.round;
    const over = stage.atEnd;
    this.race.hidden = !over || !stage.against;
    if (stage.coming) {
      const { headline, more } = waitingWords(stage);
      this.say([[headline]], more);
    } else if (!made) {
      this.say([["Ask something, and watch a small model guess ahead of a big one."]],
        "Pick a preset and press Run: each pass of the big model keeps every guess that it would have written itself.");
    } else if (made.chunked) this.chunk(made, over);
    else if (over) this.sum();
    else {
      const kept = made.keep.length;
      this.say([["One pass of the big model just wrote "], [String(kept), "cs-count"], [kept === 1 ? " token." : " tokens."]],
        this.explain(made, kept));
    }
  }

  explain(made, kept) {
    const drafted = made.n - 1;
    if (!drafted) return "Nothing was guessed ahead: this is plain decoding, one token a pass.";
    const guesses = drafted === 1 ? "one token" : `${drafted} tokens`;
    const verdict = kept > 1
      ? `${kept - 1} ${kept === 2 ? "is" : "are"} exactly what it would have written`
      : "none is what it would have written";
    const who = made.drafterNames.length > 1 ? "Two drafters, far smaller and faster, guessed" : "A drafter, far smaller and faster, guessed";
    return `${who} ${guesses} ahead as a tree; the big model checked them all at once: ${verdict}.`;
  }

  // Of a server that does not report its rounds.
  chunk(made, over) {
    const run = this.stage.figures;
    const { passes } = sumsOf(this.stage, run);
    const count = over ? run.tokens : made.keep.length;
    const tokens = [[String(count), over ? "cs-total" : "cs-count"], [count === 1 ? " token" : " tokens"]];
    const words = over
      ? [...tokens, ...(passes ? [[" in about "], [String(passes), "cs-total"], [" passes."]] : [["."]])]
      : [["The server just sent "], ...tokens, ["."]];
    this.say(words, "Which tokens were guessed ahead in one pass is not known: this server does not report its rounds.");
  }

  // The outcome of the whole text, and why n tokens a pass are less than n times as fast.
  sum() {
    const { stage } = this;
    const run = stage.figures;
    const { against, comparison } = stage;
    const cut = cutOf(stage);
    const total = [[cut ? cut.lead : ""], [String(run.tokens), "cs-total"], [" tokens in "], [String(run.rounds), "cs-total"], [" passes"]];
    if (!stage.header.heads.length) {
      this.words.title = comparison ? comparison.text.rule : "";
    this.say([...total, [": one at a time."]], "Nothing was guessed ahead: this is plain decoding, the baseline of every speed-up.");
      return;
    }
    const text = comparison ? comparison.text.words : "";
    const alone = cut ? "." : `, where plain decoding takes ${run.tokens}.`;
    const verdict = against ? VERDICTS[against.standing](against) : [[alone]];
    const why = against ? against.standing !== "slower" && against.words : this.unknown(); // what is slower says so below
    this.say([...total, ...verdict], [why, text].filter(Boolean).join(" "));
  }

  // Why no speed-up is said, or that it is coming.
  unknown() {
    const { comparison, comparing } = this.stage;
    if (comparison && comparison.state !== "measuring") return comparison.speed.withheld;
    return comparing ? `How much faster that is: ${comparing}` : "How much faster that is was not measured.";
  }

  say(parts, more) {
    this.headline.replaceChildren(...parts.map(([text, look]) => html("span", look || "", null, text)));
    write(this.words, more);
  }
}
