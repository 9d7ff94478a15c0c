// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ the cost of a round = the speed-up.

import { html, write } from "../shared/ink.js";
import { counted } from "../shared/round.js";

/** `text`: formats the figure from the run, its comparison with plain decoding and the shown round; "" if it is unknown.
 *  @typedef {{ name: string, label: string, note: string, title: string, compared?: boolean,
 *    text: (run: RunFigures, speedup: PrintedSpeed | null, round: Round, stage: Stage) => string }} Figure */

/** @type {Figure[]} */
const FIGURES = [
  { name: "tau", label: "tokens per round", note: "τ",
    title: "τ: tokens added per round, the root included. Plain decoding has τ = 1.",
    text: (run, speedup) => (speedup ? speedup.tau : run.tau.toFixed(2)) },
  { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
    title: "Time of a round divided by that of a plain pass: more rows take longer, and drafting takes time. It is tokens per round divided by the speed-up.",
    text: (run, speedup) => (speedup ? `${speedup.cost}×` : "") },
  { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
    title: "Tokens per second divided by plain decoding's, measured after the run, interleaved, on the same prompt, machine and precision. One prompt; the lab measures over many.",
    text: (run, speedup) => (speedup ? speedup.times : "") },
  { name: "accepted", label: "accepted", note: "per round",
    title: "Drafted tokens that the target accepted, per round: τ without the root.",
    text: (run) => run.accepted.toFixed(2) },
  { name: "speed", label: "tokens/s", note: "engine time",
    title: "Tokens per second of engine time; prompt and network excluded. After the comparison: the speed measured beside plain decoding. For shared rounds, time spent waiting counts.",
    text: (run, speedup, round, stage) => stage.speed.text },
  { name: "rounds", label: "rounds", note: "",
    title: "Rounds so far. Each is one draft and one pass of the target.",
    text: (run, speedup, round, stage) => String(stage.rounds.length) },
  { name: "first", label: "to first token", note: "",
    title: "Time to the first token. Text of earlier turns is reused from the cache.",
    text: (run, speedup, round, stage) => `${(stage.run.end?.prefill_seconds ?? 0).toFixed(2)} s` },
  { name: "round", label: "kept this round", note: "",
    title: "Tokens kept in this round, rows verified for them, and the round's engine time.",
    text: (run, speedup, round) => String(round.keep.length) },
];

/** Sums over a run whose server does not report rounds: `accepted` of `drafted` tokens, in about `passes`. null for all other runs.
 *  @typedef {{ drafted: number, accepted: number, passes: number }} Sums
 *  @param {Pick<Stage, "run">} stage @param {Pick<RunFigures, "tokens">} run @returns {Sums | null} */
export function reportedSums({ run: { header, end } }, run) {
  if (!header || !header.chunked) return null;
  const { drafted = 0, accepted = 0 } = end || {};
  const passes = run.tokens - accepted;
  return drafted > 0 && passes > 0 ? { drafted, accepted, passes } : { drafted: 0, accepted: 0, passes: 0 };
}

const UNREPORTED = "Unknown: this server does not report its rounds.";

/** A figure of such a run, {text, note, title}; undefined if it does not depend on rounds.
 *  @param {string} name @param {Sums} sums */
function reportedFigure(name, { drafted, accepted, passes }) {
  if (drafted && name === "accepted") return { text: `${accepted} of ${drafted}`, note: "drafted tokens", title: "Accepted and drafted tokens of this text, as the server counted them." };
  if (drafted && name === "rounds") return { text: `≈ ${passes}`, note: "", title: "About how many passes wrote this text: its tokens less the accepted ones." };
  return ["tau", "accepted", "rounds", "round"].includes(name) ? { text: "", note: "not reported", title: UNREPORTED } : undefined;
}

/** @param {Stage} stage @param {HTMLElement} parent */
export function metrics(stage, parent) {
  const box = html("dl", "cs-metrics", parent);
  const items = FIGURES.map((figure) => {
    const item = html("div", { class: `cs-metric cs-metric-${figure.name}`, title: figure.title, tabIndex: 0 }, box);
    const number = html("dd", "cs-number", item);
    return { figure, item, number, note: html("small", "", html("dt", "", item, figure.label), figure.note) };
  });
  // The figures cover the whole run so far, whichever round is shown.
  const draw = () => {
    const { header, figuresBeforeRepetition: run, speedup, run: { end } } = stage;
    const sums = reportedSums(stage, run);
    const hasNoSpeedup = !header?.drafters.length || Boolean(sums);
    const notes = notesOf(stage);
    for (const { figure, item, number, note } of items) {
      const { name, title, text } = figure;
      const shown = (sums && reportedFigure(name, sums))
        || { title, text: stage.round ? text(run, speedup, stage.round, stage) : "", note: notes[name] || figure.note };
      item.hidden = (figure.compared && (hasNoSpeedup || (name === "cost" && !speedup))) || (name === "first" && !end?.prefill_seconds);
      item.title = shown.title;
      number.hidden = !shown.text; // the note says why
      write(number, shown.text);
      write(note, shown.note);
      item.classList.toggle("is-slow", name === "gain" && speedup?.outcome === "slower");
      item.classList.toggle("is-fast", name === "gain" && speedup?.outcome === "faster");
      item.classList.toggle("is-noted", name === "speed" && (run.shared > 0 || stage.slowed));
    }
  };
  stage.on("lines round mode run compared", draw);
  draw();
}

/** Returns the notes under the figures of this run, by name. @param {Stage} stage @returns {Record<string, string>} */
function notesOf(stage) {
  const { round, rounds, header, repetition, figuresBeforeRepetition: run, speedup, comparing, run: { end } } = stage;
  const scope = repetition ? "before it repeats" : "";
  const duration = round === stage.trial.round ? "predicted" : `${(1000 * (round?.spent ?? 0)).toFixed(1)} ms`;
  const whyNoSpeedup = stage.withheld ? "withheld" : comparing.endsWith("…") ? comparing : run.shared ? "not compared" : "not measured"; // the story has the sentence
  return {
    tau: scope, accepted: scope, gain: speedup ? speedup.range : whyNoSpeedup,
    round: round ? `of ${counted(round.n, "row")}, ${duration}` : "",
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
