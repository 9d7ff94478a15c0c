// The timeline's axis: positions of rounds, zooming, and the totals of a selection.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Axis, totalsOf } from "../../assets/stage/axis.js";
import { roundTicks } from "../../assets/shared/ink.js";

const ROUNDS = [0.01, 0.02, 0.01, 0.04, 0.02].map((spent, index) => ({
  keep: Array(index + 1).fill(0), spent, seconds: { draft: spent / 4, verify: (3 * spent) / 4 } }));

function axisOf(byTime) {
  const axis = new Axis();
  axis.byTime = byTime;
  axis.layOut(ROUNDS, 100);
  return axis;
}

test("rounds are as wide as their times, or equally wide", () => {
  const time = axisOf(true);
  assert.deepEqual(time.edges.map((edge) => Math.round(time.x(edge))), [0, 10, 30, 40, 80, 100]);
  assert.deepEqual([0, 9, 11, 35, 79, 81, 150].map((pixel) => time.at(pixel)), [0, 0, 1, 2, 3, 4, 4]);
  const even = axisOf(false);
  assert.deepEqual(even.edges.map((edge) => even.x(edge)), [0, 20, 40, 60, 80, 100]);
});

test("zooming keeps the round under the pointer, stays within the run, and out again shows all of it", () => {
  for (const byTime of [true, false]) {
    const axis = axisOf(byTime);
    const before = axis.at(70);
    axis.zoom(0.7, 70);
    axis.layOut(ROUNDS, 100);
    assert.equal(axis.at(70), before);
    assert.ok(axis.from > 0 && axis.to < axis.edges.at(-1));
    axis.show(0);
    axis.layOut(ROUNDS, 100);
    assert.equal(axis.from, 0);
    for (let notch = 0; notch < 20; notch++) axis.zoom(0.5, 100);
    axis.layOut(ROUNDS, 100);
    assert.ok(Math.abs(axis.to - axis.from - (3 * axis.edges.at(-1)) / 5) < 1e-9, "not less than three rounds");
    axis.zoom(Infinity, 50);
    assert.equal(axis.part, null);
  }
});

test("ticks are round numbers within the range", () => {
  assert.deepEqual(roundTicks(0.031, 0.1, 5).map((tick) => Number(tick.toFixed(6))), [0.04, 0.06, 0.08, 0.1]);
  assert.deepEqual(roundTicks(0, 16.2, 4), [0, 5, 10, 15]);
});

test("a selection sums tokens, rounds and the time of every stage", () => {
  const { rounds, tokens, spent, seconds } = totalsOf(ROUNDS, 1, 3);
  assert.deepEqual([rounds, tokens], [3, 9]);
  assert.ok(Math.abs(spent - 0.07) < 1e-12 && Math.abs(seconds.draft - 0.0175) < 1e-12 && Math.abs(seconds.verify - 0.0525) < 1e-12);
});
