// The lines of a run over unreliable connections: each line arrives once, or the server's refusal does.
import assert from "node:assert/strict";
import { test } from "node:test";

import { knownRun, linesIn, newRun } from "../../assets/shared/lines.js";

globalThis.window = { location: { href: "http://host/" } };
const neverAborted = new AbortController().signal;
const RUNNING = { state: "running", run: "x", message: "" };
const DONE = { ...RUNNING, state: "done" };

// Answer each request in turn: with pieces of text, where null breaks the connection, or with a refusal.
function serve(...answers) {
  const asked = [];
  globalThis.fetch = async (address, { method = "GET" } = {}) => {
    asked.push(`${method} ${address}`);
    const pieces = answers.shift();
    if (!pieces) throw new TypeError("fetch failed");
    if (pieces.detail) return new Response(JSON.stringify(pieces), { status: 422 });
    return new Response(new ReadableStream({
      async start(stream) {
        for (const piece of pieces) {
          if (piece === null) stream.error(new TypeError("network error"));
          else stream.enqueue(new TextEncoder().encode(piece));
          await new Promise((later) => { setTimeout(later, 1); });
        }
        if (!pieces.includes(null)) stream.close();
      },
    }));
  };
  return asked;
}

const text = (...lines) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

async function readAll(lines) {
  const had = [];
  for await (const some of lines(neverAborted)) had.push(...some);
  return had;
}

test("lines arrive complete, however the connection split them", async () => {
  const whole = text(RUNNING, { header: { prompt: "a\nb 🌳" } }, DONE);
  const asked = serve([whole.slice(0, 10), whole.slice(10, 60), whole.slice(60)]);
  assert.deepEqual(await readAll(newRun({ prompt: "x" })), linesIn(whole));
  assert.deepEqual(asked, ["POST /canopy/runs"]);
});

test("a lost connection resumes at the line where it broke", async () => {
  const asked = serve(
    [text(RUNNING, { header: 1 }, { about: 1 }, { round: 1 }) + '{"rou', null], [text(RUNNING, { round: 2 })], [text(RUNNING, { end: 1 }, DONE)]);
  const had = await readAll(newRun({}));
  assert.deepEqual(had.filter((line) => !("state" in line || "about" in line)), [{ header: 1 }, { round: 1 }, { round: 2 }, { end: 1 }]);
  assert.deepEqual(asked, ["POST /canopy/runs", "GET /canopy/runs/x?from=2", "GET /canopy/runs/x?from=3"]);
});

test("a refusal has the server's message, and an unreachable server is an error", async () => {
  serve({ detail: "The prompt is empty." });
  assert.deepEqual(await readAll(newRun({})), [{ state: "error", run: "", message: "The prompt is empty." }]);
  serve();
  await assert.rejects(readAll(newRun({})));
  const asked = serve([text(RUNNING, { header: 1 }), null]);
  await assert.rejects(readAll(knownRun("a b")), /fetch failed|connection was lost/);
  assert.equal(asked[0], "GET /canopy/runs/a%20b?from=0");
  assert.ok(asked.length > 2, "it tried again");
});
