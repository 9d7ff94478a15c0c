// The text, each token in the colour of its origin. A click goes to the token's round and node.

import { button, html, put, write } from "../shared/ink.js";
import { forcedOf, missingWords, TokenReader } from "../shared/round.js";

const BELOW = "Until its first round, the tree and the figures are those of the run before.";

// What is said of a run that has no round yet; null if none is waited for.
export function waitingWords(/** @type {Pick<Stage, "pending" | "rounds">} */ { pending, rounds }) {
  if (!pending) return null;
  const queued = pending.state === "queued";
  return { headline: queued ? "Your run waits." : pending.message, more: [queued && pending.message, rounds.length && BELOW].filter(Boolean).join(" ") };
}

/** @type {Record<string, { lead: string, words: (header: Header) => string }>} */
const CUTS = {
  stopped: { lead: "Stopped after ", words: () => "■ Stopped here." },
  lost: { lead: "Broken off after ", words: () => "▲ Broken off here: the server stopped answering." },
  error: { lead: "Broken off after ", words: () => "▲ Broken off here by an error." },
  length: { lead: "Cut off after ", words: ({ max_tokens }) => `✂ Cut off here: Max tokens is ${max_tokens} (workbench, More).` },
  context: { lead: "Cut off after ", words: ({ context_limit }) => `✂ Cut off here: the context of ${context_limit} positions is full.` },
};

// What is said of a text that did not end by itself; null if it did, or goes on.
export function cutOf(/** @type {Pick<Stage, "value" | "header" | "live">} */ { value, header, live }) {
  if (live || !header) return null;
  const reason = value.end ? value.end.reason : value.state;
  const cut = CUTS[reason];
  return cut ? { lead: cut.lead, words: cut.words(header) } : null;
}

/** @type {Record<string, string>} */
const SPEAKERS = { system: "System", user: "You", assistant: "Answer" };

export class TextPanel {
  /** @param {Stage} stage @param {HTMLElement} host */
  constructor(stage, host) {
    this.stage = stage;
    this.host = host;
    host.classList.add("cs-text");
    put(host, { tabindex: 0, role: "group", "aria-label": "Prompt and text" }); // it scrolls, so keys have to reach it
    this.turns = html("ol", { class: "cs-turns", "aria-label": "Earlier turns" }, host);
    this.prompt = html("p", "cs-prompt", host);
    this.body = html("div", { class: "cs-output", "aria-label": "The text, coloured by origin" }, host);
    this.cut = html("p", { class: "cs-cut", hidden: true }, host);
    this.next = html("div", "cs-pending", host); // the run that is waited for, in place of the one that is shown
    this.nextTurns = html("ol", "cs-turns", this.next);
    this.nextPrompt = html("p", "cs-pending-prompt", this.next);
    this.nextState = html("p", "cs-pending-state", this.next);
    this.spans = /** @type {HTMLElement[]} */ ([]); // a part for each round
    this.tokens = 0;
    this.marked = -1; // the round that was shown before
    this.shaded = Infinity; // from which token on the text is marked as repeating itself
    this.reader = new TokenReader(stage);
    this.frame = 0;
    stage.on("begin", () => this.clear());
    stage.on("value", () => this.append());
    stage.on("round", () => this.mark());
    stage.on("mode", () => this.turns.childElementCount && this.mark()); // earlier turns may fill the view
    stage.on("select", (selection) => this.light(selection));
    stage.on("state", () => this.drawState());
    new ResizeObserver(() => this.reveal()).observe(host);
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("pointerover", (event) => this.over(event));
    this.body.addEventListener("pointerleave", () => this.stage.hover(null));
  }

  drawState() {
    const { stage, host } = this;
    const { pending } = stage;
    host.classList.toggle("is-busy", stage.live);
    host.classList.toggle("is-pending", Boolean(pending));
    this.nextTurns.replaceChildren();
    host.classList.toggle("has-turns", this.turns.childElementCount > 0);
    if (pending) {
      this.before(pending.turns, this.nextTurns);
      this.nextPrompt.textContent = pending.prompt;
      write(this.nextState, pending.message);
      host.scrollTop = host.scrollHeight;
    }
    this.drawCut();
  }

  // Under the last round of a text that did not end by itself.
  drawCut() {
    const { stage } = this;
    const cut = stage.resting || stage.current === stage.rounds.length - 1 ? cutOf(stage) : null;
    this.cut.hidden = !cut;
    write(this.cut, cut ? cut.words : "");
  }

  clear() {
    this.spans = [];
    this.tokens = 0;
    this.marked = -1;
    this.body.replaceChildren();
    this.reader = new TokenReader(this.stage);
    this.turns.replaceChildren();
  }

  /** The conversation before the prompt, drawn once per run. @param {Turns} turns @param {HTMLElement} list */
  before(turns, list) {
    this.host.classList.toggle("has-turns", turns.length > 0);
    if (list.childElementCount === turns.length) return;
    list.replaceChildren();
    for (const [role, text] of turns) {
      const turn = html("li", `cs-turn-before is-${role}`, list);
      html("span", "cs-speaker", turn, SPEAKERS[role]);
      html("p", "", turn, text);
    }
  }

  append() {
    const { stage } = this;
    if (stage.run.rewritten) {
      stage.run.rewritten = false;
      this.clear();
    }
    this.before(stage.header?.turns ?? [], this.turns);
    this.prompt.textContent = stage.header?.prompt ?? "";
    if (stage.header?.forced && !this.body.childElementCount) this.body.append(this.forced(stage.header));
    for (let index = this.spans.length; index < stage.rounds.length; index++) {
      const part = this.round(index);
      part.classList.toggle("is-future", index > stage.current);
      this.spans.push(part);
      this.body.append(part);
    }
    this.shade();
  }

  // What the answer was made to begin with.
  forced(/** @type {Header} */ header) {
    const first = header.prompt_ids.length - header.forced;
    const words = forcedOf(header).map((id, place) => this.reader.read(id, first + place)).join("");
    const part = html("span", { class: "cs-forced", title: "Forced: what follows is the target's own continuation of this" }, null, words);
    if (this.stage.left) button(part, "⤺ back", "Show the run again that this one branched off", () => this.stage.tell("unbranch"));
    return part;
  }

  // What repeats itself, from its first token on.
  shade() {
    const { repetition } = this.stage;
    const from = repetition ? repetition.token : Infinity;
    if (from === this.shaded && from === Infinity) return;
    this.shaded = from;
    for (const token of this.body.querySelectorAll(".cs-token")) token.classList.toggle("is-repeated", Number(token.dataset.place) >= from);
    if (repetition) this.body.title = repetition.words;
    else this.body.removeAttribute("title");
  }

  round(/** @type {number} */ index) {
    const round = this.stage.rounds[index];
    const part = html("span", "cs-part");
    part.dataset.round = String(index);
    const missing = this.stage.missing(index);
    const cut = missing ? this.reader.end() : ""; // what began before a gap does not go on behind it
    for (const [place, node] of round.keep.entries()) {
      const token = html("span", `cs-token o-${round.origin(node)}`, part, this.text(round, round.tokens[node], round.start + place));
      token.dataset.node = String(node);
      token.dataset.place = String(this.tokens++);
      if (/^\s+$/.test(round.text(round.tokens[node])) && token.textContent?.includes("\n")) token.classList.add("is-break");
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

  /** @param {Round} round @param {number} id @param {number} position */
  text(round, id, position) {
    return this.stage.pieces.has(id) ? this.reader.read(id, position) : round.show(id);
  }

  // Only the parts between the round shown before and the one shown now change.
  mark() {
    const { current } = this.stage;
    const last = Math.min(this.spans.length - 1, Math.max(current, this.marked));
    for (let index = Math.max(0, Math.min(current, this.marked)); index <= last; index++) {
      this.spans[index].classList.toggle("is-current", index === current);
      this.spans[index].classList.toggle("is-future", index > current);
    }
    this.marked = current;
    this.host.classList.toggle("is-whole", this.stage.resting);
    this.drawCut();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.reveal());
  }

  // Scrolls the text alone, never the page.
  reveal() {
    const { host, stage } = this;
    const part = this.spans[stage.scene === "card" ? 0 : stage.current]; // the whole answer is read from its beginning
    if (!part) return;
    const bottom = part.offsetTop + part.offsetHeight;
    if (bottom > host.scrollTop + host.clientHeight - 24) host.scrollTop = bottom - host.clientHeight + 48;
    else if (part.offsetTop < host.scrollTop) host.scrollTop = Math.max(0, this.above(part) - 24);
  }

  // The first words of an answer come with a short question, if that stands after earlier turns.
  above(/** @type {HTMLElement} */ part) {
    const asked = this.turns.childElementCount && part === this.spans[0] && this.prompt.offsetHeight < this.host.clientHeight / 3;
    return (asked ? this.prompt : part).offsetTop;
  }

  light(/** @type {NodeSelection} */ { node, pinned }) {
    const part = this.spans[this.stage.current];
    for (const old of this.body.querySelectorAll(".is-lit")) old.classList.remove("is-lit", "is-pinned");
    const token = part && node !== null && part.querySelector(`[data-node="${node}"]`);
    if (token) token.classList.add("is-lit", ...(pinned ? ["is-pinned"] : []));
  }

  place(/** @type {MouseEvent} */ event) {
    const token = event.target instanceof Element && event.target.closest(".cs-token");
    const part = token && token.closest("[data-round]");
    return part ? { round: Number(part.getAttribute("data-round")), node: Number(token.getAttribute("data-node")) } : null;
  }

  click(/** @type {MouseEvent} */ event) {
    const at = this.place(event);
    if (!at) return;
    this.stage.tell("hand");
    if (at.round !== this.stage.current) this.stage.go(at.round, { animate: true, push: true });
    this.stage.pin(at.node);
  }

  over(/** @type {MouseEvent} */ event) {
    const at = this.place(event);
    this.stage.hover(at && at.round === this.stage.current ? at.node : null);
  }
}
