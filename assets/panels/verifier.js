// The verifier's walk as steps, read from a round, and the panel that shows them.

import { button, html, MONO, nats, probability, short } from "../shared/ink.js";
import { Panel } from "./panel.js";
import { picture } from "../shared/picture.js";
import { define } from "../shared/define.js";

/** A child as it was offered: q is the drafter's probability of this step, p the target's for the same token. `match`: the
 *  token is the target's choice. @typedef {ReturnType<typeof offer>} Offer */
/** @typedef {{ turn: number, chance: number, draw: number, passed: boolean }} Trial */
/** @typedef {ReturnType<typeof walkOf>[number]} Step */

function trialsOf(/** @type {Round} */ round) {
  const found = /** @type {Map<number, Trial>} */ (new Map());
  if (!round.trials) return found;
  for (let turn = 0; turn < round.trials.nodes.length; turn++) {
    const chance = round.trials.chances[turn];
    const draw = round.trials.draws[turn];
    found.set(round.trials.nodes[turn], { turn, chance, draw, passed: draw < chance });
  }
  return found;
}

/** @param {Round} round @param {number} node @param {number} child @param {Map<number, Trial>} trials @param {number | null} next */
function offer(round, node, child, trials, next) {
  return {
    node: child,
    token: round.tokens[child],
    q: Math.exp(round.logprobs[child] - round.logprobs[node]),
    p: Math.exp(round.offered[child]),
    kept: child === next,
    match: round.trials ? child === next : round.tokens[child] === round.choice[node],
    trial: trials.get(child) || null,
  };
}

/** Matching first, then tried in the order of the trials, then the most probable under the drafter.
 *  @param {Offer} one @param {Offer} other */
function inOrder(one, other) {
  const turn = (/** @type {Offer} */ child) => (child.trial ? child.trial.turn : Infinity);
  if (turn(one) !== turn(other)) return turn(one) - turn(other);
  return Number(other.kept) - Number(one.kept) || Number(other.match) - Number(one.match) || other.q - one.q;
}

// One step per kept row. `outcome` is "match" if the walk goes on, "bonus" if no child is the target's choice, and "end"
// if the text ended (a stop token or max_tokens) although a child matched.
export function walkOf(/** @type {Round} */ round) {
  const trials = trialsOf(round);
  return round.keep.map((node, place) => {
    const next = round.keep[place + 1] ?? null;
    const offers = round.children[node].map((child) => offer(round, node, child, trials, next)).sort(inOrder);
    const wanted = (/** @type {Offer} */ child) => child.token === round.bonus && (!child.trial || child.trial.passed);
    const cut = next === null && offers.some(wanted);
    return {
      place, node, offers, next,
      outcome: next !== null ? "match" : cut ? "end" : "bonus",
      choice: next !== null ? round.tokens[next] : round.bonus,
      chance: round.trials ? null : Math.exp(round.choiceLogprobs[node]),
      gap: round.gap[node],
      entropy: round.entropy[node],
      others: (round.alternatives?.[place] ?? []).filter(({ token }) => token !== (next !== null ? round.tokens[next] : round.bonus)),
    };
  });
}

// The verifier's walk, a row per step: the node, the target's choice, and the children that the tree offered.
const OFFER_WIDTH = 100; // pixels that a child takes at least; as many are shown as one line holds
const TRIAL_WIDTH = 140;
const STEP_HEIGHT = 58; // pixels of a step at least, but for the last
const REST_MS = 90;

function offerWords(/** @type {Offer} */ { node, q, p, match, kept }) {
  const twin = match && !kept ? "; the token that the target chose, but not on the accepted path" : "";
  return `row ${node}: the drafter gives it q ${probability(q)}, the target p ${probability(p)}${twin}`;
}

/** @param {Offer} child @param {Trial} trial */
function trialWords({ node, q, p }, { chance, draw, passed, turn }) {
  const test = `draw ${draw.toFixed(4)} ${passed ? "<" : "≥"} chance ${chance.toFixed(4)}: ${passed ? "accepted" : "rejected"}`;
  return `trial ${turn + 1}, row ${node}: ${test}; q ${probability(q)}, p ${probability(p)}`;
}

class VerifierPanel extends Panel {
  room = 2; // how many children of a step fit into its line
  steps = /** @type {Step[]} */ ([]);
  rest = /** @type {Step[]} */ ([]); // those that are not in the page yet
  waiting = 0; // a timer

  /** @param {HTMLElement} host @param {Stage} stage */
  constructor(host, stage) {
    super(host, stage, "verifier");
    this.scroll = html("div", "cp-scroll", host);
    this.list = html("ol", { class: "cp-steps", "aria-label": "The verifier's walk" }, this.scroll);
    for (const name of ["mouseover", "focusin"]) this.list.addEventListener(name, (event) => stage.hover(this.nodeAt(event)));
    this.list.addEventListener("mouseleave", () => stage.hover(null));
    this.list.addEventListener("click", (event) => stage.pin(this.nodeAt(event)));
  }

  draw(/** @type {Round | null} */ round) {
    const known = this.begin(round, "Here you see how the target walks through the tree, choice by choice.");
    this.scroll.hidden = !known;
    this.rest = []; // of the round before, which may be gone
    if (!known) return;
    const width = this.host.clientWidth || 360;
    const free = width * (width < 660 ? 1 : 0.64) - 50;
    this.room = Math.max(2, Math.floor(free / (round.trials ? TRIAL_WIDTH : OFFER_WIDTH)));
    this.list.classList.toggle("has-trials", Boolean(round.trials));
    const steps = (this.steps = walkOf(round));
    const seen = Math.ceil((this.host.clientHeight || 600) / STEP_HEIGHT);
    this.list.replaceChildren(...steps.slice(0, seen).map((step) => this.step(step)));
    this.rest = steps.slice(seen);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.finish(), REST_MS);
    this.select(this.stage.selection);
  }

  // What lies below the fold follows once the drawing rests, so that scrubbing pays for what is seen.
  finish() {
    clearTimeout(this.waiting);
    if (!this.rest.length) return;
    const { rest } = this;
    this.rest = [];
    this.list.append(...rest.map((step) => this.step(step)));
    this.select(this.stage.selection);
  }

  /** @param {number} id @param {Origin} origin @param {Element} parent @param {number | null} node */
  token(id, origin, parent, node) {
    const mark = html("span", `cp-token o-${origin}`, parent, this.round.show(id));
    if (node !== null) mark.dataset.node = String(node);
    return mark;
  }

  /** @param {Element} parent @param {string} name @param {string} value @param {string} title */
  stat(parent, name, value, title) {
    const stat = html("span", { class: "cp-stat", title }, parent);
    html("span", "cp-stat-name", stat, name);
    html("span", "", stat, value);
  }

  step(/** @type {Step} */ step) {
    const { round } = this;
    const row = html("li", { class: `cp-step is-${step.outcome}`, tabIndex: 0 });
    row.dataset.node = String(step.node);
    const line = html("div", "cp-step-line", row);
    html("span", "cp-step-number", line, String(step.place + 1));
    this.token(round.tokens[step.node], round.origin(step.node), line, step.node);
    html("span", "cp-arrow", line, "→");
    this.verdict(step, line);
    const stats = html("span", "cp-stats", line);
    if (step.chance !== null) {
      this.stat(stats, "p", probability(step.chance),
        "The target's probability of the token that it chose here, at temperature 1, before top-k and top-p");
    }
    this.stat(stats, "gap", Number.isFinite(step.gap) ? step.gap.toFixed(2) : "–",
      "How far the target's most likely token leads the second: the difference of their log probabilities, in nats, at temperature 1");
    this.stat(stats, "H", nats(step.entropy),
      "Entropy of the target's distribution here, in nats, at temperature 1");
    if (step.offers.length) this.offers(step, row);
    if (step.others.length) this.others(step, row);
    return row;
  }

  /** @param {Step} step @param {Element} line */
  verdict(step, line) {
    const { round } = this;
    const origin = step.next === null ? "root" : round.origin(step.next);
    const chosen = this.token(step.choice, origin, line, step.next === null ? step.node : step.next);
    if (step.outcome === "match") {
      chosen.classList.add("is-kept");
      html("span", `cp-verdict o-${origin}`, line, "✓");
      return;
    }
    const words = step.outcome === "end" ? "the text ends before this token"
      : step.offers.length === 0 ? "bonus: the tree ends here"
        : round.trials ? "bonus: every child was rejected" : "bonus: no child is this token";
    html("span", "cp-verdict o-root", line, step.outcome === "end" ? "■" : "◆");
    html("span", "cp-verdict-words", line, words);
  }

  /** @param {Step} step @param {Element} row */
  offers(step, row) {
    const box = html("div", "cp-offers", row);
    const tried = step.offers.filter((child) => child.trial).length;
    const shown = Math.max(tried, Math.min(step.offers.length, this.room));
    box.append(...step.offers.slice(0, shown).map((child) => this.card(child)));
    const more = step.offers.length - shown;
    if (more > 0) html("span", "cp-more", box, `+${more} more`);
  }

  // What else the target might have written: a run may go on from here with it.
  /** @param {Step} step @param {Element} row */
  others(step, row) {
    const box = html("div", "cp-others", row, "or ");
    for (const { token, p } of step.others) {
      const words = `${short(this.round.show(token), 90, `11px ${MONO}`)} ${probability(p)}`;
      const item = button(box, words, "Force the text up to here with this token, and let the target go on: a new run",
        () => this.stage.tell("alternative", { node: step.node, token }));
      item.disabled = !this.stage.canBranch;
    }
  }

  // A child with its probabilities, or with its trial: that passes when its draw, the mark, lies inside the bar.
  card(/** @type {Offer} */ child) {
    const { node, token, kept, match, q, p, trial } = child;
    const look = `${kept ? "is-kept" : match ? "is-twin" : ""} ${trial ? "is-tried" : ""} o-${this.round.origin(node)}`;
    const card = html("span", { class: `cp-offer ${look}`, title: trial ? trialWords(child, trial) : offerWords(child) });
    card.dataset.node = String(node);
    html("span", "cp-offer-token", card, short(this.round.show(token), 68, `11px ${MONO}`));
    if (kept) html("span", "cp-offer-tick", card, "✓");
    if (trial && !trial.passed) html("span", "cp-offer-cross", card, "✗");
    if (trial) {
      html("span", "cp-draw", this.meter(card, "chance", trial.chance, "is-p")).style.left = `${(100 * trial.draw).toFixed(1)}%`;
      this.named(card, "draw", trial.draw);
    } else {
      this.meter(card, "q", q, "is-q");
      this.meter(card, "p", p, "is-p");
    }
    return card;
  }

  /** @param {Element} parent @param {string} name @param {number} value */
  named(parent, name, value) {
    const box = html("span", "", parent);
    const words = html("span", "cp-meter-words", box);
    html("span", "cp-meter-name", words, name);
    html("span", "", words, probability(value).replace("0.", ".")); // room is short
    return box;
  }

  /** @param {Element} parent @param {string} name @param {number} value @param {string} look */
  meter(parent, name, value, look) {
    const track = html("span", "cp-track", this.named(parent, name, value));
    html("span", `cp-bar ${look}`, track).style.width = `${Math.min(100, 100 * (value || 0)).toFixed(1)}%`;
    return track;
  }

  nodeAt(/** @type {Event} */ event) {
    const mark = event.target instanceof Element && event.target.closest("[data-node]");
    return mark ? Number(mark.getAttribute("data-node")) : null;
  }

  select(/** @type {NodeSelection} */ { node, pinned }) {
    if (node !== null && !this.list.querySelector(`[data-node="${node}"]`)) this.finish();
    for (const mark of this.list.querySelectorAll("[data-node]")) {
      const chosen = Number(mark.dataset.node) === node;
      mark.classList.toggle("is-selected", chosen);
      mark.classList.toggle("is-pinned", chosen && pinned);
    }
    const step = `.cp-step[data-node="${node ? this.round.parents[node] : 0}"]`;
    const first = this.list.querySelector(".is-selected") ?? (node === null ? null : this.list.querySelector(step));
    if (first) this.scrollTo(this.scroll, first.offsetTop, first.offsetTop + first.offsetHeight);
  }

  svg() {
    if (!this.round.n) return null;
    this.finish();
    return picture(this.list, "--panel");
  }
}

define({
  name: "verifier",
  title: "Verifier walk",
  place: { row: "lower", share: 1.15 },
  caption: "The target's choices; click a step for others.",
  legend: [
    { glyph: "✓", label: "goes on", title: "A child is the token that the target chose: the walk goes on to it" },
    { glyph: "◆", label: "bonus", color: "--target", title: "No child is that token: it ends the round as the target's own" },
    { glyph: "q", label: "drafter", title: "The drafter's probability of this token" },
    { glyph: "p", label: "target", title: "The target's probability of the same token" },
  ],
  create: (host, stage) => new VerifierPanel(host, stage),
});
