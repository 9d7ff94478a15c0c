// Timing the vetted prompts before a talk.
import assert from "node:assert/strict";
import { test } from "node:test";

import { timeAll } from "../../assets/stage/presenter.js";

globalThis.window = { location: { href: "http://localhost/" } };
globalThis.fetch = async () => new Response('{"state": "done", "run": "a", "message": ""}\n');

test("timing ends when the talk begins, also while the run is compared", { timeout: 5000 }, async () => {
  const talk = new AbortController();
  let asked = 0;
  const compared = async () => {
    talk.abort();
    return asked++ < 3 ? { state: "running" } : { state: "done", result: { speed: {} } };
  };
  const timed = {};
  await timeAll({ compare: async () => ({ job: "j" }), compared }, [{ label: "", prompt: "Why?" }], timed, talk.signal, () => undefined);
  assert.deepEqual([timed, asked], [{}, 1]);
});

test("a prompt counts as timed if a speed may be said of it", { timeout: 5000 }, async () => {
  const speeds = [{}, { withheld: "Busy.", again: true }];
  const compared = async () => ({ state: "done", result: { speed: speeds.shift() } });
  const server = { compare: async () => ({ job: "j" }), compared };
  const timed = {};
  const counts = [];
  const prompts = [{ label: "", prompt: "Why?" }, { label: "", prompt: "Busy, always." }];
  await timeAll(server, prompts, timed, new AbortController().signal, () => counts.push(Object.keys(timed).length));
  assert.deepEqual([Object.keys(timed), speeds.length, counts[0], counts.at(-1)], [["Why?"], 0, 0, 1]);
});
