// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ the cost of a round = the speed-up.

import { action, html, pause, write } from "../shared/ink.js";
import { usedOf } from "../shared/round.js";

/** `text`: the figure of a run, of the same run beside plain decoding, of the round that is shown.
 *  @typedef {{ name: string, label: string, note: string, title: string, compared?: boolean,
 *    text: (run: RunFigures, speedup: PrintedSpeed | null, round: Round, stage: Stage) => string }} Figure */

/** @type {Figure[]} */
const FIGURES = [
  { name: "tau", label: "tokens per round", note: "τ, root included",
    title: "τ: tokens that a round adds to the text, on average. The root counts, so a round that accepts no drafted token counts 1. Plain decoding has τ = 1.",
    text: (run, speedup) => (speedup ? speedup.tau : run.tau.toFixed(2)) },
  { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
    title: "How long a round takes, in passes of plain decoding, which is tokens per round divided by the speed-up: a pass over many rows takes longer than one over a single row, and drafting takes time too. This is why 12 tokens a round are not 12 times as fast.",
    text: (run, speedup) => (speedup ? `${speedup.cost}×` : "–") },
  { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
    title: "Tokens per second divided by those of plain decoding (one token a pass), measured after the run: both in turns on the same prompt, machine and precision, with the range that its turns give. One prompt; the lab measures over many.",
    text: (run, speedup) => (speedup ? speedup.times : "–") },
  { name: "accepted", label: "accepted", note: "per round",
    title: "Drafted tokens that the target accepted, per round: τ without the root.",
    text: (run) => run.accepted.toFixed(2) },
  { name: "speed", label: "tokens per second", note: "engine time",
    title: "Tokens divided by engine time: the sum of all rounds, without reading the prompt, the network or this page; once it is measured in turns with plain decoding, that speed. Rounds shared with other runs include the waiting for them, so the speed of such a run is its own share of a busy machine and is not compared with plain decoding, which is measured alone.",
    text: (run, speedup, round, stage) => stage.speed.text || "–" },
  { name: "rounds", label: "rounds", note: "",
    title: "Rounds so far: each is one draft and one pass of the target.",
    text: (run, speedup, round, stage) => String(stage.rounds.length) },
  { name: "first", label: "to the first token", note: "",
    title: "Engine time from the run's begin to its first token: reading the prompt. What an earlier turn of the conversation read is taken from its cache. In int4 that is everything up to the first token that differs; otherwise whole blocks of 256 tokens of the earlier prompt. A target with recurrent layers reads everything anew.",
    text: (run, speedup, round, stage) => `${(stage.run.end?.prefill_seconds ?? 0).toFixed(2)} s` },
  { name: "round", label: "kept this round", note: "",
    title: "Tokens that this round kept, the rows that the target verified for them, and the engine time of the round.",
    text: (run, speedup, round) => String(round.keep.length) },
];

/** What is known of a run whose server does not say which tokens came in one round: the sums that it gives at the end,
 *  `accepted` of `drafted` tokens and about how many passes. null for all other runs.
 *  @typedef {{ drafted: number, accepted: number, passes: number }} Sums
 *  @param {Pick<Stage, "run">} stage @param {Pick<RunFigures, "tokens">} run @returns {Sums | null} */
export function reportedSums({ run: { header, end } }, run) {
  if (!header || !header.chunked) return null;
  const { drafted = 0, accepted = 0 } = end || {};
  const passes = run.tokens - accepted;
  return drafted > 0 && passes > 0 ? { drafted, accepted, passes } : { drafted: 0, accepted: 0, passes: 0 };
}

const UNREPORTED = "Not known: this server does not report which of its tokens came in one round.";

/** A figure of such a run, as {text, note, title}; undefined if it is the same for every run.
 *  @param {string} name @param {Sums} sums */
function unreported(name, { drafted, accepted, passes }) {
  if (drafted && name === "accepted") return { text: `${accepted} of ${drafted}`, note: "drafted tokens", title: "Drafted tokens that the target accepted, of all that were drafted for this text, as the server counted them." };
  if (drafted && name === "rounds") return { text: `≈ ${passes}`, note: "", title: "About how many passes of the target wrote this text: its tokens, less the accepted drafted ones." };
  return ["tau", "accepted", "rounds", "round"].includes(name) ? { text: "–", note: "not reported", title: UNREPORTED } : undefined;
}

/** @param {Stage} stage @param {HTMLElement} parent */
export function metrics(stage, parent) {
  const box = html("dl", "cs-metrics", parent);
  const items = FIGURES.map((figure) => {
    const item = html("div", { class: `cs-metric cs-metric-${figure.name}`, title: figure.title, tabIndex: 0 }, box);
    const number = html("dd", "cs-number", item, "–");
    return { figure, item, number, note: html("small", "", html("dt", "", item, figure.label), figure.note) };
  });
  // The figures are those of the run so far, whichever round is shown and in every mode.
  const draw = () => {
    const { header, figuresBeforeRepetition: run, speedup, run: { end } } = stage;
    const sums = reportedSums(stage, run);
    const uncompared = !header?.drafters.length || Boolean(sums);
    const notes = notesOf(stage);
    for (const { figure, item, number, note } of items) {
      const { name, title, text } = figure;
      const shown = (sums && unreported(name, sums))
        || { title, text: stage.round ? text(run, speedup, stage.round, stage) : "–", note: notes[name] || figure.note };
      item.hidden = (figure.compared && (uncompared || (name === "cost" && !speedup))) || (name === "first" && !end?.prefill_seconds);
      item.title = shown.title;
      write(number, shown.text);
      write(note, shown.note);
      item.classList.toggle("is-slow", name === "gain" && speedup?.outcome === "slower");
      item.classList.toggle("is-fast", name === "gain" && speedup?.outcome === "faster");
      item.classList.toggle("is-noted", name === "speed" && (run.shared > 0 || stage.slowed));
    }
  };
  stage.on("value round mode begin compared", draw);
  draw();
}

/** What is noted under some figures, for this run. @param {Stage} stage @returns {Record<string, string>} */
function notesOf(stage) {
  const { round, rounds, header, repetition, figuresBeforeRepetition: run, speedup, comparing, run: { end } } = stage;
  const whose = repetition ? "before it repeats" : "";
  const took = round === stage.trial.round ? "predicted" : `${(1000 * (round?.spent ?? 0)).toFixed(1)} ms`;
  const uncompared = stage.withheld ? "withheld" : comparing.endsWith("…") ? comparing : run.shared ? "not compared" : "not measured"; // the story has the sentence
  return {
    tau: whose, accepted: whose, gain: speedup ? speedup.range : uncompared,
    round: round ? `of ${round.n} rows, ${took}` : "",
    first: `${Math.round((100 * (end?.cached ?? 0)) / (rounds[0]?.start || 1))} % of the prompt from the cache`,
    rounds: repetition ? `${repetition.round} before it repeats` : "",
    speed: header?.method === "served" ? "as it arrived here" : speedNote(stage),
  };
}

/** How the printed speed was measured. @param {Stage} stage */
function speedNote({ speedup, slowed, repetition, figuresBeforeRepetition: { shared, rounds } }) {
  if (speedup) return "beside plain decoding";
  if (slowed) return "on a busy machine";
  if (repetition) return "before it repeats";
  return shared ? `shared ${shared} of ${rounds} rounds` : "engine time";
}

// A sentence under the figures, in every view, if plain decoding is faster: what would have had to be different. And what a
// run with the budget auto used of it.
const ALWAYS_DRAFTING = 0.75; // fraction of rounds with a draft above which a run counts as always drafting
const RARELY_DRAFTING = 0.25; // fraction of rounds up to which a run counts as decoding plainly

// Why the run was slower than plain decoding, or why no speed-up is shown; "" if it was faster.
export function slowdownReason(/** @type {Pick<Stage, "speedup" | "comparison" | "mode" | "rounds" | "figures" | "withheld">} */ stage) {
  const { speedup, comparison, mode, rounds, figures, withheld } = stage;
  if (!speedup) return mode === "story" ? "" : withheld;
  if (speedup.outcome === "faster") return "";
  if (speedup.outcome === "similar") return `No clear difference to plain decoding here: ${speedup.plain_speed} against ${speedup.speed} tokens/s, ${speedup.times}.`;
  const rows = Math.round(rounds.reduce((sum, { n }) => sum + n, 0) / rounds.length);
  return [`${rounds.length} passes instead of ${figures.tokens}. A pass over ${rows} rows, draft included, costs ${speedup.cost} plain ones here, so τ ${speedup.tau} loses; from τ ${speedup.cost} on it wins.`,
    ...(comparison?.others ?? []).filter(decodedPlainly).slice(0, 1).map(() => "The budget auto would have decoded plainly.")].join(" ");
}

export function decodedPlainly(/** @type {import("../types.d.ts").OtherSetting} */ { pace, rounds, drafted }) {
  return pace === "auto" && rounds > 0 && drafted <= RARELY_DRAFTING * rounds;
}

// How much of its budget an auto run used, and how often it drafted.
/** @param {Header | null} header @param {Round[]} rounds @param {boolean} busy */
export function autoUsage(header, rounds, busy) {
  if (!header || header.pace !== "auto" || !header.drafters.length || !rounds.length) return "";
  const drafted = rounds.filter((round) => round.n > 1).length;
  if (!drafted) return `auto ${busy ? "has decoded plainly so far" : "decoded plainly"}: a draft would have cost more than it brought.`;
  const used = `auto used ${usedOf(header, rounds)} of up to ${(header.budget ?? 0).toLocaleString("en")} nodes`;
  if (drafted > ALWAYS_DRAFTING * rounds.length) return `${used}.`;
  return `${used} and drafted in ${drafted} of ${rounds.length} rounds${busy ? " so far" : ""}; in the others a draft would have cost more than it brought.`;
}

/** @param {Stage} stage @param {HTMLElement} parent */
export function slowdownNote(stage, parent) {
  const box = html("div", { class: "cs-plainly", role: "status" }, parent);
  const words = html("span", "", box);
  const again = action(box, "Measure again", "Time this run in turns with plain decoding once more", () => stage.emit("measure"), "cs-use");
  const end = action(box, "", "", () => {
    if (stage.live) document.querySelector("#canopy-stop").click();
    else if (stage.header && stage.repetition) stage.emit("adopt", { ...stage.header.options, max_tokens: stage.repetition.token });
  }, "cs-use");
  const draw = () => {
    const { rounds, header, live, repetition, recorded, server } = stage;
    const said = [repetition?.words, slowdownReason(stage), autoUsage(header, rounds, live)].filter(Boolean).join(" ");
    again.hidden = !canMeasureAgain(stage);
    end.hidden = !repetition || recorded || !server;
    box.hidden = !said && again.hidden;
    write(words, said || "No speed-up is reported for this run.");
    write(end, live ? "Stop here" : `End at token ${repetition?.token}`);
    end.title = live ? "End the run: it only repeats itself" : "Put this run into the bar with as many tokens as do not repeat themselves";
  };
  stage.on("value state round begin compared mode", draw);
  draw();
  return box;
}

// Whether measuring again may give a speed-up.
export function canMeasureAgain(/** @type {Stage} */ stage) {
  const { comparison, comparing, header, server, live, recorded, withheld, value } = stage;
  if (!server || live || recorded || value.followed || !header || !header.drafters.length || stage.figures.shared) return false;
  return withheld ? Boolean(comparison?.speed.again) : Boolean(comparing) && !comparing.endsWith("…");
}

// What a live run is compared with: after the run, the server measures it in turns with plain decoding of the same prompt,
// only if the queue is empty. A run that shared rounds with others is not compared.
const POLL_MS = 400;

export function compareRuns(/** @type {Stage} */ stage) {
  const asked = /** @type {Set<string>} */ (new Set()); // runs: each is compared with plain decoding once
  const say = (/** @type {string} */ run, /** @type {string} */ words) => {
    if (stage.value.run !== run) return;
    stage.comparing = words;
    stage.emit("compared");
  };
  const ask = async (/** @type {string} */ run) => {
    say(run, "being measured …");
    say(run, await measured(stage, run));
  };
  stage.on("value state", () => {
    const { header, rounds, recorded, server, value: { run, state, followed } } = stage;
    const ended = ["done", "stopped"].includes(state) && rounds.length > 1;
    if (!ended || recorded || followed || !header?.drafters.length || !server || asked.has(run)) return;
    asked.add(run);
    if (!stage.comparison && !stage.figures.shared) ask(run);
  });
  stage.on("measure", () => ask(stage.value.run));
}

/** Shows what is found as it grows; "" or why nothing was found. @param {Stage} stage @param {string} run */
async function measured(stage, run) {
  const { server } = stage;
  if (!server) return "";
  try {
    const begun = await server.compare({ run });
    if ("error" in begun) return begun.error;
    for (;;) {
      const job = await server.compared({ job: begun.job });
      if ("error" in job) return job.error;
      if (job.result) stage.setComparison(run, job.result);
      if (job.state === "error") return job.message;
      if (["done", "stopped"].includes(job.state)) return job.result ? "" : "Timing stopped because another run began.";
      await pause(POLL_MS);
    }
  } catch {
    return "The server cannot be reached, so it was not measured.";
  }
}
