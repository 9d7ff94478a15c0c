// The lines of a run: as they arrive from the server, over as many connections as it takes.

import { pause } from "./ink.js";

/** @typedef {import("../types.d.ts").StreamLine} StreamLine */

const TRIES = 4; // to take up a run again whose connection was lost
const BETWEEN_TRIES_MS = 400;
const ENDED = ["stopped", "done", "error"];

export const site = { root: "" }; // the path that a proxy serves the page below, while Gradio is not there

// The address of a path of this server, by the way that the page's calls take.
export function routeTo(/** @type {string} */ path) {
  const { root } = window.gradio_config || site;
  return `${new URL(root || "/", window.location.href).pathname.replace(/\/$/, "")}/${path}`;
}

/** Of a new run with these options.
 *  @param {Record<string, unknown>} options */
export const newRun = (options) => (/** @type {AbortSignal} */ signal) => linesOf("", signal, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(options) });

// Of the recording, the remembered run or the followed file of that name; without a name, of what is followed, run after run.
export const knownRun = (name = "") => (/** @type {AbortSignal} */ signal) => linesOf(name, signal);

/** @param {string} name @param {AbortSignal} signal @param {RequestInit} [begin] @returns {AsyncGenerator<StreamLine[]>} */
async function* linesOf(name, signal, begin) {
  const had = { run: name, said: "", count: 0, ended: false };
  for (let tries = 0; tries <= TRIES; tries++) {
    try {
      for await (const lines of arriving(await answered(had, had.run ? { signal } : { ...begin, signal }))) {
        tries = 0;
        for (const line of lines) note(line, had);
        if (begin) had.run = had.said;
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

/** @typedef {{ run: string, said: string, count: number, ended: boolean }} Had */

/** The lines behind those that were had.
 *  @param {Had} had @param {RequestInit} asked */
async function answered({ run, count }, asked) {
  const answer = await fetch(routeTo(`canopy/runs${run && `/${encodeURIComponent(run)}?from=${count}`}`), asked);
  return answer.ok ? answer : new Response(`${JSON.stringify({ state: "error", run, message: (await answer.json()).detail })}\n`);
}

/** Lines are counted without those on how the run stands and what is known about it.
 *  @param {StreamLine} line @param {Had} had */
function note(line, had) {
  had.ended = "state" in line && ENDED.includes(line.state);
  if ("state" in line) had.said = line.run;
  else if (!("about" in line)) had.count++;
}

// The lines of an answer, several at a time.
async function* arriving(/** @type {Response} */ answer) {
  const text = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (answer.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await text.read();
    if (done) return;
    const rows = (rest + value).split("\n");
    rest = rows.pop() || "";
    if (rows.length) yield rows.map((row) => /** @type {StreamLine} */ (JSON.parse(row)));
  }
}

// The lines that a page carries as text.
export const linesIn = (/** @type {string} */ text) => text.trim().split("\n").filter(Boolean).map((row) => JSON.parse(row));

// The run ends on the server; what it wrote until then is kept.
export const stopRun = (/** @type {string} */ run) => fetch(routeTo(`canopy/runs/${encodeURIComponent(run)}`), { method: "DELETE", keepalive: true });
