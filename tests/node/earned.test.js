// How often the nodes of each position were kept over a run.
import assert from "node:assert/strict";
import { test } from "node:test";

import { KeptShares } from "../../assets/panels/facts.js";

// A root with two children; the first has one child.
function round(kept, drafters = [0, 1, 1, 1]) {
  return { n: 4, parents: [0, 0, 0, 1], children: [[1, 2], [3], [], []], depths: [0, 1, 1, 2], drafters, kept: new Set(kept) };
}

test("a node's position is its rank, depth and drafter; each round is counted once", () => {
  const earned = new KeptShares();
  const rounds = [round([0, 1, 3]), round([0, 2])];
  earned.count(rounds);
  earned.count(rounds);
  assert.deepEqual([1, 2, 3].map((node) => earned.share(rounds[0], node)), [0.5, 0.5, 0.5]);
  rounds.push(round([0, 1]), round([0, 2], [0, 1, 2, 1]));
  earned.count(rounds);
  assert.deepEqual([1, 2, 3].map((node) => earned.share(rounds[0], node)), [0.5, 1 / 3, 0.25]);
  assert.equal(earned.share(rounds[3], 2), 1);
  assert.equal(earned.share(rounds[0], 0), 1);
  earned.count([round([0, 1])]);
  assert.equal(earned.placeOf(rounds[0], 1).seen, 1, "another run starts from zero");
});
