// What the panels compute from a round before they draw: order, blocks, rows, cells, steps.
import assert from "node:assert/strict";
import { test } from "node:test";

import { budgetAtPosition, interpolate, axisPosition, throughOwnPoint, wordsAt } from "../../assets/panels/budget.js";
import { ratioOf, ratiosOf, verdictOf } from "../../assets/panels/fastest.js";
import { entryBudget } from "../../assets/panels/facts.js";
import { edgesOf } from "../../assets/panels/cache.js";
import { probability } from "../../assets/shared/ink.js";
import { changesOf, columnsOf, linesInto, shownOf } from "../../assets/panels/lattice.js";
import { nodesOfCells, spread } from "../../assets/panels/marginals.js";
import { blocksOf } from "../../assets/panels/mask.js";
import { walkOf } from "../../assets/panels/verifier.js";
import { packed, round } from "./rounds.js";

test("a merged mask has one block for each drafter; a mixed tree has none", () => {
  const merged = round({ parents: [-1, 0, 1, 0, 3], keep: [0], drafters: [0, 1, 1, 2, 2] });
  assert.deepEqual(blocksOf(merged), [{ mask: 1, start: 1, end: 3 }, { mask: 2, start: 3, end: 5 }]);
  assert.deepEqual(blocksOf(round({ parents: [-1, 0, 0, 0], keep: [0], drafters: [0, 1, 2, 1] })), []);
  assert.deepEqual(blocksOf(round({ parents: [-1, 0], keep: [0] })), []);
});

test("a walk has a step for each kept row and ends with the bonus", () => {
  //  0 ─ 1 ─ 3,  0 ─ 2;  kept 0, 2
  const made = round({ parents: [-1, 0, 0, 1], keep: [0, 2], tokens: [5, 6, 7, 8], choice: [7, 0, 99, 0],
    logprobs: [0, -1, -0.5, -2], offered: [0, -3, -0.25, -1] });
  const [first, last] = walkOf(made);
  assert.deepEqual([first.outcome, first.choice, first.next], ["match", 7, 2]);
  assert.deepEqual(first.offers.map(({ node, kept, match }) => [node, kept, match]), [[2, true, true], [1, false, false]]);
  assert.ok(Math.abs(first.offers[0].q - Math.exp(-0.5)) < 1e-6 && Math.abs(first.offers[0].p - Math.exp(-0.25)) < 1e-6);
  assert.deepEqual([last.node, last.outcome, last.choice, last.offers], [2, "bonus", 99, []]);
  const ended = round({ parents: [-1, 0], keep: [0], tokens: [5, 99], choice: [99, 0] });
  assert.equal(walkOf(ended)[0].outcome, "end"); // a child matched, but the text ended before it
});

test("trials keep their order, and pass if the draw is below the acceptance probability", () => {
  const made = round({ parents: [-1, 0, 0, 0], keep: [0, 3], acceptance: { trials: {
    nodes: packed([2, 3]), chances: packed([0.5, 0.5], Float32Array), draws: packed([0.75, 0.25], Float32Array) } } });
  const offers = walkOf(made)[0].offers.map(({ node, trial }) => [node, trial && trial.passed]);
  assert.deepEqual(offers, [[2, false], [3, true], [1, null]]);
});

test("kept slots stay visible among a thousand rows, and all rows fit the strip", () => {
  for (const [size, keep] of [[8, [0, 1]], [1000, [0, 5, 900]], [1000, [...Array(200).keys()]]]) {
    const made = round({ parents: [-1, ...Array(size - 1).fill(0)], keep });
    const { edges, uneven } = edgesOf(made, 300);
    const wide = keep.map((node) => edges[node + 1] - edges[node]);
    assert.ok(edges[size] <= 300 + 1e-6 && Math.min(...wide) >= Math.min(9, 0.6 * 300 / keep.length) - 1e-9);
    assert.equal(uneven, size === 1000);
  }
});

const ln = Math.log;
const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-5, `${one} is not ${other}`);

function draft(rows, tokens, chances, follow = null) {
  const k = 3;
  return { depth: tokens.length / (rows * k), rows, k, tokens: Int32Array.from(tokens), follow, logprobs: Float32Array.from(chances.map(ln)) };
}

test("cells of the marginals belong to the nodes with their tokens", () => {
  const DRAFT = draft(1, [1, 2, 3, 4, 5, 6], [0.5, 0.3, 0.1, 0.7, 0.2, 0.05]);
  const made = round({ parents: [-1, 0, 0, 1, 1], keep: [0, 1, 3], tokens: [9, 1, 2, 4, 5], drafters: [0, 1, 3, 1, 2],
    logprobs: [0, ln(0.5), ln(0.3), ln(0.5) + ln(0.7), ln(0.5) + ln(0.2)] });
  assert.deepEqual([...nodesOfCells(DRAFT, 0, made)], [["0 1", 1], ["0 2", 2], ["1 4", 3]]);
  assert.deepEqual([...nodesOfCells(DRAFT, 1, made)], [["0 2", 2], ["1 5", 4]]);
  const { chances, rest, entropy } = spread(DRAFT, 1, 2);
  near(chances[0], 0.7);
  near(rest, 0.1);
  const part = (chance) => -chance * ln(chance);
  near(entropy, part(0.7) + part(0.2) + 2 * part(0.05));
});

test("a lattice links each candidate to its successors and shows how it changes their probability", () => {
  // Only the root precedes the first position, so its other rows have no probability. 4 follows 1, and 5 follows 2.
  const lattice = draft(3, [1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6, 5, 4, 6, 4, 5, 6],
    [0.5, 0.4, 0.1, 0, 0, 0, 0, 0, 0, 0.8, 0.1, 0.1, 0.85, 0.15, 0, 0.4, 0.4, 0.2],
    Int32Array.from([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 0, 2, 0, 1, 2]));
  const made = round({ parents: [-1, 0, 0, 2, 1], keep: [0, 2, 3], tokens: [9, 1, 2, 5, 4],
    logprobs: [0, ln(0.5), ln(0.4), ln(0.36), ln(0.4)] });
  const { root, columns: [first, second], path, places } = columnsOf(lattice, 0, made);
  assert.deepEqual(first.map(({ token, node }) => [token, node]), [[1, 1], [2, 2], [3, null]]);
  assert.deepEqual(second.map(({ token, node }) => [token, node]), [[4, 4], [5, 3], [6, null]]);
  assert.deepEqual(places, [root, first[0], first[1], second[1], second[0]]);
  near(second[0].mass, 0.5 * 0.8 + 0.4 * 0.15 + 0.1 * 0.4);
  assert.deepEqual(shownOf(second, 1).map(({ token }) => token), [4]);

  const lines = linesInto(second, first, path, made).map(({ from, to, lit, kept }) => [from.token, to.token, lit, kept]);
  assert.deepEqual(lines.slice(0, 2), [[2, 5, true, true], [1, 4, true, false]]); // the kept path, the tree, the others
  assert.ok(lines.every(([from, to]) => from !== 2 || to !== 6)); // 6 never follows 2
  assert.deepEqual(linesInto(first, [root], path, made).map(({ to, kept }) => [to.token, kept]), [[2, true], [1, false], [3, false]]);

  const changes = changesOf(first[1], second);
  assert.deepEqual(changes.map(({ to }) => to.token), [5, 4]);
  near(changes[0].chance, 0.85);
  near(changes[0].average, 0.5 * 0.1 + 0.4 * 0.85 + 0.1 * 0.4);
});

test("budgets and places on the axis correspond one to one", () => {
  for (const budget of [0, 1, 2, 7, 64, 300, 1024]) assert.equal(budgetAtPosition(axisPosition(budget)), budget);
  assert.deepEqual([budgetAtPosition(-1), budgetAtPosition(2), axisPosition(5000)], [0, 1024, 1]);
  const values = [2, 4, 5];
  assert.deepEqual([1, 4, 9, 16, 99].map((budget) => interpolate([1, 4, 16], values, budget) > 4.4), [false, false, true, true, true]);
  near(interpolate([1, 4, 16], values, 2), 3);
  near(interpolate([1, 4, 16], values, 99), 5);
});

test("numbers are never rounded to zero or to certainty", () => {
  assert.deepEqual([0, 0.0004, 0.05, 0.5, 0.99, 0.9951, 0.9989, 0.9995, 1, NaN].map(probability), ["0.000", "<0.001", "0.050", "0.50", "0.99", "0.995", "0.999", ">0.999", ">0.999", "–"]);
});

test("the prediction passes through the run's measurement, also if its speed-up is withheld", () => {
  const band = (mean) => ({ mean, low: mean, high: mean });
  const forecast = { budgets: [2, 8], tau: band([1.2, 1.8]), speed: band([60, 50]), plain: 70 };
  const own = { budget: 2, tau: 1.6, speed: null, printed: "90" };
  near(throughOwnPoint(forecast, own).tau.mean[1], 3.4);
  const { speed, plain } = throughOwnPoint(forecast, own);
  near(speed.mean[0], 90);
  near(speed.mean[1] / speed.mean[0], (50 / 60) * (3.4 / 1.8) / (1.6 / 1.2), "a round's time is as predicted");
  near(plain, 70 * (90 / 80), "plain decoding is slowed as much as the run");
  near(throughOwnPoint(forecast, { ...own, ratio: 1.5 }).plain, 60, "unless both were measured");
  near(throughOwnPoint(forecast, { ...own, ratio: 1.5 }, [{ budget: 8, ratio: 2, low: 1.9, high: 2.1 }]).speed.mean[1], 120, "and through other measured budgets");
  const poor = throughOwnPoint(forecast, { budget: 8, tau: 1.1, speed: null, printed: "40" });
  assert.ok(poor.tau.mean.every((tokens) => tokens >= 1), "a round adds a token at least");
});

test("what is said of budgets follows from what was measured beside plain decoding, then from predictions", () => {
  const ratio = (budget, ratio, low, high) => ({ budget, ratio, low, high });
  const [at4, at16, slow64] = [ratio(4, 2, 1.9, 2.1), ratio(16, 2.8, 2.5, 3.1), ratio(64, 0.7, 0.6, 0.8)];
  const said = (measured, predicted = []) => {
    const { words, level } = verdictOf(measured, predicted, "unknown");
    return [words.replace(/[^\d.]+/g, " ").trim(), level[0]?.budget ?? null];
  };
  assert.deepEqual(verdictOf([], [], "unknown"), { words: "unknown", title: "", level: [] });
  assert.deepEqual(said([at4, at16, slow64]), ["16 2.8 2.5 3.1", 16], "a faster run of the same prompt is named beside the shown one");
  assert.deepEqual(said([ratio(4, 2.6, 2.3, 2.9), ratio(8, 2.7, 2.3, 2.9), at16]), ["4 16 2.6 2.8", 4], "overlapping ranges are level, and the smallest is named");
  assert.deepEqual(said([ratio(4, 2.6, 2.3, 2.9), slow64, at16]), ["4 16 2.6 2.8", 4]);
  assert.deepEqual(said([ratio(16, 2.4, 2.3, 2.5), at16, at4]), ["16 2.6 2.4 2.8", 16], "two runs of one budget have one range, which holds both");
  assert.deepEqual(said([ratio(8, 1.5, 0.9, 2.4), ratio(8, 1.5, 0.9, 2.4), ratio(8, 1.5, 0.9, 2.4)]), ["8 1.50 1.13 1.99", 8], "and narrows with each");
  assert.deepEqual(said([slow64])[1], 0, "plain decoding");
  assert.deepEqual(said([slow64, ratio(2, 1.1, 0.95, 1.2)]), ["2", null], "no clear difference");
  assert.equal(said([ratio(4, 1.05, 0.95, 1.3), ratio(16, 1.4, 1.2, 1.6)])[1], 16, "what may be slower than plain decoding is not level");
  assert.deepEqual(said([at4], [ratio(4, 9, 9, 9), ratio(8, 2.19, 2, 3)])[1], 4, "a gain of less than 10 % is none");
  assert.deepEqual(said([slow64], [ratio(16, 1.3, 0.9, 1.6)]), ["16 0.90 1.60", 16], "a prediction has its range");
  assert.deepEqual(said([], [ratio(16, 1.01, 0.9, 1.2)]), ["", null], "no gain is predicted");
  assert.equal(verdictOf([{ ...at4, name: "auto" }], [], "").level[0].name, "auto");
  assert.ok(!verdictOf([at16, ratio(8, 2.7, 2.3, 2.9), { ...ratio(64, 2.7, 2.4, 3), name: "auto" }], [], "").words.includes("auto"), "fixed budgets are named first");
});

test("ratios have ranges, or are not compared", () => {
  assert.deepEqual(ratioOf({ budget: 4, ratio: 2, range: "1.9 to 2.1" }), [{ budget: 4, name: undefined, ratio: 2, low: 1.9, high: 2.1 }]);
  assert.deepEqual([ratioOf({ budget: 4, ratio: 2, range: "" }), ratioOf({ budget: 4 })], [[], []]);
  const band = { mean: [60, 80], low: [50, 70], high: [70, 90] };
  const curve = { budgets: [1, 4], speed: band, plain: 40 };
  assert.deepEqual(ratiosOf(curve)[1], { budget: 4, ratio: 2, low: 1.75, high: 2.25 });
  assert.deepEqual([ratiosOf({ ...curve, plain: 0 }), ratiosOf(null)], [[], []]);
});

test("up to the largest budget that was measured for the prompt, no other figures are shown", () => {
  const band = (mean) => ({ mean, low: mean, high: mean });
  const measured = { budgets: [2, 8], tau: band([2, 4]), speed: band([66, 50]), plain: 70, prompts: 1 };
  const forecast = { budgets: [1, 4, 16], tau: band([1, 2, 3]), speed: band([600, 750, 400]), measured };
  assert.match(wordsAt(forecast, 2).short, /2\.0, 66\D/);
  assert.match(wordsAt(forecast, 4).short, /3\.0, 58\D/);
  assert.match(wordsAt(forecast, 16).short, /^[^,.]*not measured/);
  assert.match(wordsAt({ ...forecast, measured: null }, 4).short, /predicted.*2\.0, 750\D/);
  assert.match(wordsAt({ ...forecast, candidates: 18, measured: null }, 64).short, /^64 [^.,]*not predicted.* 18 /);
});

test("a node's budget is its rank in the order in which nodes enter, for methods with such an order", () => {
  const parents = [-1, 0, 1, 0, 3];
  const budgets = (header) => [0, 1, 2, 3, 4].map((node) => entryBudget(round({ parents, keep: [0], drafters: [0, 1, 1, 2, 2], header }), node));
  assert.deepEqual(budgets({ method: "ddtree" }), [null, 1, 2, 3, 4]);
  assert.deepEqual(budgets({ method: "merged", split: "each" }), [null, 1, 2, 1, 2]);
  assert.deepEqual(budgets({ method: "merged", split: "total" }), [null, 1, 3, 2, 4]);
  assert.deepEqual(budgets({ method: "joint" }), [null, null, null, null, null]);
});
