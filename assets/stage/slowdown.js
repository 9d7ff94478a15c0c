// The note under the figures: why the run was slower than plain decoding, how much of its budget auto used, a faster setting
// or recording. Also starts the comparison with plain decoding after a run.

import { action, html, write } from "../shared/ink.js";
import { jobEnd } from "../shared/lines.js";
import { counted, usedOf } from "../shared/round.js";

const ALWAYS_DRAFTING = 0.75; // fraction of rounds with a draft above which a run counts as always drafting
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

/** Returns how much of its budget an auto run used, and how often it drafted.
 *  @param {Header | null} header @param {Round[]} rounds @param {boolean} busy */
export function autoUsage(header, rounds, busy) {
  if (!header || header.pace !== "auto" || !header.drafters.length || !rounds.length) return "";
  const draftedRounds = rounds.filter((round) => round.n > 1).length;
  if (!draftedRounds) return `auto ${busy ? "has decoded plainly so far" : "decoded plainly"}: a draft would have cost more than it gained.`;
  const used = `auto used ${usedOf(header, rounds)} of up to ${(header.budget ?? 0).toLocaleString("en")} nodes`;
  if (draftedRounds > ALWAYS_DRAFTING * rounds.length) return `${used}.`;
  const share = `${draftedRounds} of ${rounds.length} rounds${busy ? " so far" : ""}`;
  return `${used} and drafted in ${share}; in the others a draft would have cost more than it gained.`;
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
    const note = [repetition?.words, isSaid ? "" : slowdownReason(stage), autoUsage(header, rounds, live)].filter(Boolean).join(" ");
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

/** The setting to use instead of one that was slower; `title` names those that were measured with it.
 *  @param {{ speedup: Pick<PrintedSpeed, "ratio">, comparison: Pick<PlainComparison, "others"> }} run
 *  @returns {{ name: string, label: string, title: string, ratio: number, setting: { method: string, budget: number, pace: string } }} */
export function fasterSetting({ speedup, comparison }) {
  const better = (comparison.others || []).filter((other) => other.ratio > speedup.ratio && !decodedPlainly(other));
  const named = (/** @type {typeof better[0]} */ { pace, budget, dtype }) => (
    dtype ? `${dtype} (start with --dtype ${dtype})` : pace === "auto" ? `auto up to ${budget} nodes` : counted(budget, "node"));
  const title = better.length ? `Measured just now on this prompt, interleaved with plain decoding: ${better.map((other) => `${named(other)} ${other.times}`).join("; ")}.`
    : "No other setting that was tried was faster.";
  const usable = better.find(({ dtype, ratio }) => !dtype && ratio > 1);
  if (!usable) return { title, name: "plain decoding", label: "Use plain decoding", ratio: 1, setting: { method: "autoregressive", budget: 0, pace: "fixed" } };
  const { method, budget, pace, ratio, times } = usable;
  return { title, name: `${named(usable)}, ${times} plain`, label: `Use ${named(usable)}: ${times}`, ratio, setting: { method, budget, pace } };
}

/** Under a run that was slower: the setting to use instead, and a recording that won.
 *  @param {Stage} stage @param {Element} parent @param {Parts["recordings"]} recordings */
export function fasterButtons(stage, parent, recordings) {
  let setting = /** @type {Setting} */ ({}); // to use instead
  let winner = /** @type {Recording | undefined} */ (undefined);
  const box = html("span", { class: "cs-faster", hidden: true }, parent);
  const useButton = action(box, "", "", () => stage.header && stage.emit("fillBar", { ...stage.header.options, ...setting }), "cs-use");
  const winnerButton = action(box, "", "", () => winner && recordings.open(winner.name, { push: true }), "cs-use");

  const draw = () => {
    const { speedup, comparison, comparing, server, header, value: { run } } = stage;
    box.hidden = speedup?.outcome !== "slower" || Boolean(comparing); // other settings are still being timed
    if (!speedup || !comparison || !header || box.hidden) return;
    const instead = fasterSetting({ speedup, comparison });
    ({ setting } = instead);
    useButton.hidden = !server;
    useButton.title = instead.title;
    write(useButton, instead.label);
    winner = recordings.listed.find(({ rig, won: times, name }) => times && rig === header.rig && name !== run);
    winnerButton.hidden = !winner || !server;
    write(winnerButton, `See one that won, ${winner?.won}`);
    winnerButton.title = `${winner?.title}: a recording of ${header.rig} that beat plain decoding on ${winner?.hardware}`;
  };
  stage.on("lines round run compared mode", draw);
  draw();
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
    report(run, await runComparison(stage, run));
  };
  stage.on("lines state round", () => {
    const { header, rounds, recorded, server, following, current, value: { run, state, followed } } = stage;
    const played = !following || current === rounds.length - 1;
    const ended = played && ["done", "stopped"].includes(state) && rounds.length > 1;
    if (!ended || recorded || followed || !header?.drafters.length || !server || comparedRuns.has(run)) return;
    comparedRuns.add(run);
    if (!stage.comparison && !stage.figures.shared) compare(run);
  });
  stage.on("remeasure", () => compare(stage.value.run));
}

/** Compares a run, and shows the result once it was timed. Returns "", or why there is none.
 *  @param {Stage} stage @param {string} run */
async function runComparison(stage, run) {
  const { server } = stage;
  if (!server) return "";
  const show = (/** @type {PlainComparison | null | undefined} */ result) => {
    if (result && (result.state !== "measuring" || stage.withheld)) stage.setComparison(run, result);
  };
  try {
    const poll = (/** @type {{ job: string }} */ { job }) => server.compared({ job });
    const job = await jobEnd(server.compare({ run }), poll, ({ result }) => show(result), undefined, TIMING_POLL_MS);
    if ("error" in job) return job.error;
    if (job.state === "error") return job.message;
    return job.result ? "" : "Timing stopped because another run began.";
  } catch {
    return "The server cannot be reached, so it was not measured.";
  }
}
