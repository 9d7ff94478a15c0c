// What plain decoding and the run with trees wrote, typed on one clock. The times are those of the comparison, in which
// both took turns, slowed down for the eye; each lane shows the tokens of its own text.

import { button, html, write } from "../panels/ink.js";
import { sumsOf } from "./metrics.js";
import { TokenReader } from "./round.js";
import { cutOf, waitingWords } from "./text.js";

// The first tokens of the run with trees, as {text, origin, pass}.
function drafted({ rounds, pieces }, count) {
  const reader = new TokenReader(pieces);
  const tokens = rounds.flatMap((made, place) => made.keep.map((node) => [made.tokens[node], made.origin(node), place + 1]));
  return tokens.slice(0, count).map(([id, origin, pass]) => ({ text: reader.read(id), origin, pass }));
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
    this.fill(plain, plainly(lanes.texts.slice(0, count)), Array.from({ length: count }, (_, place) => place + 1), "");
    this.start([plain], count, milliseconds);
    const slowed = Math.round((milliseconds / count / 1000) * Number(against.plain_speed));
    write(this.clock, slowed > 1 ? `slowed ${slowed} times` : "");
  }

  // Both texts, at the times of the comparison.
  race(milliseconds) {
    const { against, comparison } = this.stage;
    const { title, texts, seconds: [own, plain] } = comparison.lanes;
    const [one, tree] = this.lanes;
    write(this.title, title);
    this.fill(one, plainly(texts), plain, against.plain_speed);
    this.fill(tree, drafted(this.stage, own.length), own, against.speed);
    this.start(this.lanes, Math.max(own.at(-1), plain.at(-1)), milliseconds);
  }

  fill(lane, tokens, times, speed) {
    Object.assign(lane, { tokens, times: times.slice(0, tokens.length), speed, shown: 0 });
    lane.spans = tokens.map(({ text, origin }) => html("span", `is-coming ${origin ? `cs-token is-${origin}` : ""}`, null, text));
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
      write(this.clock, `${at.toFixed(3)} s of ${end.toFixed(3)} s${pace}`);
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
    const counted = `${lane.shown} tokens in ${passes} passes`;
    write(lane.flag, !lane.speed ? `pass ${passes}` : over ? `✓ ${counted}, ${lane.speed} tokens/s` : `${counted}, ${at.toFixed(2)} s`);
    const last = spans[Math.max(0, lane.shown - 1)];
    if (last) lane.text.scrollTop = Math.max(0, last.offsetTop + last.offsetHeight - lane.text.clientHeight + 8);
  }

  close() {
    this.box.hidden = true;
    cancelAnimationFrame(this.frame);
  }
}

// The story's sentence: what one pass of the big model just did, for people who have never heard of drafting; at the end
// the outcome, and a race against plain decoding. What is said beside plain decoding comes from the server's comparison.
const VERDICTS = {
  faster: ({ times }) => [[", "], [times, "cs-total is-fast"], [" as fast as one at a time."]],
  slower: ({ times }) => [[", yet slower than one at a time: "], [times, "cs-total"], ["."]],
  alike: ({ times }) => [[", not clearly faster or slower than one at a time: "], [times, "cs-total"], ["."]],
};

// What the scenes of the film say; the others say what the story says of a round or of the whole run.
const SCENES = {
  plain: () => ({ headline: [["A language model writes one token a pass."]],
    more: "Every beat is a pass over all of its weights, for one token: a word, or a piece of one." }),
  guess: ({ made }) => ({ headline: [[made.drafterNames.length > 1 ? "Now two drafters guess " : "Now a drafter guesses "], [String(made.n - 1), "cs-total"], [made.n === 2 ? " token ahead." : " tokens ahead."]],
    more: "Guessing is cheap: far smaller and faster than the big model. What is not sure goes on in several ways, so it is a tree." }),
  race: ({ against }) => ({ headline: [["One token a pass, against a tree a pass."]], more: `Their true relative speed, ${against.how}.` }),
  same: ({ rounds, comparison: { text, lanes }, against }) => ({
    headline: [["Same words "], ["✓", "is-fast"], [", "], [String(rounds.length), "cs-total is-fast"], [" passes instead of "], [String(lanes.texts.length), "cs-total"], ["."]],
    more: `${text.words} ${against.words}` }),
};

export class Story {
  constructor(stage, parent) {
    this.stage = stage;
    this.box = html("div", "cs-story", parent);
    this.headline = html("p", "cs-headline", this.box);
    this.words = html("p", "cs-more", this.box);
    stage.on("round value begin mode state compared scene", () => this.draw());
    this.draw();
  }

  draw() {
    const { stage } = this;
    const made = stage.round;
    const over = stage.atEnd && stage.scene !== "verify";
    const scene = SCENES[stage.scene];
    if (scene) {
      const { headline, more } = scene(stage);
      this.say(headline, more);
    } else if (stage.coming) {
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
    if (!stage.header.drafters.length) {
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
