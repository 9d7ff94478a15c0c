// The note under the figures: why the run was slower than plain decoding, how much of its budget auto used, a faster setting.
// Also starts the comparison with plain decoding after a run.

import { merged, ratioOf, ratioText, requestOf } from "../panels/fastest.js";
import { action, html, write } from "../shared/ink.js";
import { jobEnd } from "../shared/lines.js";
import { counted, machineOf, usedOf } from "../shared/round.js";

const TIMING_POLL_MS = 1000; // rare, because an answer disturbs the timing
const RARELY_DRAFTING = 0.25; // fraction of rounds up to which a run counts as decoding plainly

// Returns why the run was slower than plain decoding, or why no speed-up is shown; "" if it was faster.
export function slowdownReason(/** @type {Pick<Stage, "speedup" | "comparison" | "rounds" | "withheld">} */ stage) {
  const { speedup, comparison, rounds, withheld } = stage;
  if (!speedup) return withheld;
  if (speedup.outcome === "faster") return "";
  if (speedup.outcome === "similar") return `No clear difference from plain decoding: ${speedup.range} times as fast.`;
  const rows = Math.round(rounds.reduce((sum, { n }) => sum + n, 0) / rounds.length);
  return [`A round (mean ${rows} rows) takes ${speedup.cost} times a plain pass, but adds ${speedup.tau} tokens.`,
    ...(comparison?.others ?? []).filter(decodedPlainly).slice(0, 1).map(() => "The budget auto would have decoded plainly.")].join(" ");
}

/** @param {import("../types.d.ts").OtherSetting} setting */
export const decodedPlainly = ({ pace, rounds, drafted }) => pace === "auto" && rounds > 0 && drafted <= RARELY_DRAFTING * rounds;

/** What a budget is called that auto chose; undefined for a fixed one. @param {{ pace?: string, budget?: number }} setting */
export const autoName = ({ pace, budget }) => (pace === "auto" ? `auto (up to ${counted(budget ?? 0, "node")})` : undefined);

/** Returns how much of its budget an auto run used, and how often it drafted. @param {Header | null} header @param {Round[]} rounds */
function autoUsage(header, rounds) {
  if (!header || header.pace !== "auto" || !header.drafters.length || !rounds.length) return "";
  const drafted = rounds.filter((round) => round.n > 1).length;
  if (!drafted) return "auto decoded plainly: a draft would have cost more than it gained.";
  return `auto used ${usedOf(header, rounds)} of up to ${(header.budget ?? 0).toLocaleString("en")} nodes and drafted in ${drafted} of ${counted(rounds.length, "round")}.`;
}

export function slowdownNote(/** @type {Stage} */ stage, /** @type {HTMLElement} */ parent) {
  const box = html("div", { class: "cs-plainly", role: "status" }, parent);
  const words = html("span", "", box);
  const again = action(box, "Measure again", "Time this run and plain decoding once more, interleaved", () => stage.emit("remeasure"), "cs-use");
  const end = action(box, "", "", () => {
    if (stage.live) document.querySelector("#canopy-stop").click();
    else if (stage.header && stage.repetition) stage.emit("fillBar", { ...stage.header.options, max_tokens: stage.repetition.token });
  }, "cs-use");
  const draw = () => {
    const { rounds, header, live, repetition, recorded, server, playsBehind, mode, speedup } = stage;
    const isSaid = playsBehind || (mode === "story" && speedup?.outcome === "similar"); // or not to be said yet
    const note = [repetition?.words, isSaid ? "" : slowdownReason(stage), live ? "" : autoUsage(header, rounds)].filter(Boolean).join(" ");
    again.hidden = playsBehind || !canMeasureAgain(stage);
    end.hidden = !repetition || recorded || !server;
    box.hidden = (stage.playsBehind && !live) || (!note && again.hidden); // of the whole run nothing is said before its end is shown
    write(words, note || "No speed-up is reported for this run.");
    write(end, live ? "Stop here" : "End before it repeats");
    end.title = live ? "End the run: it only repeats itself" : "Set the bar to this run, ending before the repetition";
  };
  stage.on("lines state round run compared mode", draw);
  draw();
  return box;
}

/** The setting to use instead of one that was slower; `title` names those that were measured with it. `own`: runs of the same request.
 *  @param {{ speedup: Pick<PrintedSpeed, "ratio">, comparison: Pick<PlainComparison, "others">, own?: RunPoint[] }} run
 *  @returns {{ label: string, title: string, setting: { method: string, budget: number, pace: string } }} */
export function fasterSetting({ speedup, comparison, own = [] }) {
  const earlier = own.map(({ method, options: { budget = 0, pace = "fixed" } = {}, ratio, range }) => ({ method, budget, pace, ratio, range, dtype: "" }));
  const measured = [...(comparison.others ?? []).filter((other) => !decodedPlainly(other)), ...earlier].flatMap(({ method, budget, pace, ratio, range, dtype }) => {
    const name = dtype ? `${dtype} (start with --dtype ${dtype})` : autoName({ pace, budget }) ?? counted(budget, "node");
    return ratioOf({ budget, name, ratio, range }).map((one) => ({ ...one, name, method, pace, dtype }));
  });
  const better = merged(measured).filter(({ ratio }) => ratio > speedup.ratio).sort((one, other) => other.ratio - one.ratio);
  const title = better.length ? `Measured on this prompt, interleaved with plain decoding: ${better.map(({ name, ratio }) => `${name} ${ratioText(ratio)}×`).join("; ")}.`
    : "No other setting that was tried was faster.";
  const usable = better.find(({ dtype, low }) => !dtype && low > 1); // clearly
  if (!usable) return { title, label: "Use plain decoding", setting: { method: "autoregressive", budget: 0, pace: "fixed" } };
  const { name, method, budget, pace, ratio } = usable;
  return { title, label: `Use ${name}: ${ratioText(ratio)}×`, setting: { method, budget, pace } };
}

// Under a run that was slower: the setting to use instead.
export function fasterButton(/** @type {Stage} */ stage, /** @type {Element} */ parent) {
  let setting = /** @type {Setting} */ ({}); // to use instead
  const use = action(parent, "", "", () => stage.header && stage.emit("fillBar", { ...stage.header.options, ...setting }), "cs-use");
  use.hidden = true;
  stage.on("lines round run compared mode", () => {
    const { speedup, comparison, comparing, server, header, ownRuns } = stage;
    use.hidden = speedup?.outcome !== "slower" || !comparison || Boolean(comparing) || !server; // other settings are still being timed
    if (!speedup || !comparison) return;
    const own = header ? ownRuns.filter((one) => requestOf(one) === requestOf({ machine: machineOf(header), options: header.options })) : [];
    const instead = fasterSetting({ speedup, comparison, own });
    ({ setting, title: use.title } = instead);
    write(use, instead.label);
  });
}

// Returns whether measuring again may give a speed-up.
export function canMeasureAgain(/** @type {Stage} */ stage) {
  const { comparison, comparing, header, server, live, recorded, withheld, value } = stage;
  if (!server || live || recorded || value.followed || !header || !header.drafters.length || stage.figures.shared) return false;
  return withheld ? Boolean(comparison?.speed.again) : Boolean(comparing) && !comparing.endsWith("…");
}

// Compares each live run that shared no rounds with plain decoding, once it was played, since drawing slows the timing.
export function compareRuns(/** @type {Stage} */ stage) {
  const comparedRuns = /** @type {Set<string>} */ (new Set());
  const report = (/** @type {string} */ run, /** @type {string} */ message) => {
    if (stage.value.run !== run) return;
    stage.comparing = message;
    stage.emit("compared");
  };
  const compare = async (/** @type {string} */ run) => {
    report(run, "being measured …");
    report(run, await runComparison(stage, run, (message) => report(run, message)));
  };
  stage.on("lines state round", () => {
    const { header, rounds, recorded, server, following, current, value: { run, state, followed } } = stage;
    const ended = (!following || current === rounds.length - 1) && ["done", "stopped"].includes(state) && rounds.length > 0;
    if (!ended || recorded || followed || !header?.drafters.length || header.budget === 0 || !server || comparedRuns.has(run)) return;
    comparedRuns.add(run);
    if (!stage.comparison && !stage.figures.shared) compare(run);
  });
  stage.on("remeasure", () => compare(stage.value.run));
}

/** Compares a run, and shows the result once it was timed. Returns "", or why there is none.
 *  @param {Stage} stage @param {string} run @param {(message: string) => void} report */
async function runComparison(stage, run, report) {
  const { server } = stage;
  if (!server) return "";
  try {
    const poll = (/** @type {{ job: string }} */ { job }) => server.compared({ job });
    const job = await jobEnd(server.compare({ run }), poll, ({ result, state, message }) => {
      if (result && (result.state !== "measuring" || stage.withheld)) stage.setComparison(run, result);
      if (state === "running" && message) report(`being measured, ${message} …`);
    }, undefined, TIMING_POLL_MS);
    if ("error" in job) return job.error;
    if (job.state === "error") return job.message;
    return job.result ? "" : "Timing stopped because another run began.";
  } catch {
    return "The server cannot be reached, so it was not measured.";
  }
}
