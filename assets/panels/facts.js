// A node in words, for its tip and for the sheet of a pinned one.

import { clip, html, originName, probability } from "../shared/ink.js";
import { counted } from "../shared/round.js";

const PATH_ROOM = 240; // pixels for the path in a tip
const TIP_FONT = "12px system-ui, sans-serif";

/** Kept, or why not. @param {Round} round @param {number} node */
function fateOf(round, node) {
  const parent = round.parents[node];
  if (round.trials) return round.kept.has(node) ? "accepted in its trial" : "rejected: its trial failed, or was not made";
  if (round.kept.has(node)) return "accepted: the target chose it";
  if (!round.kept.has(parent)) return "rejected with its parent";
  const place = round.keep.indexOf(parent) + 1;
  return `rejected: the target chose ${round.show(place < round.keep.length ? round.tokens[round.keep[place]] : round.bonus)} here`;
}

/** The smallest node budget at which a node is in the tree. Null if that is not known: nodes of these methods alone enter in
 *  an order that does not depend on the budget. @param {Round} round @param {number} node */
export function entryBudget({ method, drafters, split }, node) {
  if (node && ["ddtree", "dflash"].includes(method)) return node;
  if (!node || method !== "merged") return null;
  const second = drafters[node] === 2;
  const place = second ? node - drafters.indexOf(2) + 1 : node; // in its own drafter's tree
  return split === "each" ? place : 2 * place - Number(!second);
}

/** Where a node's keys and values lie, and where they go. @param {Round} round @param {number} node */
export function slotWords({ start, keep }, node) {
  const place = keep.indexOf(node);
  return `slot ${start + node}: ${place < 0 ? "dropped" : place === node ? "stays" : `moves to slot ${start + place}`}`;
}

/** The facts of a node, by name.
 *  @param {Round} round @param {number} node @returns {[name: string, words: string][]} */
export function factsOf(round, node) {
  const depth = round.depths[node];
  /** @type {[name: string, words: string][]} */
  const origin = node ? draftedFacts(round, node) : [["root", "the target's own token from the round before"]];
  return [["row", `${node}, depth ${depth}, position ${round.start + depth}`], ...origin, ["cache", slotWords(round, node)]];
}

/** The facts of a drafted node. @param {Round} round @param {number} node @returns {[name: string, words: string][]} */
function draftedFacts(round, node) {
  const parent = round.parents[node];
  const path = round.path(node).slice(0, -1).filter(Boolean).map((step) => round.show(round.tokens[step]));
  const entry = entryBudget(round, node);
  /** @type {[name: string, words: string][]} */
  const facts = [
    ["after", clip(path.join(""), PATH_ROOM, TIP_FONT)],
    [originName(round, node), `q ${probability(Math.exp(round.logprobs[node] - round.logprobs[parent]))}, of the path `
      + `${probability(Math.exp(round.logprobs[node]))}, sibling ${round.children[parent].indexOf(node) + 1} of ${round.children[parent].length}`],
    ["target", `p ${probability(Math.exp(round.offered[node]))}, top two tokens ${round.gap[parent].toFixed(2)} nats apart`],
    ["fate", fateOf(round, node)],
    ["budget", entry === null ? "" : `in the tree from ${counted(entry, "node")} on`]];
  return facts.filter(([, words]) => words);
}

// The pinned node's facts, beside the tree instead of over it.
export class NodeSheet {
  constructor(/** @type {HTMLElement} */ host) {
    this.host = host;
    this.box = html("aside", { class: "cp-sheet", "aria-label": "Pinned node", hidden: true }, host);
    this.head = html("div", "cp-sheet-head", this.box);
    this.token = html("strong", "cp-tip-first", this.head);
    this.facts = html("dl", "", this.box);
  }

  // The pixels that it takes of the host: of its width, or of its height if it is as wide as the host.
  get room() {
    if (this.box.hidden) return { wide: 0, high: 0 };
    const { offsetWidth, offsetHeight } = this.box;
    return offsetWidth < this.host.clientWidth ? { wide: offsetWidth, high: 0 } : { wide: 0, high: offsetHeight };
  }

  /** @param {string} token @param {[name: string, words: string][]} facts */
  show(token, facts) {
    this.box.hidden = false;
    this.token.textContent = token;
    this.facts.replaceChildren(...facts.flatMap(([name, words]) => [html("dt", "", null, name), html("dd", "", null, words)]));
  }
}
