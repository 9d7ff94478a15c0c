// Sentences about a run: its comparison with plain decoding, its pace, shared rounds, machines, measurements.
import assert from "node:assert/strict";
import { test } from "node:test";

import { coveredBy } from "../../assets/stage/metrics.js";
import { canMeasureAgain, fasterSetting, slowdownReason } from "../../assets/stage/slowdown.js";

const SPEED = { plain_speed: "40", speed: "20", times: "0.50×", ratio: 0.5, tau: "1.44", cost: "2.88" };

test("every run that was slower than plain decoding has a sentence about it", () => {
  const said = (outcome, others = []) => slowdownReason({ speedup: { ...SPEED, outcome }, comparison: { others }, rounds: Array(141).fill({ n: 4 }) });
  assert.equal(said("faster"), "");
  assert.ok(said("similar"));
  for (const figure of ["4 rows", "2.88", "1.44"]) assert.ok(said("slower").includes(figure));
  assert.ok(said("slower", [{ pace: "auto", rounds: 40, drafted: 3 }]).includes("auto"), "it would have decoded plainly");
  const withheld = { speedup: null, withheld: "Too few rounds." };
  assert.equal(slowdownReason(withheld), "Too few rounds.");
});

test("figures of a run being played count the rounds up to the shown one, otherwise the whole run", () => {
  const rounds = [1, 3, 4].map((kept) => ({ keep: Array(kept).fill(0), spent: 0.5, seconds: { verify: 0.5 } }));
  const stage = { rounds, current: 1, following: true, live: false, speedup: { tau: "2.67" }, speed: { text: "5.3" }, figuresBeforeRepetition: { tau: 8 / 3 }, repetition: null };
  const { run, rounds: count, speed, speedup } = coveredBy(stage);
  assert.deepEqual([run.tau, count, speed.text, speedup], [2, "2", "4.00", null]);
  for (const other of [{ following: false }, { current: 2 }]) {
    assert.deepEqual([coveredBy({ ...stage, ...other }).rounds, coveredBy({ ...stage, ...other }).speed], ["3", stage.speed]);
  }
});

test("a run is measured again only if that may help", () => {
  const stage = { server: {}, live: false, recorded: false, withheld: "Busy.", comparing: "", value: {}, header: { drafters: ["a"] }, figures: { shared: 0 }, comparison: { speed: { again: true } } };
  assert.ok(canMeasureAgain(stage));
  assert.ok(canMeasureAgain({ ...stage, withheld: "", comparison: null, comparing: "Another run came." }));
  for (const other of [{ comparison: { speed: { again: false } } }, { live: true }, { recorded: true }, { server: null }, { figures: { shared: 2 } },
    { withheld: "", comparing: "being measured …" }, { withheld: "" }]) assert.ok(!canMeasureAgain({ ...stage, ...other }));
});

test("after a slower run the fastest other setting is offered, otherwise plain decoding", () => {
  const other = { method: "ddtree", budget: 64, pace: "auto", ratio: 1.3, times: "1.30×", range: "1.2 to 1.4", rounds: 9, drafted: 9 };
  const lucky = { ...other, budget: 7, ratio: 1.7, times: "1.70×", drafted: 1 }; // chance: it decoded plainly
  const told = fasterSetting({ speedup: SPEED, comparison: { others: [lucky, other] } });
  assert.deepEqual([told.label, told.setting], ["Use auto (up to 64 nodes): 1.30×", { method: "ddtree", budget: 64, pace: "auto" }]);
  assert.equal(fasterSetting({ speedup: SPEED, comparison: { others: [{ ...other, range: "0.9 to 1.7" }] } }).label, "Use plain decoding");
  const own = (budget, ratio, range, pace = "fixed", used = budget) => ({ method: "ddtree", budget: used, ratio, range, options: { budget, pace } });
  const offered = (...runs) => fasterSetting({ speedup: SPEED, comparison: { others: [other] }, own: runs }).setting.budget;
  assert.equal(offered(own(2, 1.5, "1.4 to 1.6"), own(8, undefined, undefined)), 2, "the best of one's own runs");
  assert.equal(offered(own(32, 1.5, "1.4 to 1.6", "auto", 3)), 32, "an auto run's limit, not the nodes that it used");
  assert.equal(offered(own(2, 1.5, "1.4 to 1.6"), own(2, 0.8, "0.7 to 0.9")), 64, "repeated runs count as one setting");
});

