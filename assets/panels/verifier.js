// The verifier's walk as steps, read from a round, and the panel that shows them.

import { button, clip, html, MONO, nats, probability } from "../shared/ink.js";
import { Panel, DeferredDrawing } from "./panel.js";
import { picture } from "../shared/picture.js";
import { define } from "../shared/define.js";

/** A child as it was offered: q is the drafter's probability of this step, p the target's for the same token. `match`: the
 *  token is the target's choice. @typedef {Step["offers"][number]} Offer */
/** @typedef {{ turn: number, chance: number, draw: number, passed: boolean }} Trial */
/** @typedef {ReturnType<typeof walkOf>[number]} Step */

// One step per kept row. `outcome` is "match" if the walk goes on, "bonus" if no child is the target's choice, and "end"
// if the text ended (a stop token or max_tokens) although a child matched.
export function walkOf(/** @type {Round} */ round) {
  const trials = /** @type {Map<number, Trial>} */ (new Map());
  round.trials?.nodes.forEach((node, turn) => {
    const [chance, draw] = [round.trials?.chances[turn] ?? NaN, round.trials?.draws[turn] ?? NaN];
    trials.set(node, { turn, chance, draw, passed: draw < chance });
  });
  return round.keep.map((node, place) => {
    const next = round.keep[place + 1] ?? null;
    const offers = round.children[node].map((child) => ({
      node: child,
      token: round.tokens[child],
      q: Math.exp(round.logprobs[child] - round.logprobs[node]),
      p: Math.exp(round.offered[child]),
      kept: child === next,
      match: round.trials ? child === next : round.tokens[child] === round.choice[node],
      trial: trials.get(child) ?? null,
    }));
    // those that were tried in their order, then what matches, then the most probable under the drafter
    offers.sort((one, other) => (one.trial?.turn ?? Infinity) - (other.trial?.turn ?? Infinity)
      || Number(other.kept) - Number(one.kept) || Number(other.match) - Number(one.match) || other.q - one.q);
    const choice = next !== null ? round.tokens[next] : round.bonus;
    const cut = next === null && offers.some(({ token, trial }) => token === round.bonus && (!trial || trial.passed));
    return {
      place, node, offers, next, choice,
      outcome: next !== null ? "match" : cut ? "end" : "bonus",
      chance: round.trials ? null : Math.exp(round.choiceLogprobs[node]),
      gap: round.gap[node],
      entropy: round.entropy[node],
      others: (round.alternatives?.[place] ?? []).filter(({ token }) => token !== choice),
    };
  });
}

// The verifier's walk, a row per step: the node, the target's choice, and the children that the tree offered.
const OFFER_WIDTH = 100; // pixels that a child takes at least; as many are shown as one line holds
const TRIAL_WIDTH = 140;
const STEP_HEIGHT = 58; // pixels of a step at least, but for the last
const STEPS_PER_FRAME = 3;
const STATS_TITLE = "Of the target, at temperature 1, before top-k and top-p. p: its probability of the token that it chose here; "
  + "gap: how far its likeliest token leads the second, in nats; H: the entropy, in nats";

function offerWords(/** @type {Offer} */ { node, q, p, match, kept, trial }) {
  const given = `q ${probability(q)}, p ${probability(p)}`;
  if (trial) {
    const { chance, draw, passed, turn } = trial;
    const test = `draw ${draw.toFixed(4)} ${passed ? "<" : "≥"} chance ${chance.toFixed(4)}: ${passed ? "accepted" : "rejected"}`;
    return `trial ${turn + 1}, row ${node}: ${test}; ${given}`;
  }
  return `row ${node}: drafter and target give it ${given}${match && !kept ? "; the token that the target chose, but not on the accepted path" : ""}`;
}

class VerifierPanel extends Panel {
  offersPerLine = 2; // how many children of a step fit into its line
  steps = /** @type {Step[]} */ ([]);
  linkedStep = -1; // the step that shows a child that is selected elsewhere
  hiddenSteps = /** @type {Step[]} */ ([]); // below the visible part, and not in the page yet
  deferredSteps = new DeferredDrawing(() => this.append(STEPS_PER_FRAME));
  waiting = "Here you see how the target walks through the tree, choice by choice.";

  constructor(/** @type {HTMLElement} */ host, /** @type {Stage} */ stage) {
    super(host, stage, "verifier");
    this.scroll = html("div", "cp-scroll", host);
    this.list = html("ol", { class: "cp-steps", "aria-label": "The verifier's walk" }, this.scroll);
    for (const name of ["mouseover", "focusin"]) this.list.addEventListener(name, (event) => stage.hover(this.nodeAt(event)));
    this.list.addEventListener("mouseleave", () => stage.hover(null));
    this.list.addEventListener("click", (event) => stage.pin(this.nodeAt(event)));
  }

  drawRound(/** @type {Round} */ round) {
    const width = this.room.width;
    const free = width * (width < 660 ? 1 : 0.64) - 50;
    this.offersPerLine = Math.max(2, Math.floor(free / (round.trials ? TRIAL_WIDTH : OFFER_WIDTH)));
    this.list.classList.toggle("has-trials", Boolean(round.trials));
    const steps = (this.steps = walkOf(round));
    const seen = Math.ceil(this.room.height / STEP_HEIGHT);
    this.list.replaceChildren(...steps.slice(0, seen).map((step) => this.stepRow(step)));
    this.hiddenSteps = steps.slice(seen);
    this.linkedStep = -1;
    this.deferredSteps.begin();
  }

  // Returns whether there are more.
  append(/** @type {number} */ count) {
    if (!this.round.n || !this.hiddenSteps.length) return false; // its round may be gone
    this.list.append(...this.hiddenSteps.splice(0, count).map((step) => this.stepRow(step)));
    this.select(this.stage.selection);
    return true;
  }

  finish() {
    this.append(Infinity);
  }

  /** @param {number} id @param {Origin} origin @param {Element} parent @param {number | null} node */
  token(id, origin, parent, node) {
    const mark = html("span", `cp-token o-${origin}`, parent, this.round.show(id));
    if (node !== null) mark.dataset.node = String(node);
    return mark;
  }

  /** `linked`: a child that is selected elsewhere, so that it has to be shown. @param {Step} step @param {number | null} [linked] */
  stepRow(step, linked) {
    const { round } = this;
    const { node, next, outcome, offers, chance, gap, entropy } = step;
    const row = html("li", { class: `cp-step is-${outcome}`, tabIndex: 0 });
    row.dataset.node = String(node);
    const line = html("div", "cp-step-line", row);
    html("span", "cp-step-number", line, String(step.place + 1));
    this.token(round.tokens[node], round.origin(node), line, node);
    html("span", "cp-arrow", line, "→");
    const origin = next === null ? "root" : round.origin(next);
    const chosen = this.token(step.choice, origin, line, next); // the bonus is no row
    chosen.classList.toggle("is-kept", outcome === "match");
    html("span", `cp-verdict o-${origin}`, line, outcome === "match" ? "✓" : outcome === "end" ? "■" : "◆");
    if (outcome !== "match") {
      html("span", "cp-verdict-words", line, outcome === "end" ? "the text ends before this token"
        : offers.length === 0 ? "bonus: the tree ends here" : round.trials ? "bonus: every child was rejected" : "bonus: no child is this token");
    }
    const stats = html("span", { class: "cp-stats", title: STATS_TITLE }, line);
    for (const [name, value] of [["p", chance === null ? "" : probability(chance)], ["gap", nats(gap)], ["H", nats(entropy)]]) {
      if (!value) continue;
      const stat = html("span", "cp-stat", stats);
      html("span", "cp-stat-name", stat, name);
      stat.append(value);
    }
    if (offers.length) {
      const box = html("div", "cp-offers", row);
      const tried = offers.filter((child) => child.trial).length;
      const shown = offers.slice(0, Math.max(tried, this.offersPerLine));
      if (linked) shown.splice(Math.max(1, tried), 1, ...offers.filter((child) => child.node === linked));
      box.append(...shown.map((child) => this.card(child)));
      if (offers.length > shown.length) html("span", "cp-more", line, `+${offers.length - shown.length} more`);
    }
    if (step.others.length) this.addAlternatives(step, row);
    return row;
  }

  /** The target's other likely tokens; a run can be branched off with each. @param {Step} step @param {Element} row */
  addAlternatives(step, row) {
    const box = html("div", "cp-others", row, "or ");
    for (const { token, p } of step.others) {
      const words = `${clip(this.round.show(token), 90, `11px ${MONO}`)} ${probability(p)}`;
      const ends = this.stage.endsText(token);
      const title = ends ? "With this token the text would end here" : "Force the text up to here with this token, and let the target go on: a new run";
      const item = button(box, words, title, () => this.stage.emit("alternative", { node: step.node, token }));
      item.disabled = ends || !this.stage.canBranch;
    }
  }

  // A child with its probabilities, or with its trial: it passes if the mark (its draw) lies inside the bar.
  card(/** @type {Offer} */ child) {
    const { node, token, kept, match, q, p, trial } = child;
    const look = `${kept ? "is-kept" : match ? "is-twin" : ""} ${trial ? "is-tried" : ""} o-${this.round.origin(node)}`;
    const card = html("span", { class: `cp-offer ${look}`, title: offerWords(child) });
    card.dataset.node = String(node);
    html("span", "cp-offer-token", card, clip(this.round.show(token), 68, `11px ${MONO}`));
    if (kept) html("span", "cp-offer-tick", card, "✓");
    if (trial && !trial.passed) html("span", "cp-offer-cross", card, "✗");
    const figures = trial ? { chance: trial.chance, draw: trial.draw } : { q, p };
    for (const [name, value] of Object.entries(figures)) {
      const box = html("span", "", card);
      const words = html("span", "cp-meter-words", box);
      html("span", "cp-meter-name", words, name);
      words.append(probability(value).replace("0.", ".")); // room is short
      if (name === "draw") continue;
      const track = html("span", "cp-track", box);
      html("span", `cp-bar ${name === "q" ? "is-q" : "is-p"}`, track).style.width = `${Math.min(100, 100 * (value || 0)).toFixed(1)}%`;
      if (trial) html("span", "cp-draw", track).style.left = `${(100 * trial.draw).toFixed(1)}%`;
    }
    return card;
  }

  nodeAt(/** @type {Event} */ event) {
    const mark = event.target instanceof Element && event.target.closest("[data-node]");
    return mark ? Number(mark.getAttribute("data-node")) : null;
  }

  select(/** @type {NodeSelection} */ { node, pinned }) {
    const { round, list } = this;
    const shown = (/** @type {number} */ one) => list.querySelector(`[data-node="${one}"]`);
    const exit = node === null ? undefined : round.path(node).find((step) => !round.kept.has(step)); // where its path left the kept one
    const wanted = exit ?? node;
    if (wanted !== null && !shown(wanted)) this.finish();
    const place = exit === undefined ? -1 : round.keep.indexOf(round.parents[exit]);
    const before = this.linkedStep;
    if (before >= 0 && before !== place && !list.matches(":hover, :focus-within")) { // as it was
      list.children[before].replaceWith(this.stepRow(this.steps[before]));
      this.linkedStep = -1;
    }
    if (exit !== undefined && !shown(exit)) {
      list.children[place].replaceWith(this.stepRow(this.steps[place], exit));
      this.linkedStep = place;
    }
    for (const mark of list.querySelectorAll("[data-node]")) {
      const chosen = Number(mark.dataset.node) === node;
      mark.classList.toggle("is-selected", chosen);
      mark.classList.toggle("is-pinned", chosen && pinned);
      mark.classList.toggle("is-exit", exit !== undefined && (Number(mark.dataset.node) === exit || mark === list.children[place]));
    }
    const first = list.querySelector(".is-exit, .is-selected");
    if (first) this.scrollTo(this.scroll, { x: 0, y: first.offsetTop, width: 0, height: first.offsetHeight });
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
  caption: "Click a step for its alternatives.",
  legend: [
    { glyph: "✓", label: "goes on", title: "A child is the token that the target chose: the walk goes on to it" },
    { glyph: "◆", label: "bonus", color: "--target", title: "No child is that token: it ends the round as the target's own" },
    { glyph: "q", label: "drafter", title: "The drafter's probability of this token" },
    { glyph: "p", label: "target", title: "The target's probability of the same token" },
    { glyph: "H", label: "entropy", title: "Entropy of the target's distribution, in nats" },
    { glyph: "gap", label: "lead", title: "How far the target's most likely token leads the second, in nats" },
  ],
  create: (host, stage) => new VerifierPanel(host, stage),
});
