// What is said of a run: beside plain decoding, of its pace, of who shared its rounds, of machines and measurements.
import assert from "node:assert/strict";
import { test } from "node:test";

import { curvesOf } from "../../assets/lab/curves.js";
import { duration } from "../../assets/lab/forms.js";
import { counted } from "../../assets/lab/sweep.js";
import { spread } from "../../assets/lab/table.js";
import { sharing } from "../../assets/panels/batch.js";
import { shortened } from "../../assets/stage/bar.js";
import { insteadOf } from "../../assets/stage/cheaper.js";
import { measuresAgain, paced, slower, sumsOf } from "../../assets/stage/metrics.js";
import { guesses } from "../../assets/stage/story.js";
import { round } from "./rounds.js";

const SPEED = { plain_speed: "40", speed: "20", times: "0.50×", ratio: 0.5, tau: "1.44", cost: "2.88" };

test("no run that was slower than plain decoding goes without a sentence", () => {
  const said = (standing, others = []) => slower({ against: { ...SPEED, standing }, comparison: { others }, mode: "story", rounds: Array(141).fill({ n: 4 }), figures: { tokens: 203 } });
  assert.equal(said("faster"), "");
  assert.ok(said("alike").startsWith("No clear difference to plain decoding here: "));
  const faster = "141 passes instead of 203. A pass over 4 rows, draft included, costs 2.88 plain ones here, so τ 1.44 loses; from τ 2.88 on it wins.";
  assert.equal(said("slower", [{ pace: "auto", rounds: 40, drafted: 3 }]), `${faster} The budget auto would have decoded plainly.`);
  assert.equal(said("slower", [{ pace: "auto", rounds: 40, drafted: 30 }]), faster);
  const withheld = { against: null, withheld: "Too few rounds." };
  assert.deepEqual([slower({ ...withheld, mode: "workbench" }), slower({ ...withheld, mode: "story" })], ["Too few rounds.", ""]);
});

test("guesses and depth are two numbers", () => {
  const said = (...parents) => guesses(round({ parents, keep: [0] })).join("");
  assert.equal(said(-1, 0, 0, 1, 1, 2), "5 guesses, up to 2 tokens ahead");
  assert.equal(said(-1, 0, 1, 2), "3 guesses, 3 tokens ahead");
  assert.equal(said(-1, 0), "1 guess, one token ahead");
  assert.equal(said(-1, 0, 0, 0), "3 guesses, one token ahead");
});

test("a run is measured again if that may help, and only there", () => {
  const stage = { server: {}, live: false, recorded: false, withheld: "Busy.", comparing: "", value: {}, header: { drafters: ["a"] }, figures: { shared: 0 }, comparison: { speed: { again: true } } };
  assert.ok(measuresAgain(stage));
  assert.ok(measuresAgain({ ...stage, withheld: "", comparison: null, comparing: "Another run came." }));
  for (const other of [{ comparison: { speed: { again: false } } }, { live: true }, { recorded: true }, { server: null }, { figures: { shared: 2 } },
    { withheld: "", comparing: "being measured …" }, { withheld: "" }]) assert.ok(!measuresAgain({ ...stage, ...other }));
});

test("instead of what was slower the fastest other setting is offered, else plain decoding", () => {
  const other = { method: "ddtree", budget: 64, pace: "auto", ratio: 1.3, times: "1.30×", rounds: 9, drafted: 9 };
  const lucky = { ...other, budget: 7, ratio: 1.7, times: "1.70×", drafted: 1 }; // it decoded plainly: that is chance
  const told = insteadOf({ against: SPEED, comparison: { others: [lucky, other] } });
  assert.deepEqual([told.label, told.setting], ["Use auto up to 64 nodes: 1.30×", { method: "ddtree", budget: 64, pace: "auto" }]);
  assert.ok(told.title.endsWith("auto up to 64 nodes 1.30×."));
  assert.equal(insteadOf({ against: SPEED, comparison: { others: [{ ...other, ratio: 0.4 }] } }).label, "Use plain decoding");
});

test("a run at the pace auto says how often it drafted", () => {
  const header = { pace: "auto", drafters: ["first"], budget: 1024 };
  const rounds = (drafted) => [...Array(8).keys()].map((place) => ({ n: place < drafted ? 4 : 1 }));
  assert.equal(paced(header, rounds(1), false), "auto used 3 of up to 1,024 nodes and drafted in 1 of 8 rounds; in the others a draft would have cost more than it brought.");
  assert.equal(paced(header, rounds(0), true), "auto has decoded plainly so far: a draft would have cost more than it brought.");
  assert.equal(paced(header, rounds(7), false), "auto used 3 of up to 1,024 nodes.");
  assert.equal(paced({ ...header, pace: "fixed" }, rounds(1), false), "");
});

test("the sums of a server that reports no rounds count its passes", () => {
  const stage = (end) => ({ header: { chunked: true }, value: { end } });
  assert.deepEqual(sumsOf(stage({ drafted: 8, accepted: 7 }), { tokens: 9 }), { drafted: 8, accepted: 7, passes: 2 });
  assert.deepEqual(sumsOf(stage(null), { tokens: 9 }), { drafted: 0, accepted: 0, passes: 0 });
  assert.equal(sumsOf({ header: {}, value: {} }, { tokens: 9 }), null);
});

test("a batch says who shares one total of rows", () => {
  const said = (...pools) => sharing(pools.map((poolsRows, seat) => ({ seat, poolsRows, own: seat === 1 })));
  assert.equal(said(false, true, true), "Yours and run 3 (auto) share one total of rows.");
  assert.equal(said(true, true, true), "All runs (auto) share one total of rows.");
  assert.deepEqual([said(false, true, false), said(false, false, false)], ["", ""]);
});

test("a processor's name is said without what its maker adds to all of them", () => {
  assert.equal(shortened("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz, 2 cores"), "Intel Xeon Platinum 8480+, 2 cores");
  assert.equal(shortened("AMD EPYC 9R14 96-Core Processor, 2 cores"), "AMD EPYC 9R14, 2 cores");
});

test("the curves of a run are its figures after each round, over all and over the latest", () => {
  const rounds = [2, 1, 1, 1, 1, 1, 1, 1, 1, 1].map((kept, index) => round({ parents: [-1, 0], keep: [0, 1].slice(0, kept), index,
    more: { seconds: index === 3 ? {} : { verify: 0.1 } } }));
  rounds[3].seconds = {}; // nobody knows how long it took
  const curves = curvesOf(rounds);
  assert.deepEqual([curves["tau.all"][0], curves["tau.all"].at(-1), curves["tau.recent"].at(-1)], [2, 1.1, 1]);
  assert.ok(Math.abs(curves["speed.all"].at(-1) - 10 / 0.9) < 1e-9 && Math.abs(curves["speed.recent"].at(-1) - 10) < 1e-9);
});

test("counts, times and intervals read as words", () => {
  assert.deepEqual([counted(1, "run"), counted(1234, "run")], ["1 run", "1,234 runs"]);
  assert.deepEqual([0.2, 89, 91, 7200, NaN].map(duration), ["1 s", "89 s", "2 min", "2.0 h", ""]);
  assert.equal(spread({ prompts: 1 }, 0), "1 prompt");
  assert.equal(spread({ low: null, high: null, least: 1234, most: 2000, prompts: 3 }, 0), "1,234 – 2,000");
  assert.equal(spread({ low: 1.234, high: 2, least: 1, most: 3, prompts: 8 }, 2), "1.23 – 2.00");
});
