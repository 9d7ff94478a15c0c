// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ the cost of a round = the speed-up.

import { html, write } from "../shared/ink.js";
import { counted, figuresOf, rateText } from "../shared/round.js";

/** `text`: formats the figure; "" if it is unknown.
 *  @typedef {{ name: string, label: string, note: string, title: string, compared?: boolean,
 *    text: (covered: Covered, round: Round, stage: Stage) => string }} Figure */

/** The rounds that the figures cover: of a run that is played at reading speed those up to the shown one, else all.
 *  @typedef {{ run: RunFigures, speedup: PrintedSpeed | null, speed: Stage["speed"], rounds: string, scope: string, extent: string }} Covered
 *  @param {Pick<Stage, "following" | "live" | "current" | "rounds" | "figuresBeforeRepetition" | "speedup" | "speed" | "repetition">} stage
 *  @returns {Covered} */
export function coveredBy({ following, live, current, rounds, figuresBeforeRepetition, speedup, speed, repetition }) {
  const last = current >= rounds.length - 1;
  if (!following || last) {
    const [scope, extent] = repetition ? ["before it repeats", `${repetition.round} before it repeats`] : ["", last || live ? "" : "in all"];
    return { run: figuresBeforeRepetition, speedup, speed, rounds: String(rounds.length), scope, extent };
  }
  const run = figuresOf(rounds.slice(0, current + 1));
  return { run, speedup: null, speed: { text: rateText(run.tokensPerSecond), value: null, doubt: speed.doubt }, rounds: `${current + 1}`, scope: "so far", extent: "so far" };
}

/** @type {Figure[]} */
const FIGURES = [
  { name: "tau", label: "tokens per round", note: "τ",
    title: "τ: tokens added per round, the root included. Plain decoding has τ = 1.",
    text: ({ run, speedup }) => speedup?.tau ?? run.tau.toFixed(2) },
  { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
    title: "The time of a round divided by that of a plain pass. It equals tokens per round divided by the speed-up.",
    text: ({ speedup }) => (speedup && speedup.outcome !== "similar" ? `${speedup.cost}×` : "") },
  { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
    title: "Tokens/s divided by plain decoding's, timed in turns after the run, on this prompt alone; the lab measures many.",
    text: ({ speedup }) => (speedup?.outcome === "similar" ? speedup.range : speedup?.times ?? "") },
  { name: "accepted", label: "accepted", note: "per round",
    title: "Drafted tokens that the target accepted, per round: τ without the root.",
    text: ({ run }) => run.accepted.toFixed(2) },
  { name: "speed", label: "tokens/s", note: "engine time",
    title: "Tokens per second of engine time, without prompt and network. While drawn: slowed by the page; beside plain decoding: measured after it.",
    text: ({ speed }) => speed.text },
  { name: "rounds", label: "rounds", note: "",
    title: "Rounds so far. Each is one draft and one pass of the target.",
    text: ({ rounds }) => rounds },
  { name: "first", label: "to first token", note: "",
    title: "Engine time to the first token, which the page shows with the first round. Text of earlier turns is reused from the cache.",
    text: (covered, round, stage) => `${(stage.run.end?.prefill_seconds ?? 0).toFixed(2)} s` },
  { name: "round", label: "kept this round", note: "",
    title: "Tokens kept in this round, rows verified for them, and the round's engine time.",
    text: (covered, round) => String(round.keep.length) },
];

/** Sums over a run whose server does not report rounds, with the approximate number of passes; null for other runs.
 *  @typedef {{ drafted: number, accepted: number, passes: number }} Sums
 *  @param {Pick<Stage, "run">} stage @param {Pick<RunFigures, "tokens">} run @returns {Sums | null} */
export function reportedSums({ run: { header, end } }, run) {
  if (!header || !header.chunked) return null;
  const { drafted = 0, accepted = 0 } = end || {};
  const passes = run.tokens - accepted;
  return drafted > 0 && passes > 0 ? { drafted, accepted, passes } : { drafted: 0, accepted: 0, passes: 0 };
}

/** A figure of such a run, {text, note, title}; undefined if it does not depend on rounds.
 *  @param {string} name @param {Sums} sums */
function reportedFigure(name, { drafted, accepted, passes }) {
  if (drafted && name === "accepted") return { text: `${accepted} of ${drafted}`, note: "drafted tokens", title: "As the server counted them." };
  if (drafted && name === "rounds") return { text: `≈ ${passes}`, note: "", title: "Passes, estimated as all tokens less the accepted ones." };
  return ["tau", "accepted", "rounds", "round"].includes(name) ? { text: "", note: "not reported", title: "Unknown: this server does not report its rounds." } : undefined;
}

export function metrics(/** @type {Stage} */ stage, /** @type {HTMLElement} */ parent) {
  const box = html("dl", "cs-metrics", parent);
  const items = FIGURES.map((figure) => {
    const item = html("div", { class: `cs-metric cs-metric-${figure.name}`, title: figure.title, tabIndex: 0 }, box);
    const number = html("dd", "cs-number", item);
    return { figure, item, number, note: html("small", "", html("dt", "", item, figure.label), figure.note) };
  });
  const draw = () => {
    const { header, run: { end } } = stage;
    const covered = coveredBy(stage);
    const { run, speedup, speed } = covered;
    const sums = reportedSums(stage, stage.figures);
    const hasNoSpeedup = !header?.drafters.length || Boolean(sums);
    const notes = notesOf(stage, covered);
    const looks = { gain: speedup ? `is-${speedup.outcome}` : "", speed: speed.doubt || run.shared > 0 ? `is-noted ${stage.withheld ? "is-doubtful" : ""}` : "" };
    for (const { figure, item, number, note } of items) {
      const { name, title, text } = figure;
      const shown = (sums && reportedFigure(name, sums))
        || { title, text: stage.round ? text(covered, stage.round, stage) : "", note: notes[name] || figure.note };
      item.hidden = (figure.compared && (hasNoSpeedup || (!shown.text && (name !== "gain" || !isBeingMeasured(stage))))) || (name === "first" && !end?.prefill_seconds);
      item.title = shown.title;
      number.hidden = !shown.text; // the note says why
      write(number, shown.text);
      write(note, shown.note);
      item.className = `cs-metric cs-metric-${name} ${name in looks ? looks[/** @type {"gain" | "speed"} */ (name)] : ""}`;
    }
  };
  stage.on("lines round mode run compared", draw);
  draw();
}

const isBeingMeasured = (/** @type {Stage} */ { mode, withheld, comparing }) => mode !== "story" && !withheld && comparing.endsWith("…");

/** Returns the notes under the figures of this run, by name. @param {Stage} stage @param {Covered} covered @returns {Record<string, string>} */
function notesOf(stage, { run, speedup, speed: { doubt }, scope, extent }) {
  const { round, rounds, header, run: { end } } = stage;
  const duration = round === stage.budgetPreview.round ? "predicted" : `${(1000 * (round?.spent ?? 0)).toFixed(1)} ms`;
  return {
    tau: scope, accepted: scope, gain: speedup?.outcome === "similar" ? "no clear difference" : speedup?.range ?? stage.comparing,
    round: round ? `of ${counted(round.n, "row")}, ${duration}` : "",
    first: `${Math.round((100 * (end?.cached ?? 0)) / (rounds[0]?.start || 1))} % of the prompt from the cache`,
    rounds: extent,
    speed: header?.method === "served" ? "as it arrived here" : speedup ? "beside plain decoding" : [scope, doubt].filter(Boolean).join(", ") || (run.shared ? `shared ${run.shared} of ${counted(run.rounds, "round")}` : "engine time"),
  };
}
