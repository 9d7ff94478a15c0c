// The figures that a turn keeps, and the other settings that it can be answered with.
import assert from "node:assert/strict";
import { test } from "node:test";

import { textOf } from "../../assets/shared/round.js";
import { figuresText, madeBy, othersOf } from "../../assets/stage/runs.js";

test("a turn is told by its setting, τ, speed, first token and share of drafted tokens, as far as they are known", () => {
  const point = { title: "ddtree, 3 nodes", tau: 2.5, printed: "40.1", first: 0.123, drafted: 0.6 };
  assert.equal(figuresText(point), "ddtree, 3 nodes · τ 2.50 · 40.1 tokens/s · first token after 0.12 s · 60 % drafted");
  assert.equal(figuresText({ title: "autoregressive", tau: 1, printed: "" }), "autoregressive · τ 1.00");
});

test("an answer belongs to the run that wrote it after the same turns", () => {
  const run = (name, prompt, answer, before) => ({ run: name, prompt, answer, options: { turns: Array(before).fill(["user", ""]) } });
  const kept = [run("c", "Why?", "So.", 0), run("b", "Why?", "So.", 2), run("a", "Who?", "I.", 0)];
  const turns = [["user", "Who?"], ["assistant", "I."], ["user", "Why?"], ["assistant", "So."]];
  assert.deepEqual(turns.map((_, place) => madeBy(kept, turns, place)?.run), [undefined, "a", undefined, "b"]);
});

test("a turn is answered again with the bar's settings, other budgets, plain decoding, or drawn anew", () => {
  const labels = (options) => othersOf({ options }).map(({ label }) => label);
  assert.deepEqual(labels({ method: "ddtree", budget: 16, temperature: 0, seed: 3 }),
    ["The settings in the bar", "32 nodes", "8 nodes", "Plain decoding", "Another seed, temperature 0.7"]);
  assert.deepEqual(labels({ method: "autoregressive", budget: 0, temperature: 1 }), ["The settings in the bar", "Another seed, temperature 1"]);
});

test("the text of a run that branched off has the words that it was made to begin with", () => {
  const run = { header: { prompt_ids: [1, 2, 3], forced: 1 }, pieces: new Map([[3, "So "], [4, "it is."]]), texts: new Map(),
    rounds: [{ keep: [0], tokens: [4], start: 3 }] };
  assert.equal(textOf(run), "So it is.");
});
