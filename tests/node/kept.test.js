// Runs that are kept in the browser by name.
import assert from "node:assert/strict";
import { test } from "node:test";

import { NamedRuns } from "../../assets/stage/kept.js";

test("runs are kept by name until the room is used up, which is said and loses nothing", () => {
  const store = new Map();
  globalThis.localStorage = { getItem: (key) => store.get(key) ?? null, setItem: (key, text) => store.set(key, text) };
  const runs = new NamedRuns();
  const run = (name, size) => ({ name, note: "τ 2.0", file: "run.jsonl.gz", data: "A".repeat(size) });
  assert.equal(runs.keep(run("one", 1e6)), "");
  assert.equal(runs.keep(run("two", 1e6)), "");
  assert.equal(runs.keep(run("one", 1.5e6)), ""); // replaced
  assert.match(runs.keep(run("three", 1e6)), /^The browser has no room .*\.$/);
  assert.deepEqual(runs.all.map(({ name, data }) => [name, data.length]), [["one", 1.5e6], ["two", 1e6]]);
  globalThis.localStorage.setItem = () => { throw new Error("QuotaExceededError"); };
  assert.match(runs.keep(run("four", 10)), /no room/);
  globalThis.localStorage.setItem = (key, text) => store.set(key, text);
  runs.forget("one");
  assert.equal(runs.keep(run("three", 1e6)), "");
  assert.deepEqual(runs.all.map(({ name }) => name), ["three", "two"]);
});
