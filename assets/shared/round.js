// From the server's JSON to the model of a round that panels draw: typed arrays, and what follows from them.

import { bytesOf } from "./ink.js";

const KINDS = { "<i4": Int32Array, "<i2": Int16Array, "<f4": Float32Array };
const ORIGINS = /** @type {const} */ (["root", "drafter1", "drafter2", "both"]);
/** @type {Record<string, string>} */
const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥" };

export function array(/** @type {PackedArray} */ packed) {
  return new KINDS[packed.dtype](bytesOf(packed.data).buffer);
}

function integers(/** @type {PackedArray} */ packed) {
  return Int32Array.from(array(packed));
}

/** @param {Record<string, Piece>} named @param {Map<number, Piece>} into */
export function readPieces(named, into) {
  for (const id in named) {
    const piece = named[id];
    into.set(Number(id), typeof piece === "string" ? piece : Array.from(piece));
  }
}

/** @param {Piece | undefined} piece @param {number} id */
export function text(piece, id) {
  if (piece === undefined) return `⟨${id}⟩`;
  return typeof piece === "string" ? piece : new TextDecoder().decode(new Uint8Array(piece));
}

// Reads tokens one after the other: a character that several of them share stands in the one that completes it. At some
// positions a token adds another text than its piece, most often the first one.
export class TokenReader {
  constructor(/** @type {{ pieces: Map<number, Piece>, texts: Map<number, Piece> }} */ { pieces, texts }) {
    this.pieces = pieces;
    this.texts = texts;
    this.decoder = new TextDecoder();
    this.encoder = new TextEncoder();
  }

  /** @param {number} id @param {number} position */
  read(id, position) {
    const piece = this.texts.get(position) ?? this.pieces.get(id) ?? "";
    return this.decoder.decode(typeof piece === "string" ? this.encoder.encode(piece) : new Uint8Array(piece), { stream: true });
  }

  // What began and was never completed.
  end() {
    return this.decoder.decode();
  }
}

// White space and control characters as signs, bytes that are no whole character as ⟨e2⟩.
/** @param {Piece | undefined} piece @param {number} id */
export function show(piece, id) {
  if (piece === undefined) return `⟨${id}⟩`;
  if (typeof piece !== "string") return piece.map((byte) => `⟨${byte.toString(16).padStart(2, "0")}⟩`).join("");
  if (piece === "") return "⟨⟩";
  return piece.replace(/[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) =>
    SIGNS[sign] || `⟨${sign.charCodeAt(0).toString(16).padStart(2, "0")}⟩`);
}

/** @param {TreeView} view @returns {Tree} */
function tree(view) {
  const parents = integers(view.parents);
  const n = parents.length;
  const depths = new Int32Array(n);
  const children = Array.from({ length: n }, () => /** @type {number[]} */ ([]));
  for (let node = 1; node < n; node++) {
    depths[node] = depths[parents[node]] + 1;
    children[parents[node]].push(node);
  }
  return { n, tokens: integers(view.tokens), parents, depths, children,
    logprobs: array(view.logprobs), drafters: integers(view.drafters) };
}

/** @param {RoundView["drafts"][number]} view @returns {Draft} */
function draft(view) {
  const [depth, rows, k] = view.tokens.shape;
  return { depth, rows, k, tokens: integers(view.tokens), logprobs: array(view.logprobs), follow: view.follow ? integers(view.follow) : null };
}

/** @param {RoundView} view @param {Header} header @param {Map<number, Piece>} named @param {Round} [before] the previous round
 *  @returns {Round} */
export function readRound(view, header, named, before) {
  const drafted = tree(view.tree);
  const kept = new Set(view.keep);
  const verification = view.verification;
  const seconds = secondsOf(view, before);
  return {
    ...drafted,
    shared: shared(view.shared),
    index: view.index, start: view.start, elapsed: view.elapsed,
    choice: integers(verification.choice), choiceLogprobs: array(verification.logprobs),
    entropy: array(verification.entropy), gap: array(verification.gap), offered: array(verification.offered),
    keep: Array.from(view.keep), kept,
    fate: Array.from(drafted.parents, (_, node) => (node === 0 ? "root" : kept.has(node) ? "accepted" : "rejected")),
    bonus: view.bonus,
    trials: view.trials && { nodes: integers(view.trials.nodes), chances: array(view.trials.chances), draws: array(view.trials.draws) },
    rejectedTrees: view.rejected_trees.map((view) => ({ drafter: view.drafter, ...tree(view) })),
    drafts: view.drafts.map(draft), scores: Array.from(view.scores, (score) => (score === null ? NaN : score)),
    seconds, spent: Object.values(seconds).reduce((sum, part) => sum + part, 0), method: header.method, budget: header.budget, engine: header.engine || "",
    chunked: Boolean(header.chunked),
    drafterNames: Array.from(header.drafters),
    path(node) {
      const steps = [node];
      while (steps[0] !== 0) steps.unshift(drafted.parents[steps[0]]);
      return steps;
    },
    text: (id) => text(named.get(id), id),
    show: (id) => show(named.get(id), id),
    origin: (node) => ORIGINS[drafted.drafters[node] & 3],
  };
}

// The runs that shared the round: shapes of trees and what was kept; null if none did, or if it is not known.
function shared(/** @type {RoundView["shared"]} */ view) {
  if (!view) return null;
  const blocks = view.blocks.map((block) => ({
    seat: block.seat, parents: integers(block.parents), keep: block.keep, poolsRows: block.pools_rows }));
  return { runs: view.runs, own: view.own, blocks };
}

/** If an engine recorded no seconds by stage, the time since the previous round stands for all of them.
 *  @param {RoundView} view @param {Round | undefined} before @returns {Record<string, number>} */
function secondsOf(view, before) {
  if (!before || Object.keys(view.seconds).length || view.index <= before.index) return { ...view.seconds };
  return { loop: (view.elapsed - before.elapsed) / (view.index - before.index) };
}

// What was asked, in a few words; another engine may not have recorded how many nodes.
export function settingOf(/** @type {Header} */ header) {
  return header.budget === null || header.drafters?.length === 0 ? header.method : `${header.method}, ${counted(header.budget, "node")}`;
}

/** @param {number} count @param {string} what */
export const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

// How many nodes a round verified of its budget; with auto the median of the rounds that drafted.
/** @param {Header} header @param {Round[]} rounds */
export function usedOf(header, rounds) {
  if (header.pace !== "auto") return header.drafters.length ? header.budget ?? 0 : 0;
  const sizes = rounds.map(({ n }) => n - 1).filter((size) => size > 0).sort((one, other) => one - other);
  return sizes[sizes.length >> 1] || 0;
}

// Said if a recording has gaps.
export function missingWords(/** @type {number} */ count) {
  return count === 1 ? "One round is not in the recording" : `${count} rounds are not in the recording`;
}

// τ: tokens committed per round, the root of each included; 0 if there was no round.
/** @param {number} tokens @param {number} rounds */
export function meanLength(tokens, rounds) {
  return rounds ? tokens / rounds : 0;
}

// Tokens per second with three significant digits, as the server prints them; "" if there are none.
export function rateText(/** @type {number} */ rate) {
  if (!(rate > 0)) return "";
  const rounded = Number(rate.toPrecision(3));
  return rounded.toFixed(Math.max(0, 2 - Math.floor(Math.log10(rounded))));
}

// The figures of some rounds: engine time alone, the root of each round included in τ. Speed is that of the rounds
// whose time is known; rounds that were shared with other runs include the waiting.
export function figuresOf(/** @type {Round[]} */ rounds) {
  let tokens = 0;
  let timedTokens = 0;
  let seconds = 0;
  let shared = 0;
  for (const round of rounds) {
    const spent = Object.values(round.seconds);
    tokens += round.keep.length;
    if (round.seconds.wait !== undefined) shared++;
    if (spent.length) timedTokens += round.keep.length;
    for (const part of spent) seconds += part;
  }
  const tau = meanLength(tokens, rounds.length);
  return {
    tokens, seconds, shared, rounds: rounds.length, tau, accepted: Math.max(0, tau - 1),
    tokensPerSecond: seconds > 0 ? timedTokens / seconds : 0,
  };
}

// What the trees of a run contain: origins of nodes, trees that were not chosen, transitions, and whether rounds were shared.
export class Present {
  constructor() {
    this.origins = /** @type {Set<Origin>} */ (new Set());
    this.rejectedTrees = false;
    this.lattice = false;
    this.shared = false;
  }

  note(/** @type {Round} */ round) {
    for (let node = 0; node < round.n; node++) this.origins.add(round.origin(node));
    this.rejectedTrees = this.rejectedTrees || round.rejectedTrees.length > 0;
    this.lattice = this.lattice || round.drafts.some(({ follow }) => follow !== null);
    this.shared = this.shared || Boolean(round.shared);
  }
}
