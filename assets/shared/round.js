// Decodes the lines of a run into the model that panels draw: typed arrays and derived values.

import { bytesOf } from "./ink.js";

/** @import * as lines from "../types.d.ts" */

const KINDS = { "<i4": Int32Array, "<f4": Float32Array };
const SMALL_TREE = 8; // drafted nodes; a smaller tree is drawn with the next guesses
const ORIGINS = /** @type {const} */ (["root", "drafter1", "drafter2", "both"]);
/** @type {Record<string, string>} */
const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥" };

/** @template {"<i4" | "<f4"} Dtype @param {lines.Packed<Dtype>} packed
 *  @returns {Dtype extends "<i4" ? Int32Array : Float32Array} */
export function array(packed) {
  return /** @type {any} */ (new KINDS[packed.dtype](bytesOf(packed.data).buffer));
}

/** @param {Record<string, Piece>} pieces @param {Map<number, Piece>} target */
export function readPieces(pieces, target) {
  for (const id in pieces) {
    const piece = pieces[id];
    target.set(Number(id), typeof piece === "string" ? piece : Array.from(piece));
  }
}

export function text(/** @type {Piece | undefined} */ piece, /** @type {number} */ id) {
  if (piece === undefined) return `⟨${id}⟩`;
  return typeof piece === "string" ? piece : new TextDecoder().decode(new Uint8Array(piece));
}

// Decodes tokens in order. A character split over several tokens comes with the last of them. `texts` replaces a
// token's piece at some positions, most often at the first one.
export class TokenReader {
  constructor(/** @type {{ pieces: Map<number, Piece>, texts: Map<number, Piece> }} */ { pieces, texts }) {
    this.pieces = pieces;
    this.texts = texts;
    this.decoder = new TextDecoder();
    this.encoder = new TextEncoder();
  }

  read(/** @type {number} */ id, /** @type {number} */ position) {
    const piece = this.texts.get(position) ?? this.pieces.get(id) ?? "";
    return this.decoder.decode(typeof piece === "string" ? this.encoder.encode(piece) : new Uint8Array(piece), { stream: true });
  }

  // The bytes of a character that was never completed.
  end() {
    return this.decoder.decode();
  }
}

// White space and control characters as signs, bytes that are no whole character as ⟨e2⟩.
export function show(/** @type {Piece | undefined} */ piece, /** @type {number} */ id) {
  if (piece === undefined) return `⟨${id}⟩`;
  if (typeof piece !== "string") return piece.map((byte) => `⟨${byte.toString(16).padStart(2, "0")}⟩`).join("");
  if (piece === "") return "⟨⟩";
  return piece.replace(/[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) =>
    SIGNS[sign] || `⟨${sign.charCodeAt(0).toString(16).padStart(2, "0")}⟩`);
}

/** @param {lines.DraftTree} packed @returns {Tree} */
function tree(packed) {
  const parents = array(packed.parents);
  const n = parents.length;
  const depths = new Int32Array(n);
  const children = Array.from({ length: n }, () => /** @type {number[]} */ ([]));
  for (let node = 1; node < n; node++) {
    depths[node] = depths[parents[node]] + 1;
    children[parents[node]].push(node);
  }
  return { n, tokens: array(packed.tokens), parents, depths, children, logprobs: array(packed.logprobs), drafters: array(packed.drafters) };
}

/** @param {lines.Lattice} packed @returns {Draft} */
function draft(packed) {
  const [depth, rows, k] = packed.tokens.shape;
  return { depth, rows, k, tokens: array(packed.tokens), logprobs: array(packed.logprobs), follow: rows > 1 ? array(packed.follow) : null };
}

/** @param {lines.Entry} line @param {Header} header @param {Map<number, Piece>} named @param {Round} [before] the previous round
 *  @returns {Round} */
export function readRound({ round, elapsed_seconds: elapsed, shared: others }, header, named, before) {
  const drafted = tree(round.tree);
  const { verification, acceptance: { bonus, trials } } = round;
  const keep = Array.from(array(round.acceptance.keep));
  const kept = new Set(keep);
  const isTimed = !before || Object.keys(round.seconds).length > 0 || round.index <= before.index;
  /** @type {Record<string, number>} if an engine recorded none by stage, the time since the previous round stands for all of them */
  const seconds = isTimed ? { ...round.seconds } : { loop: (elapsed - before.elapsed) / (round.index - before.index) };
  const candidates = round.candidates.map(tree);
  const verified = drafted.drafters.reduce((mask, drafters) => mask | drafters, 0);
  return {
    ...drafted,
    shared: others ? { ...others, blocks: others.blocks.map((block) => ({ // shapes of trees and what was kept
      seat: block.seat, parents: array(block.parents), keep: Array.from(array(block.keep)), poolsRows: block.pools_rows })) } : null,
    index: round.index, start: round.start, elapsed,
    choice: array(verification.choice), choiceLogprobs: array(verification.logprobs),
    entropy: array(verification.entropy), gap: array(verification.gap), offered: array(verification.offered),
    keep, kept,
    fate: Array.from(drafted.parents, (_, node) => (node === 0 ? "root" : kept.has(node) ? "accepted" : "rejected")),
    bonus,
    alternatives: round.alternatives ? alternatives(round.alternatives) : null,
    trials: trials && { nodes: array(trials.nodes), chances: array(trials.chances), draws: array(trials.draws) },
    // the drafted trees of which no node was verified
    rejectedTrees: candidates.map((tree, index) => ({ drafter: index + 1, ...tree })).filter(({ n, drafter }) => n > 1 && !(verified & (1 << (drafter - 1)))),
    drafts: round.drafts.map(draft), scores: candidates.map(confidence),
    seconds, spent: Object.values(seconds).reduce((sum, part) => sum + part, 0),
    method: header.method, budget: header.budget, split: header.split, engine: header.engine || "",
    chunked: Boolean(header.chunked),
    drafterNames: header.drafters.map((_, drafter) => drafterName(header, drafter)),
    path(node) {
      const steps = [node];
      while (steps[0] > 0) steps.unshift(drafted.parents[steps[0]]);
      return steps;
    },
    text: (id) => text(named.get(id), id),
    show: (id) => show(named.get(id), id),
    origin: (node) => ORIGINS[drafted.drafters[node] & 3],
  };
}

/** The best guesses of a small tree's draft that are not in it, half as many as are at most, the likeliest first; of the best-first
 *  method with one drafter. The first of them has the number after the last node.
 *  @param {Round} round @returns {{ parents: number[], tokens: number[] }} */
export function nextGuesses({ n, method, drafts: [draft], children, tokens: verified }) {
  const parents = /** @type {number[]} */ ([]);
  const tokens = /** @type {number[]} */ ([]);
  const count = Math.min(Math.ceil((n - 1) / 2), SMALL_TREE - (n - 1));
  if (method !== "ddtree" || !draft || count < 1) return { parents, tokens };
  const frontier = /** @type {{ parent: number, cell: number, depth: number, logprob: number }[]} */ ([]);
  const expand = (/** @type {number} */ parent, /** @type {number} */ depth, /** @type {number} */ row, /** @type {number} */ above) => {
    const start = (depth * draft.rows + row) * draft.k;
    for (let cell = start; depth < draft.depth && cell < start + draft.k; cell++) {
      const logprob = above + draft.logprobs[cell];
      if (logprob > -Infinity) frontier.push({ parent, cell, depth, logprob });
    }
    frontier.sort((one, other) => other.logprob - one.logprob);
  };
  expand(0, 0, 0, 0);
  for (let next = frontier.shift(); next && tokens.length < count; next = frontier.shift()) {
    const { parent, cell, depth, logprob } = next;
    let node = children[parent]?.find((child) => verified[child] === draft.tokens[cell]);
    if (node === undefined) {
      node = n + tokens.length;
      parents.push(parent);
      tokens.push(draft.tokens[cell]);
    }
    expand(node, depth + 1, draft.follow?.[cell] ?? 0, logprob);
  }
  return { parents, tokens };
}

/** A drafter's μ: the mean path probability of its nodes. @param {Tree} tree */
function confidence({ n, logprobs }) {
  const total = Array.from(logprobs.subarray(1), Math.exp).reduce((sum, chance) => sum + chance, 0);
  return total / Math.max(1, n - 1);
}

/** The target's most likely tokens after each kept row. @param {lines.Alternatives} packed @returns {{ token: number, p: number }[][]} */
function alternatives({ tokens, logprobs }) {
  const [rows, k] = tokens.shape;
  const [ids, logs] = [array(tokens), array(logprobs)];
  return Array.from({ length: rows }, (_, row) => Array.from({ length: k }, (__, rank) => (
    { token: ids[row * k + rank], p: Math.exp(logs[row * k + rank]) })));
}

/** Flattens a header and adds the options of its run; the budget is null if another engine did not report it.
 *  @param {lines.Header} header @returns {Header} */
function readHeader({ request: { prompt_ids, stop_ids, sampling, ...request }, ...header }) {
  const { prompt, drafters, turns, thinking, engine, every } = header;
  const chosen = { ...request, ...sampling };
  const sample = every > 1 ? `, one round in ${every}` : "";
  return {
    ...header, ...chosen, prompt_ids, stop_ids,
    note: engine ? `${header.note} Recorded in ${engine}${sample}.`.trim() : header.note,
    budget: engine && !request.budget ? null : request.budget,
    options: { ...chosen, prompt, drafters, turns, thinking, forced: forcedOf({ prompt_ids, forced: header.forced }) },
  };
}

// A run, built up line by line.
export class DecodedRun {
  header = /** @type {Header | null} */ (null);
  rounds = /** @type {Round[]} */ ([]);
  end = /** @type {lines.End | null} */ (null);
  pieces = /** @type {Map<number, Piece>} */ (new Map());
  texts = /** @type {Map<number, Piece>} */ (new Map()); // by position
  rewritten = false; // whether the text of an earlier token has changed
  present = new RunContents();
  lines = /** @type {lines.StreamLine[]} */ ([]); // of a live run, as they came

  constructor(/** @type {string} */ name) {
    this.name = name;
  }

  read(/** @type {lines.StreamLine} */ line) {
    if ("header" in line) {
      this.header = readHeader(line.header);
      readPieces(line.header.pieces, this.pieces);
    } else if ("round" in line && this.header) {
      readPieces(line.pieces, this.pieces);
      this.readTexts(line.texts, line.round.start);
      const round = readRound(line, this.header, this.pieces, this.rounds.at(-1));
      this.rounds.push(round);
      this.present.add(round);
    } else if ("end" in line) {
      this.end = line.end;
      this.readTexts(line.end.texts, Infinity);
    }
    if (!this.header?.recorded) this.lines.push(line);
  }

  /** What tokens add to the text at some positions; those before `start` may stand on the page already.
   *  @param {Record<string, Piece>} [texts] @param {number} start */
  readTexts(texts = {}, start = 0) {
    readPieces(texts, this.texts);
    this.rewritten = this.rewritten || Object.keys(texts).some((position) => Number(position) < start);
  }

  // How many rounds before this one were not recorded.
  missing(/** @type {number} */ index) {
    const before = this.rounds[index - 1];
    return Math.max(0, this.rounds[index].index - (before ? before.index + 1 : 0));
  }
}

/** The text of a run so far, what it was made to begin with included. @param {Pick<DecodedRun, "header" | "rounds" | "pieces" | "texts">} run */
export function textOf(run) {
  const { header } = run;
  const reader = new TokenReader(run);
  const forced = header ? forcedOf(header).map((id, offset) => reader.read(id, header.prompt_ids.length - header.forced + offset)) : [];
  const written = run.rounds.flatMap((round) => round.keep.map((node, offset) => reader.read(round.tokens[node], round.start + offset)));
  return [...forced, ...written].join("") + reader.end();
}

/** Where a run was made; figures of different machines are not drawn together. @param {Header} header */
export const machineOf = ({ rig, hardware, dtype }) => [rig, hardware, dtype].join(", ");

// How a ticked run is marked over the one that is shown.
export const letterOf = (/** @type {number} */ index) => String.fromCharCode(65 + index);

/** What a drafter is, by the kind of its checkpoint. @type {Record<string, string>} */
export const DRAFTER_KINDS = {
  phrases: "a table of phrases", ngram: "a count of what followed what", dflash: "a small model", eagle3: "a small model", autoregressive: "a small model",
};

/** What a drafter is called on the page: an only one by what it is, two by name. @param {Header} header @param {number} drafter */
const drafterName = ({ drafters, drafter_kinds: kinds }, drafter) => (drafters.length === 1 && DRAFTER_KINDS[kinds[drafter]]) || drafters[drafter];

/** The same for a legend. @param {Header | null} header @param {number} drafter */
export function drafterWords(header, drafter) {
  const name = header?.drafters[drafter];
  if (!name || header.drafters.length > 1) return name;
  const shown = drafterName(header, drafter);
  return shown === name ? `drafter ${name}` : `drafter: ${shown}`;
}

/** The tokens that a run's answer begins with because they were set. @param {Pick<Header, "prompt_ids" | "forced">} header */
export const forcedOf = ({ prompt_ids, forced }) => prompt_ids.slice(prompt_ids.length - (forced || 0));

// What was asked, in a few words; another engine may not have recorded how many nodes.
export function settingOf(/** @type {Pick<Header, "method" | "budget" | "drafters">} */ header) {
  return header.budget === null || header.drafters?.length === 0 ? header.method : `${header.method}, ${counted(header.budget, "node")}`;
}

/** @param {number | string} count @param {string} what @param {string} [several] */
export const counted = (count, what, several = `${what}s`) => `${Number(count).toLocaleString("en")} ${Number(count) === 1 ? what : several}`;

// How many nodes a round verified of its budget; with auto the median of the rounds that drafted.
export function usedOf(/** @type {Header} */ header, /** @type {Round[]} */ rounds) {
  if (header.pace !== "auto") return header.drafters.length ? header.budget ?? 0 : 0;
  const sizes = rounds.map(({ n }) => n - 1).filter((size) => size > 0).sort((one, other) => one - other);
  return sizes[sizes.length >> 1] || 0;
}

// How many rounds a recording lacks, in words.
export function missingWords(/** @type {number} */ count) {
  return count === 1 ? "One round is not in the recording" : `${count} rounds are not in the recording`;
}

// Tokens per second with three significant digits, as the server prints them; "" if there are none.
export function rateText(/** @type {number} */ rate) {
  if (!(rate > 0)) return "";
  const rounded = Number(rate.toPrecision(3));
  return rounded.toFixed(Math.max(0, 2 - Math.floor(Math.log10(rounded))));
}

/** A run's speed as every view prints it; "" if it is unknown. @param {Pick<RunPoint, "speed" | "printed" | "doubt">} point */
export function speedText({ speed, printed, doubt = speed === null ? "not compared" : "" }) {
  return printed && [`${printed} tokens/s`, doubt].filter(Boolean).join(", ");
}

// The figures of some rounds: engine time alone, the root of each round included in τ. Speed is that of the rounds
// whose time is known; rounds that were shared with other runs include the waiting.
export function figuresOf(/** @type {Round[]} */ rounds) {
  let [tokens, timedTokens, seconds, shared] = [0, 0, 0, 0];
  for (const round of rounds) {
    tokens += round.keep.length;
    seconds += round.spent;
    if (round.seconds.wait !== undefined) shared++;
    if (Object.keys(round.seconds).length) timedTokens += round.keep.length;
  }
  const tau = rounds.length ? tokens / rounds.length : 0;
  return {
    tokens, seconds, shared, rounds: rounds.length, tau, accepted: Math.max(0, tau - 1),
    tokensPerSecond: seconds > 0 ? timedTokens / seconds : 0,
  };
}

// What the trees of a run contain: origins of nodes, guesses that were not verified, transitions, and whether rounds were shared.
export class RunContents {
  origins = /** @type {Set<Origin>} */ (new Set());
  unverified = false;
  lattice = false;
  shared = false;

  add(/** @type {Round} */ round) {
    for (let node = 0; node < round.n; node++) this.origins.add(round.origin(node));
    this.unverified = this.unverified || round.rejectedTrees.length > 0 || nextGuesses(round).tokens.length > 0;
    this.lattice = this.lattice || round.drafts.some(({ follow }) => follow !== null);
    this.shared = this.shared || Boolean(round.shared);
  }
}
