// The figures that are stored with a turn, and other settings for answering it again.
import assert from "node:assert/strict";
import { test } from "node:test";

import { DecodedRun, textOf } from "../../assets/shared/round.js";
import { expectedSpeed, figuresText, runOfTurn, otherSettings, RunList } from "../../assets/stage/runs.js";
import { header } from "./rounds.js";

test("a turn's figures are its setting, τ, speed, first token and share of drafted tokens, if known", () => {
  const point = { title: "ddtree, 3 nodes", tau: 2.5, printed: "40.1", first: 0.123, drafted: 0.6 };
  assert.equal(figuresText(point), "ddtree, 3 nodes · τ 2.50 · 40.1 tokens/s · first token after 0.12 s · 60 % drafted");
  assert.match(figuresText({ ...point, speed: null, doubt: "busy machine" }), /40\.1 tokens\/s, busy machine/);
  assert.equal(figuresText({ title: "autoregressive", tau: 1, printed: "" }), "autoregressive · τ 1.00");
});

test("a run should be as fast as this browser's runs of its setting here were measured, or else as predicted", () => {
  const rigs = { rig: "rig", hardware: "CPU", gains: { 2: "predicted" } };
  const bar = { method: "ddtree", budget: 2, pace: "fixed", temperature: 0 };
  const run = (changes, ratio = 1.5, machine = "rig, CPU, int4") => ({ ratio, range: "1.40 to 1.60", machine, options: { ...bar, ...changes } });
  const others = [run({ budget: 4 }), run({ method: "joint" }), run({ pace: "auto" }), run({ temperature: 1 }), run({}, 1.5, "rig, GPU, int4"), run({}, 0)];
  assert.equal(expectedSpeed(others, rigs, bar), "predicted");
  assert.match(expectedSpeed([...others, run({}), run({}, 1.3)], rigs, bar), /1\.40.*1\.30 to 1\.50/);
  assert.match(expectedSpeed([run({ method: "joint" })], rigs, { ...bar, method: "joint" }), /1\.50.*1\.40 to 1\.60/);
  for (const unpredicted of [{ method: "joint" }, { pace: "auto" }, { temperature: 1 }]) assert.equal(expectedSpeed([], rigs, { ...bar, ...unpredicted }), "");
});

test("an answer belongs to a run only if the turns before it are the same", () => {
  const run = (name, prompt, answer, before) => ({ run: name, prompt, answer, options: { turns: Array(before).fill(["user", ""]) } });
  const kept = [run("c", "Why?", "So.", 0), run("b", "Why?", "So.", 2), run("a", "Who?", "I.", 0)];
  const turns = [["user", "Who?"], ["assistant", "I."], ["user", "Why?"], ["assistant", "So."]];
  assert.deepEqual(turns.map((_, place) => runOfTurn(kept, turns, place)?.run), [undefined, "a", undefined, "b"]);
});

test("a turn can be answered again with the bar's settings, other budgets, plain decoding or another seed", () => {
  const labels = (options) => otherSettings({ options }).map(({ label }) => label);
  assert.deepEqual(labels({ method: "ddtree", budget: 16, temperature: 0, seed: 3 }),
    ["The settings in the bar", "32 nodes", "8 nodes", "Plain decoding", "Another seed, temperature 0.7"]);
  assert.deepEqual(labels({ method: "autoregressive", budget: 0, temperature: 1 }), ["The settings in the bar", "Another seed, temperature 1"]);
  assert.ok(!labels({ budget: 4096 }).includes("8192 nodes")); // beyond the server's limit
});

test("a branched run is answered again from its forced tokens; a label says when the bar's settings drop them", () => {
  const run = new DecodedRun("a");
  run.read(header({ forced: 2 }, { prompt_ids: [1, 2, 3] }));
  const [bar, ...others] = otherSettings({ options: run.header.options });
  assert.match(bar.label, /forced/);
  assert.ok(others.length && others.every(({ options }) => String(options.forced) === "2,3"));
});

test("the text of a branched run includes the words that it was forced to begin with", () => {
  const run = { header: { prompt_ids: [1, 2, 3], forced: 1 }, pieces: new Map([[3, "So "], [4, "it is."]]), texts: new Map(),
    rounds: [{ keep: [0], tokens: [4], start: 3 }] };
  assert.equal(textOf(run), "So it is.");
});

// Return a list of runs over a browser storage of `room` characters; `tab()` opens another list on the same storage.
function tabs(room) {
  const kept = {};
  const size = (values) => Object.values(values).join("").length;
  const value = Object.create({
    getItem: (key) => kept[key] ?? null,
    setItem(key, text) {
      if (size({ ...kept, [key]: text }) > room) throw new Error("QuotaExceededError");
      kept[key] = this[key] = text;
    },
    removeItem(key) {
      delete kept[key];
      delete this[key];
    },
  });
  Object.defineProperty(globalThis, "localStorage", { value, configurable: true });
  const failures = [];
  const tab = () => Object.assign(Object.create(RunList.prototype), {
    stage: { ownRuns: [], overlaidRuns: [], server: { export: () => ({ name: "a.gz", data: "data" }) } }, draw() {},
    recordings: { answer: (call) => call() }, notices: { fail: (message) => failures.push(message) } });
  return { tab, failures, runs: () => JSON.parse(kept["canopy-runs"]).runs, files: () => Object.keys(kept).filter((key) => key.includes("file:")) };
}

test("two tabs keep each other's runs and stars, and removing a star removes the file", async () => {
  const { tab, runs, files } = tabs(1e6);
  const [one, other] = [tab(), tab()];
  one.store((before) => [{ run: "a" }, ...before]);
  other.store((before) => [{ run: "b" }, ...before]);
  await one.star({ run: "a" });
  other.store();
  assert.deepEqual(runs(), [{ run: "b" }, { run: "a", starred: true }]);
  assert.deepEqual(files(), ["canopy-run-file:a"]);
  await other.star({ run: "a", starred: true });
  assert.deepEqual([runs(), files()], [[{ run: "b" }, { run: "a", starred: false }], []]);
});

test("the oldest runs without a star make room; if all have one, the page says that there is no room", () => {
  const { tab, runs, failures } = tabs(400);
  const list = tab();
  const add = (run, more = {}) => list.store((before) => [{ run, answer: "a".repeat(80), ...more }, ...before]);
  const names = () => runs().map(({ run }) => run);
  for (const run of "abcd") add(run, { starred: run === "a" });
  assert.deepEqual([names(), failures], [["d", "c", "a"], []]);
  for (const run of "efg") add(run, { starred: true });
  assert.equal(failures.length, 1);
  assert.ok(names().includes("a"));
});
