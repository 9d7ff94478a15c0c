// Reading rounds from the lines of a run, and the figures of rounds.
import assert from "node:assert/strict";
import { test } from "node:test";

import { array, DecodedRun, figuresOf, nextGuesses, readPieces, show, text, TokenReader } from "../../assets/shared/round.js";
import { header, line, packed, random, round, tree } from "./rounds.js";

test("packed arrays are unpacked unchanged", () => {
  assert.deepEqual(array(packed([1, -2, 70000])), Int32Array.from([1, -2, 70000]));
  assert.deepEqual(array(packed([0.5, -Infinity, NaN], Float32Array)), Float32Array.from([0.5, -Infinity, NaN]));
  assert.throws(() => array({ dtype: "<f8", data: "" }));
});

test("depths, children, fates and paths are derived from the parents", () => {
  const next = random(3);
  for (let turn = 0; turn < 20; turn++) {
    const { parents, keep } = tree(30, next);
    const made = round({ parents, keep });
    for (let node = 1; node < made.n; node++) {
      assert.equal(made.depths[node], made.depths[parents[node]] + 1);
      assert.ok(made.children[parents[node]].includes(node));
      assert.deepEqual(made.path(node), [...made.path(parents[node]), node]);
      assert.equal(made.fate[node], keep.includes(node) ? "accepted" : "rejected");
    }
    assert.deepEqual(made.path(keep.at(-1)), keep);
  }
  const made = round({ parents: [-1, 0, 0, 0], keep: [0], drafters: [0, 1, 2, 3] });
  assert.deepEqual([0, 1, 2, 3].map(made.origin), ["root", "drafter1", "drafter2", "both"]);
});

test("tokens are shown as typed, with signs for white space and incomplete bytes", () => {
  const shown = ["${7*6}", "</script>", " a", "\n", "\t", "\u200d", "", [0xe2, 0x82], undefined].map((piece) => show(piece, 7));
  assert.deepEqual(shown, ["${7*6}", "</script>", "␣a", "⏎", "⇥", "⟨200d⟩", "⟨⟩", "⟨e2⟩⟨82⟩", "⟨7⟩"]);
  const named = new Map();
  readPieces({ 3: "x", 4: [0xe2, 0x82, 0xac] }, named);
  assert.equal(text(named.get(4), 4), "€");
  assert.equal(text(named.get(3), 3), "x");
});

test("figures count the root, and the speed counts only rounds with a known time", () => {
  const rounds = [
    round({ parents: [-1, 0, 1], keep: [0, 1, 2], more: { seconds: { draft: 0.1, verify: 0.2 } } }),
    round({ parents: [-1, 0], keep: [0], more: { seconds: { verify: 0.1, wait: 0.1 } } }),
    round({ parents: [-1], keep: [0] })];
  const run = figuresOf(rounds);
  assert.deepEqual([run.tokens, run.rounds, run.shared], [5, 3, 1]);
  assert.ok(Math.abs(run.tau - 5 / 3) < 1e-12 && Math.abs(run.accepted - 2 / 3) < 1e-12);
  assert.ok(Math.abs(run.tokensPerSecond - 4 / 0.5) < 1e-9);
  assert.deepEqual([figuresOf([]).tau, figuresOf([]).tokensPerSecond], [0, 0]);
});

test("candidate trees without a verified node are the rejected ones, and each candidate has a confidence", () => {
  const candidate = (drafter, ...logprobs) => ({ parents: packed([0, 0, 0]), tokens: packed([1, 2, 3]), drafters: packed([0, drafter, drafter]), logprobs: packed([0, ...logprobs.map(Math.log)], Float32Array) });
  const more = { candidates: [candidate(1, 0.5, 0.25), candidate(2, 0.1, 0.1)] };
  const made = round({ parents: [-1, 0], keep: [0], drafters: [0, 1], more });
  assert.deepEqual(made.rejectedTrees.map(({ drafter, n }) => [drafter, n]), [[2, 3]]);
  assert.deepEqual(made.scores.map((score) => score.toFixed(3)), ["0.375", "0.100"]);
  const both = round({ parents: [-1, 0], keep: [0], drafters: [0, 3], more: { candidates: [candidate(1, NaN, 0.5)] } });
  assert.deepEqual([both.rejectedTrees, both.scores], [[], [NaN]], "not known");
});

test("the next guesses are the likeliest paths of the draft that are not in the tree", () => {
  // two depths, after each token two: 1 (0.6) then 3 (0.9) or 4 (0.1); 2 (0.4) then 5 (0.5) or 6 (0.5)
  const draft = { tokens: packed([1, 2, 0, 0, 3, 4, 5, 6], Int32Array, [2, 2, 2]), follow: packed([0, 1, 0, 0, 0, 0, 0, 0]),
    logprobs: packed([0.6, 0.4, 0, 0, 0.9, 0.1, 0.5, 0.5].map(Math.log), Float32Array) };
  const drafted = (header) => round({ parents: [-1, 0, 0, 1], tokens: [9, 1, 2, 3], keep: [0], more: { drafts: [draft] }, header });
  assert.deepEqual(nextGuesses(drafted()), { parents: [2, 2], tokens: [5, 6] });
  assert.deepEqual(nextGuesses(drafted({ method: "dflash" })).tokens, [], "a larger budget makes a chain longer");
  const wide = { ...draft, tokens: packed(Array.from({ length: 20 }, (_, id) => id), Int32Array, [1, 1, 20]), logprobs: packed(Array(20).fill(-3), Float32Array) };
  for (let drafted = 0; drafted < 10; drafted++) {
    const wider = round({ parents: [-1, ...Array(drafted).fill(0)], tokens: [9, ...Array(drafted).keys()], keep: [0], more: { drafts: [wide] } });
    assert.ok(nextGuesses(wider).tokens.length <= drafted, "the verified tree stays the larger part");
  }
});

test("a run is read from its lines", () => {
  const run = new DecodedRun("x");
  const texts = { 11: "one" };
  for (const one of [header({ engine: "theirs", every: 2, recorded: "" }, { budget: 0 }), line({ parents: [-1, 0], keep: [0, 1] }),
    { ...line({ parents: [-1], keep: [0], index: 1 }), texts }, { end: { reason: "stop" } }]) run.read(one);
  assert.deepEqual([run.rounds.length, run.end.reason, run.lines.length, run.rewritten], [2, "stop", 4, false]);
  assert.deepEqual([run.header.method, run.header.budget, run.header.note], ["ddtree", null, "Recorded in theirs, one round in 2."]);
  assert.equal(run.texts.get(11), "one");
  run.read({ end: { reason: "stop", texts: { 5: "?" } } });
  assert.ok(run.rewritten, "a text that is already on the page");
});

test("a token adds its piece, or a different text at its position", () => {
  const pieces = new Map([[1, " one"], [2, " two"], [3, [0xcf]], [4, [0x84]]]);
  const texts = new Map();
  readPieces({ 7: "one" }, texts);
  const reader = new TokenReader({ pieces, texts });
  assert.deepEqual([1, 2, 3, 4, 1, 9].map((id, place) => reader.read(id, 7 + place)), ["one", " two", "", "τ", " one", ""]);
});
