// Rounds for the tests, read as the page reads them from the server's lines.
import { readRound } from "../../assets/shared/round.js";

const DTYPES = { Int32Array: "<i4", Float32Array: "<f4" };

export function packed(values, Kind = Int32Array, shape = [values.length]) {
  const bytes = new Uint8Array(Kind.from(values).buffer);
  return { dtype: DTYPES[Kind.name], shape, data: btoa(String.fromCharCode(...bytes)) };
}

// Return a generator of numbers in [0, 1) that depends only on the seed.
export function random(seed) {
  let state = seed;
  return () => {
    state = (1664525 * state + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

// Return the parents of a random tree and a path from its root.
export function tree(size, next) {
  const parents = [-1];
  for (let node = 1; node < size; node++) parents.push(Math.floor(next() * node));
  const keep = [0];
  for (;;) {
    const children = parents.flatMap((parent, node) => (parent === keep.at(-1) ? [node] : []));
    if (!children.length || next() < 0.2) return { parents, keep };
    keep.push(children[Math.floor(next() * children.length)]);
  }
}

// Return the line of a round.
export function line({ parents, keep, drafters, tokens, index = 0, ...others }) {
  const n = parents.length;
  const flat = new Array(n).fill(-1);
  const node = (values, Kind) => packed(values || flat, Kind);
  return {
    round: {
      index, start: 10, drafts: [], candidates: [], seconds: {},
      tree: { parents: packed(parents), tokens: packed(tokens || parents.map((_, row) => row)), drafters: packed(drafters || parents.map(() => 1)),
        logprobs: node(others.logprobs, Float32Array) },
      verification: { choice: node(others.choice), logprobs: node(null, Float32Array), entropy: node(null, Float32Array),
        gap: node(null, Float32Array), offered: node(others.offered, Float32Array) },
      acceptance: { keep: packed(keep), bonus: 99, trials: null, ...others.acceptance },
      ...others.more,
    },
    pieces: {}, elapsed_seconds: 0.1 * (index + 1),
  };
}

// Return the line of a run's header.
export function header(more = {}, asked = {}) {
  return { header: { drafters: ["first"], drafter_kinds: [""], pieces: {}, recorded: "2026-11-20", turns: [], prompt: "", note: "", engine: "", every: 1, ...more,
    request: { method: "ddtree", budget: 8, max_tokens: 9, sampling: {}, prompt_ids: [], stop_ids: [], ...asked } } };
}

export function round(given, before) {
  const header = { method: "ddtree", budget: 8, drafters: ["first", "second"], ...given.header };
  return readRound(line(given), header, given.pieces || new Map(), before);
}
