// Streams the lines of a run from the server, and reconnects if the connection is lost.

import { pause } from "./ink.js";

const MAX_RECONNECTS = 4; // to take up a run again whose connection was lost
const BETWEEN_TRIES_MS = 400;
const ENDED = ["stopped", "done", "error"];
const POLL_MS = 400;

/** Polls a job of the server until it ends. @template {{ state: string }} Job
 *  @param {Promise<{ job: string } | Failed>} begun @param {(begun: { job: string }) => Promise<Job | Failed>} poll
 *  @param {(job: Job) => unknown} update called after each poll @param {AbortSignal} [signal] @returns {Promise<Job | Failed>} */
export async function jobEnd(begun, poll, update, signal, pollMs = POLL_MS) {
  const name = await begun;
  if ("error" in name) return name;
  for (;;) {
    const job = await poll(name);
    if ("error" in job) return job;
    update(job);
    if (ENDED.includes(job.state) || signal?.aborted) return job;
    await pause(pollMs);
  }
}

export const site = { root: "" }; // root path behind a proxy, before Gradio is loaded

// The URL of a path of this server.
export function routeTo(/** @type {string} */ path) {
  const { root } = window.gradio_config || site;
  return `${new URL(root || "/", window.location.href).pathname.replace(/\/$/, "")}/${path}`;
}

/** Starts a run and streams its lines.
 *  @param {Record<string, unknown>} options */
export const newRun = (options) => (/** @type {AbortSignal} */ signal) => linesOf("", signal, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(options) });

// Streams a recording, a kept run or a followed file; without a name, the newest followed run and then the next.
export const knownRun = (name = "") => (/** @type {AbortSignal} */ signal) => linesOf(name, signal);

/** @param {string} name @param {AbortSignal} signal @param {RequestInit} [begin] @returns {AsyncGenerator<StreamLine[]>} */
async function* linesOf(name, signal, begin) {
  const had = { run: name, named: "", count: 0, ended: false }; // state and about lines are not counted
  for (let tries = 0; tries <= MAX_RECONNECTS; tries++) {
    try {
      const { run, count } = had;
      const rest = run && `/${encodeURIComponent(run)}?from=${count}`; // after the last line that was received
      const answer = await fetch(routeTo(`canopy/runs${rest}`), run ? { signal } : { ...begin, signal });
      const refusal = answer.ok ? "" : `${JSON.stringify({ state: "error", run, message: (await answer.json()).detail })}\n`;
      for await (const lines of batchesOf(refusal ? new Response(refusal) : answer)) {
        tries = 0;
        for (const line of lines) {
          had.ended = "state" in line && ENDED.includes(line.state);
          if ("state" in line) had.named = line.run;
          else if (!("about" in line)) had.count++;
        }
        if (begin) had.run = had.named;
        yield lines;
      }
    } catch (error) {
      if (signal.aborted || !had.run) throw error;
    }
    if (had.ended) return;
    await pause(BETWEEN_TRIES_MS);
  }
  throw new Error("The connection was lost.");
}

// Yields the parsed lines of a response, in batches.
async function* batchesOf(/** @type {Response} */ answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader(); // a browser may collect a pipe that is waited for
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const rows = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = rows.pop() || "";
    if (rows.length) yield rows.map((row) => /** @type {StreamLine} */ (JSON.parse(row)));
  }
}

// Parses the lines embedded in a replay page.
export const linesIn = (/** @type {string} */ text) => text.trim().split("\n").filter(Boolean).map((row) => JSON.parse(row));

// Stops the run on the server; its text so far is kept.
export const stopRun = (/** @type {string} */ run) => fetch(routeTo(`canopy/runs/${encodeURIComponent(run)}`), { method: "DELETE", keepalive: true });
