// Timing the vetted prompts before a talk.
import assert from "node:assert/strict";
import { test } from "node:test";

import { time } from "../../assets/stage/presenter.js";

test("timing ends when the talk begins, also while the run is compared", { timeout: 5000 }, async () => {
  const talk = new AbortController();
  let asked = 0;
  const compared = async () => {
    talk.abort();
    return asked++ < 3 ? { state: "running" } : { state: "done", result: { speed: {} } };
  };
  globalThis.window = { location: { href: "http://localhost/" } };
  globalThis.fetch = async () => new Response('{"state": "done", "run": "a", "message": ""}\n');
  assert.equal(await time({ server: { compare: async () => ({ job: "j" }), compared } }, { label: "", prompt: "Why?" }, talk.signal), "");
  assert.equal(asked, 1);
});
