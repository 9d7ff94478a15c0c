// Rounds for the tests, made as the page makes them: from what the server sends.
import { readRound } from "../../assets/shared/round.js";

const DTYPES = { Int32Array: "<i4", Float32Array: "<f4" };

export function packed(values, Kind = Int32Array, shape = [values.length]) {
  const bytes = new Uint8Array(Kind.from(values).buffer);
  return { dtype: DTYPES[Kind.name], shape, data: btoa(String.fromCharCode(...bytes)) };
}

// A generator of numbers in [0, 1), the same at every run.
export function random(seed) {
  let state = seed;
  return () => {
    state = (1664525 * state + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

// Parents of a tree of that many nodes, and a path from the root.
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

// A round's line.
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

// The header's line of a run.
export function header(more = {}, asked = {}) {
  return { header: { drafters: ["first"], pieces: {}, recorded: "2026-11-20", turns: [], prompt: "", note: "", engine: "", every: 1, ...more,
    request: { method: "ddtree", budget: 8, max_tokens: 9, sampling: {}, prompt_ids: [], stop_ids: [], ...asked } } };
}

export function round(given, before) {
  const header = { method: "ddtree", budget: 8, drafters: ["first", "second"], ...given.header };
  return readRound(line(given), header, given.pieces || new Map(), before);
}
