// Presenter mode, `?present` in the address: larger type and tree, no notices, vetted prompts of the rig on the keys 1 to 3.
// Each prompt is run and timed beside plain decoding before the talk. If the machine is busy later, that run is shown,
// with its date; if the server is gone, the recording that the page opened with.

import { html, write } from "../shared/ink.js";
import { jobEnd, knownRun, newRun, stopRun } from "../shared/lines.js";

const STORE = "canopy-timed"; // by prompt: the run that was timed, and when

/** @param {Parts} parts @param {string} opening @param {(rig: string) => VettedPrompt[]} vetted @param {(asked: VettedPrompt) => void} ask */
export async function present(parts, opening, vetted, ask) {
  const { stage, film, rigs, recordings } = parts;
  const timed = /** @type {Record<string, { run: string, date: string }>} */ (JSON.parse(sessionStorage.getItem(STORE) ?? "{}"));
  const bar = document.querySelector(".cs-bar");
  const hints = html("ol", { class: "cs-hints", "aria-label": "Keys" }, bar);
  const date = html("p", { class: "cs-timed", role: "status" }, bar);
  const prompts = () => (rigs?.state ? vetted(rigs.state.opened_as) : []);
  const timing = new AbortController(); // until the talk begins
  let asked = ""; // the prompt of the latest key
  parts.ask = (place) => {
    document.documentElement.requestFullscreen().catch(() => undefined); // refused if the browser wants a click first
    const prompt = prompts()[place];
    if (!prompt) return;
    parts.help.box.append(hints); // from now on they are found on "?"
    write(date, "");
    asked = prompt.prompt;
    ask(prompt);
  };
  stage.on("requested", () => timing.abort());
  stage.on("run", () => write(date, ""));
  stage.on("state compared", async () => {
    const busy = stage.pending?.state === "queued" || (!stage.busy && stage.withheld && stage.comparison?.speed.again);
    const before = timed[asked];
    if (busy && asked && !before) write(date, "The machine is busy, and this prompt was not timed before the talk.");
    if (!busy || !before) return;
    asked = "";
    if (stage.busy) document.querySelector("#canopy-stop").click();
    if (!await recordings.open(before.run, { still: true })) return;
    film.go("card");
    write(date, `Timed before the talk, ${before.date}; the machine is busy now.`);
  });
  if (opening) {
    const recording = /** @type {StreamLine[]} */ ([]);
    for await (const lines of knownRun(opening)(new AbortController().signal)) recording.push(...lines);
    stage.on("serverLost", () => {
      stage.read(recording);
      film.open(null);
    });
  }
  await new Promise((loaded) => { stage.on("rigs", () => rigs?.state && !rigs.state.first_load && loaded(null)); });
  for (const { label } of prompts()) html("kbd", "", html("li", "", hints), String(hints.childElementCount)).after(` ${label}`);
  if (stage.server) await timeAll(stage.server, prompts(), timed, timing.signal, () => {
    write(date, `${prompts().filter(({ prompt }) => timed[prompt]).length} of ${prompts().length} timed`);
    sessionStorage.setItem(STORE, JSON.stringify(timed));
  });
}

/** Runs each prompt and times it beside plain decoding, until the talk begins. @param {Server} server
 *  @param {VettedPrompt[]} prompts @param {Record<string, { run: string, date: string }>} timed @param {AbortSignal} signal @param {() => void} report */
export async function timeAll(server, prompts, timed, signal, report) {
  for (const asked of prompts) {
    report();
    if (timed[asked.prompt]) continue;
    let run = "";
    try {
      for await (const lines of newRun({ ...asked, label: undefined })(signal)) for (const line of lines) if ("state" in line) run = line.run;
      const job = await jobEnd(server.compare({ run }), ({ job }) => server.compared({ job }), () => undefined, signal);
      if (signal.aborted) return;
      const date = new Date().toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
      const speed = "error" in job || job.state === "error" ? null : job.result?.speed;
      if (speed && !speed.withheld) timed[asked.prompt] = { run, date };
    } catch {
      if (run) stopRun(run).catch(() => undefined);
      if (signal.aborted) return;
    }
  }
  report();
}
