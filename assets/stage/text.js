// The text, each token in the colour of its origin. A click goes to the token's round and node.

import { action, button, fitType, html, put, write } from "../shared/ink.js";
import { Menu } from "../shared/overlays.js";
import { forcedOf, missingWords, TokenReader } from "../shared/round.js";
import { markdown } from "./markdown.js";
import { figuresText, runOfTurn, otherSettings, runPoint } from "./runs.js";

const MIN_TYPE = 13; // pixels of the film's last frame; a longer answer scrolls
const MAX_TYPE = 24;
const EARLIER_RUN_NOTE = "Until its first round, the tree and the figures are those of the run before.";

// The message for a run without rounds yet; null if no run is pending.
export function waitingWords(/** @type {Pick<Stage, "pending" | "rounds">} */ { pending, rounds }) {
  if (!pending) return null;
  const queued = pending.state === "queued";
  return { headline: queued ? "Your run waits." : pending.message, more: [queued && pending.message, rounds.length && EARLIER_RUN_NOTE].filter(Boolean).join(" ") };
}

/** @type {Record<string, { lead: string, words: (header: Header) => string }>} */
const CUTS = {
  stopped: { lead: "Stopped after ", words: () => "■ Stopped here." },
  lost: { lead: "Broken off after ", words: () => "▲ Broken off here: the server stopped answering." },
  error: { lead: "Broken off after ", words: () => "▲ Broken off here by an error." },
  length: { lead: "Cut off after ", words: ({ max_tokens }) => `✂ Cut off at ${max_tokens} tokens; raise Max tokens in the workbench, under More.` },
  context: { lead: "Cut off after ", words: ({ context_limit }) => `✂ Cut off: the context of ${context_limit} positions is full.` },
};

// The message for a text that was cut off; null if it ended by itself or is still being written.
export function cutOf(/** @type {Pick<Stage, "value" | "run" | "live">} */ { value, run: { header, end }, live }) {
  if (live || !header) return null;
  const cut = CUTS[end ? end.reason : value.state];
  return cut ? { lead: cut.lead, words: cut.words(header) } : null;
}

/** @type {Record<string, string>} */
const SPEAKERS = { system: "System", user: "You", assistant: "Answer" };

/** @param {Element} parent @param {() => void} act */
const editButton = (parent, act) => button(parent, "", "Edit: go on from before this prompt", act, "cs-edit");

/** A text without tokens of its own, as Markdown. @param {string} text @param {Element} box */
const plainMarkdown = (text, box) => markdown(text, box, (parent, from, to) => parent.append(text.slice(from, to)));

export class TextPanel {
  spans = /** @type {HTMLElement[]} */ ([]); // a part for each round
  tokens = 0;
  lastMarked = -1; // the round that was shown before
  shadedFrom = Infinity; // from which token on the text is marked as repeating itself
  frame = 0;

  /** `tools` holds the switch between the rendered text and its tokens; without it the tokens are shown.
   *  @param {Stage} stage @param {HTMLElement} host @param {HTMLElement} [tools] */
  constructor(stage, host, tools) {
    this.stage = stage;
    this.host = host;
    host.classList.add("cs-text");
    put(host, { tabindex: 0, role: "group", "aria-label": "Prompt and text" }); // it scrolls, so keys have to reach it
    this.turns = html("ol", { class: "cs-turns", "aria-label": "Earlier turns" }, host);
    this.prompt = html("div", "cs-prompt", host);
    this.question = html("p", "", this.prompt);
    this.edit = editButton(this.prompt, () => stage.emit("editPrompt", stage.header ?? { turns: [], prompt: "" }));
    this.answers = html("div", "cs-answers", host);
    this.besideBox = html("article", { class: "cs-beside", "aria-label": "The same turn before" }, this.answers);
    const answer = html("article", "", this.answers);
    this.body = html("div", { class: "cs-output", "aria-label": "The text, coloured by origin" }, answer);
    this.rendered = html("div", { class: "cs-rendered", hidden: true }, answer);
    this.cutNote = html("p", { class: "cs-cut", hidden: true }, answer);
    this.figures = html("div", "cs-figures", answer);
    this.waiting = html("p", "cs-waiting", host); // for the first round of the run that is asked for
    this.renders = /** @type {Record<string, boolean>} */ ({ story: Boolean(tools) }); // by view
    this.switch = tools && action(tools, "", "A finished answer as its tokens, each in its colour, or as the text that it is", () => {
      this.renders[stage.mode] = !this.renders[stage.mode];
      this.drawAnswer();
    });
    if (this.switch) tools?.prepend(this.switch);
    this.reader = new TokenReader(stage.run);
    stage.on("run", () => this.clear());
    stage.on("lines", () => this.append());
    stage.on("round", () => this.markParts());
    stage.on("mode", () => this.turns.childElementCount && this.markParts()); // earlier turns may fill the view
    stage.on("select", (selection) => this.highlight(selection));
    stage.on("state compared otherAnswer", () => this.drawState());
    stage.on("round mode scene", () => this.drawAnswer());
    new ResizeObserver(() => this.reveal()).observe(host);
    for (const box of [this.body, this.rendered]) {
      box.addEventListener("click", (event) => {
        const at = this.tokenAt(event);
        if (!at) return;
        host.blur(); // the page's own keys go on working
        stage.emit("takeover");
        if (at.round !== stage.current) stage.go(at.round, { animate: true, push: true });
        stage.pin(at.node);
      });
    }
    this.body.addEventListener("pointerover", (event) => {
      const at = this.tokenAt(event);
      stage.hover(at?.node ?? null, at?.round);
    });
    this.body.addEventListener("pointerleave", () => stage.hover(null));
  }

  // The turns and the prompt of the run that is waited for, if there is one, else of the run that is shown.
  drawState() {
    const { stage, host } = this;
    const { pending } = stage;
    const { turns, prompt } = pending ?? stage.header ?? { turns: [], prompt: "" };
    host.classList.toggle("is-busy", stage.live);
    host.classList.toggle("has-turns", turns.length > 0);
    this.answers.hidden = Boolean(pending);
    this.waiting.hidden = !pending;
    write(this.waiting, pending?.message ?? "");
    this.drawTurns(turns);
    write(this.question, prompt);
    this.question.title = prompt; // which a low window cuts
    this.edit.hidden = !stage.server || Boolean(pending);
    if (pending) host.scrollTop = host.scrollHeight;
    const point = !stage.busy && stage.header && !stage.recorded && stage.rounds.length ? runPoint(stage, stage.header) : null;
    this.figures.hidden = !point;
    if (point && this.figures.dataset.key !== (this.figures.dataset.key = figuresText(point))) this.showFigures(this.figures, point);
    this.drawBeside();
    this.drawAnswer();
  }

  /** The conversation before the prompt. @param {Turns} turns */
  drawTurns(turns) {
    const { stage } = this;
    const points = turns.map((_, index) => runOfTurn(stage.ownRuns, turns, index));
    const key = JSON.stringify([turns, points.map((point) => point && figuresText(point))]);
    if (key === this.turns.dataset.key) return;
    this.turns.dataset.key = key;
    this.turns.replaceChildren(...turns.map(([role, text], index) => {
      const turn = html("li", `cs-turn-before is-${role}`);
      html("span", "cs-speaker", turn, SPEAKERS[role]);
      const words = html("div", "cs-turn-text", turn);
      if (role !== "assistant") words.textContent = text;
      else plainMarkdown(text, words);
      if (role === "user" && stage.server) editButton(turn, () => stage.emit("editPrompt", { turns: turns.slice(0, index), prompt: text }));
      const point = points[index];
      if (point) this.showFigures(html("div", "cs-figures", words), point);
      return turn;
    }));
  }

  /** How an answer was made, and what can be done about it. @param {HTMLElement} parent @param {RunPoint} point */
  showFigures(parent, point) {
    const { stage } = this;
    parent.replaceChildren(`${figuresText(point)} `);
    if (!stage.server) return;
    if (point.run !== stage.value.run) action(parent, "Open", "Show this answer as its run", () => stage.emit("openRun", point));
    new Menu(parent, "Again with …", "Answer the same turn with other settings, beside this answer", () => otherSettings(point).map(({ label, options }) => (
      { label, act: () => stage.emit("answerAgain", { point, options }) })));
  }

  // The answer of the run that is shown: as its tokens, or rendered once it has ended and no single round is looked at.
  drawAnswer() {
    const { stage, renders: { [stage.mode]: renders = false } } = this;
    const ended = stage.atEnd && (!stage.scene || stage.scene === "card");
    const complete = ended && !stage.rounds.some((_, index) => stage.run.missing(index));
    this.rendered.hidden = !(renders && complete);
    this.body.hidden = renders && complete;
    if (this.switch) write(this.switch, renders ? "tokens" : "as text");
    if (renders && complete && this.rendered.dataset.run !== stage.value.run) this.render();
  }

  // The answer to the same turn that the shown one stands beside.
  drawBeside() {
    const { otherAnswer } = this.stage;
    this.answers.classList.toggle("is-beside", Boolean(otherAnswer));
    this.besideBox.hidden = !otherAnswer;
    if (!otherAnswer || this.besideBox.dataset.run === otherAnswer.run) return;
    this.besideBox.dataset.run = otherAnswer.run;
    this.besideBox.replaceChildren();
    plainMarkdown(otherAnswer.answer ?? "", html("div", "cs-rendered", this.besideBox));
    this.showFigures(html("div", "cs-figures", this.besideBox), otherAnswer);
  }

  // Every piece of the rendered text keeps the colour, the round and the node of its token.
  render() {
    const tokens = Array.from(this.body.querySelectorAll(".cs-forced-text, .cs-token"), (token) => ({ token, text: token.textContent ?? "" }));
    let end = 0;
    const ends = tokens.map(({ text }) => (end += text.length));
    this.rendered.dataset.run = this.stage.value.run;
    markdown(tokens.map(({ text }) => text).join(""), this.rendered, (parent, from, to) => {
      for (let index = ends.findIndex((one) => one > from); index >= 0 && index < tokens.length && ends[index] - tokens[index].text.length < to; index++) {
        const { token, text } = tokens[index];
        const begin = ends[index] - text.length;
        const piece = html("span", token.className, parent, text.slice(Math.max(0, from - begin), to - begin));
        Object.assign(piece.dataset, { node: token.dataset.node, round: token.parentElement?.dataset.round });
      }
    });
    this.markRendered();
  }

  markRendered() {
    for (const piece of this.rendered.querySelectorAll("[data-round]")) piece.classList.toggle("is-shown", Number(piece.dataset.round) === this.stage.current);
  }

  clear() {
    this.spans = [];
    this.tokens = 0;
    this.lastMarked = -1;
    this.body.replaceChildren();
    this.rendered.replaceChildren();
    delete this.rendered.dataset.run;
    this.reader = new TokenReader(this.stage.run);
  }

  append() {
    const { stage } = this;
    if (stage.run.rewritten) {
      stage.run.rewritten = false;
      this.clear();
    }
    if (stage.header?.forced && !this.body.childElementCount) this.body.append(this.forcedPart(stage.header));
    for (let index = this.spans.length; index < stage.rounds.length; index++) {
      const part = this.roundPart(index);
      part.classList.toggle("is-future", index > stage.current);
      this.spans.push(part);
      this.body.append(part);
    }
    const { repetition } = stage;
    const repeatedFrom = repetition ? repetition.token : Infinity;
    if (repeatedFrom === this.shadedFrom && repeatedFrom === Infinity) return;
    this.shadedFrom = repeatedFrom;
    for (const token of this.body.querySelectorAll(".cs-token")) token.classList.toggle("is-repeated", Number(token.dataset.place) >= repeatedFrom);
    this.body.title = repetition?.words ?? "";
  }

  // What the answer was made to begin with.
  forcedPart(/** @type {Header} */ header) {
    const first = header.prompt_ids.length - header.forced;
    const words = forcedOf(header).map((id, offset) => this.reader.read(id, first + offset)).join("");
    const part = html("span", { class: "cs-forced", title: "Forced: what follows is the target's own continuation of this" });
    html("span", "cs-forced-text", part, words);
    if (this.stage.parentRun) button(part, "⤺ back", "Show the run again that this one branched off", () => this.stage.emit("unbranch"));
    return part;
  }

  roundPart(/** @type {number} */ index) {
    const round = this.stage.rounds[index];
    const part = html("span", "cs-part");
    part.dataset.round = String(index);
    const missing = this.stage.run.missing(index);
    const cut = missing ? this.reader.end() : ""; // what began before a gap does not go on behind it
    for (const [offset, node] of round.keep.entries()) {
      const id = round.tokens[node];
      const text = this.stage.run.pieces.has(id) ? this.reader.read(id, round.start + offset) : round.show(id);
      const token = html("span", `cs-token o-${round.origin(node)}`, part, text);
      token.dataset.node = String(node);
      token.dataset.place = String(this.tokens++);
      if (/^\s+$/.test(round.text(id)) && token.textContent?.includes("\n")) token.classList.add("is-break");
    }
    part.firstElementChild?.classList.add("is-first");
    if (missing) {
      const gap = html("span", "cs-missing", null, `${cut}[…]`);
      gap.title = missingWords(missing);
      part.prepend(gap);
    }
    part.title = `Round ${round.index + 1}: ${round.keep.length} tokens from one pass`;
    return part;
  }

  // Only the parts between the round shown before and the one shown now change.
  markParts() {
    const { stage, stage: { current } } = this;
    const last = Math.min(this.spans.length - 1, Math.max(current, this.lastMarked));
    for (let index = Math.max(0, Math.min(current, this.lastMarked)); index <= last; index++) {
      this.spans[index].classList.toggle("is-current", index === current);
      this.spans[index].classList.toggle("is-future", index > current);
    }
    this.lastMarked = current;
    this.markRendered();
    this.host.classList.toggle("is-whole", stage.atRepresentative);
    const cut = stage.atRepresentative || current === stage.rounds.length - 1 ? cutOf(stage) : null; // said under the last round
    this.cutNote.hidden = !cut;
    write(this.cutNote, cut?.words ?? "");
    // right after the next frame: then all is laid out, and nothing has to be for the sake of a size
    this.frame ||= requestAnimationFrame(() => setTimeout(() => this.reveal()));
  }

  // Scrolls the text alone, never the page.
  reveal() {
    const { host, stage } = this;
    this.frame = 0;
    if (stage.scene === "card") fitType(host, [host, ...host.querySelectorAll("pre")], MIN_TYPE, MAX_TYPE);
    if (!this.rendered.hidden) {
      host.scrollTop = this.turns.childElementCount ? this.prompt.offsetTop - 8 : 0;
      return;
    }
    const part = this.spans[stage.scene === "card" ? 0 : stage.current]; // the whole answer is read from its beginning
    if (!part) return;
    const bottom = part.offsetTop + part.offsetHeight;
    const withQuestion = part === this.spans[0] && this.prompt.offsetHeight < host.clientHeight / 3;
    if (bottom > host.scrollTop + host.clientHeight - 24) host.scrollTop = bottom - host.clientHeight + 48;
    else if (part.offsetTop < host.scrollTop) host.scrollTop = Math.max(0, withQuestion ? this.prompt.offsetTop - 24 : part.offsetTop - 4);
  }

  highlight(/** @type {NodeSelection} */ { node, pinned }) {
    const part = this.spans[this.stage.current];
    for (const old of this.body.querySelectorAll(".is-lit")) old.classList.remove("is-lit", "is-pinned");
    const token = part && node !== null && part.querySelector(`[data-node="${node}"]`);
    if (token) token.classList.add("is-lit", ...(pinned ? ["is-pinned"] : []));
  }

  tokenAt(/** @type {MouseEvent} */ event) {
    const token = event.target instanceof Element && event.target.closest(".cs-token");
    const part = token && token.closest("[data-round]");
    return part ? { round: Number(part.getAttribute("data-round")), node: Number(token.getAttribute("data-node")) } : null;
  }
}
