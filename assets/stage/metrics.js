// The figures of the run, each with its unit and, on hover, its definition. In the story they read as one line of
// arithmetic: tokens per round ÷ the cost of a round = the speed-up.

import { action, html, pause, write } from "../shared/ink.js";
import { usedOf } from "../shared/round.js";

/** `text`: the figure of a run, of the same run beside plain decoding, of the round that is shown.
 *  @typedef {{ name: string, label: string, note: string, title: string, compared?: boolean,
 *    text: (run: RunFigures, against: RunSpeed | null, round: Round, stage: Stage) => string }} Figure */

/** @type {Figure[]} */
const FIGURES = [
  { name: "tau", label: "tokens per round", note: "τ, root included",
    title: "τ: tokens that a round adds to the text, on average. The root counts, so a round that accepts no drafted token counts 1. Plain decoding has τ = 1.",
    text: (run, against) => (against ? against.tau : run.tau.toFixed(2)) },
  { name: "cost", label: "a plain pass's time", note: "drafting included", compared: true,
    title: "How long a round takes, in passes of plain decoding, which is tokens per round divided by the speed-up: a pass over many rows takes longer than one over a single row, and drafting takes time too. This is why 12 tokens a round are not 12 times as fast.",
    text: (run, against) => (against ? `${against.cost}×` : "–") },
  { name: "gain", label: "plain decoding's speed", note: "measured", compared: true,
    title: "Tokens per second divided by those of plain decoding (one token a pass), measured after the run: both in turns on the same prompt, machine and precision, with the range that its turns give. One prompt; the lab measures over many.",
    text: (run, against) => (against ? against.times : "–") },
  { name: "accepted", label: "accepted", note: "per round",
    title: "Drafted tokens that the target accepted, per round: τ without the root.",
    text: (run) => run.accepted.toFixed(2) },
  { name: "speed", label: "tokens per second", note: "engine time",
    title: "Tokens divided by engine time: the sum of all rounds, without reading the prompt, the network or this page; once it is measured in turns with plain decoding, that speed. Rounds shared with other runs include the waiting for them, so the speed of such a run is its own share of a busy machine and is not compared with plain decoding, which is measured alone.",
    text: (run, against, round, stage) => stage.speed.text || "–" },
  { name: "rounds", label: "rounds", note: "",
    title: "Rounds so far: each is one draft and one pass of the target.",
    text: (run, against, round, stage) => String(stage.rounds.length) },
  { name: "first", label: "to the first token", note: "",
    title: "Engine time from the run's begin to its first token: reading the prompt. What an earlier turn of the conversation read is taken from its cache. In int4 that is everything up to the first token that differs; otherwise whole blocks of 256 tokens of the earlier prompt. A target with recurrent layers reads everything anew.",
    text: (run, against, round, stage) => `${(stage.value.end?.prefill_seconds ?? 0).toFixed(2)} s` },
  { name: "round", label: "kept this round", note: "",
    title: "Tokens that this round kept, the rows that the target verified for them, and the engine time of the round.",
    text: (run, against, round) => String(round.keep.length) },
];

/** What is known of a run whose server does not say which tokens came in one round: the sums that it gives at the end,
 *  `accepted` of `drafted` tokens and about how many passes. null for all other runs.
 *  @typedef {{ drafted: number, accepted: number, passes: number }} Sums
 *  @param {Pick<Stage, "header" | "value">} stage @param {Pick<RunFigures, "tokens">} run @returns {Sums | null} */
export function sumsOf({ header, value }, run) {
  if (!header || !header.chunked) return null;
  const { drafted = 0, accepted = 0 } = value.end || {};
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

export class Metrics {
  /** @param {Stage} stage @param {HTMLElement} parent */
  constructor(stage, parent) {
    this.stage = stage;
    this.box = html("dl", "cs-metrics", parent);
    this.items = FIGURES.map((figure) => this.item(figure));
    stage.on("value round mode begin compared", () => this.draw());
    this.draw();
  }

  item(/** @type {Figure} */ figure) {
    const item = html("div", { class: `cs-metric cs-metric-${figure.name}`, title: figure.title, tabIndex: 0 }, this.box);
    const number = html("dd", "cs-number", item, "–");
    const label = html("dt", "", item, figure.label);
    const note = html("small", "", label, figure.note);
    return { figure, item, number, note };
  }

  // The figures are those of the run so far, whichever round is shown and in every mode.
  draw() {
    const { stage } = this;
    const { header, measured: run, against } = stage;
    const plain = !header || header.drafters.length === 0;
    const sums = sumsOf(stage, run);
    for (const { figure, item, number, note } of this.items) {
      const shown = (sums && unreported(figure.name, sums)) || this.known(figure, run, against);
      item.hidden = Boolean(figure.compared) && (plain || Boolean(sums) || (figure.name === "cost" && !against))
        || figure.name === "first" && !stage.value.end?.prefill_seconds;
      item.title = shown.title;
      write(number, shown.text);
      write(note, shown.note);
      item.classList.toggle("is-slow", figure.name === "gain" && against?.standing === "slower");
      item.classList.toggle("is-fast", figure.name === "gain" && against?.standing === "faster");
      item.classList.toggle("is-shared", figure.name === "speed" && run.shared > 0);
    }
  }

  // In a word or two; the story has the sentence.
  uncompared(/** @type {RunFigures} */ run) {
    const { comparing } = this.stage;
    if (this.stage.withheld) return "withheld";
    if (comparing.endsWith("…")) return comparing;
    return run.shared ? "not compared" : "not measured";
  }

  /** @param {Figure} figure @param {RunFigures} run @param {RunSpeed | null} against */
  known(figure, run, against) {
    const { stage } = this;
    const { round, header, repetition } = stage;
    const whose = repetition ? "before it repeats" : "";
    const took = round === stage.trial.round ? "predicted" : `${(1000 * (round?.spent ?? 0)).toFixed(1)} ms`;
    const timed = run.shared ? `shared ${run.shared} of ${run.rounds} rounds` : "engine time";
    /** @type {Record<string, string>} */
    const notes = {
      round: round ? `of ${round.n} rows, ${took}` : "", gain: against ? against.range : this.uncompared(run), tau: whose, accepted: whose,
      first: `${Math.round((100 * (stage.value.end?.cached ?? 0)) / (stage.rounds[0]?.start || 1))} % of the prompt from the cache`,
      rounds: repetition ? `${repetition.round} before it repeats` : "",
      speed: header?.method === "served" ? "as it arrived here" : against ? "beside plain decoding" : whose || timed };
    return { title: figure.title, text: round ? figure.text(run, against, round, stage) : "–", note: notes[figure.name] || figure.note };
  }
}

// A sentence under the figures, in every view, if plain decoding is faster: what would have had to be different. And what a
// run with the budget auto used of it.
const NEARLY = 0.75; // of its rounds: with drafts in more than this share, auto counts as always drafting
const MOSTLY = 0.25; // of its rounds: with drafts in at most this share, auto counts as decoding plainly

// Why the run was slower than plain decoding, or why no speed-up is shown; "" if it was faster.
export function slower(/** @type {Pick<Stage, "against" | "comparison" | "mode" | "rounds" | "figures" | "withheld">} */ stage) {
  const { against, comparison, mode, rounds, figures, withheld } = stage;
  if (!against) return mode === "story" ? "" : withheld;
  if (against.standing === "faster") return "";
  if (against.standing === "alike") return `No clear difference to plain decoding here: ${against.plain_speed} against ${against.speed} tokens/s, ${against.times}.`;
  const rows = Math.round(rounds.reduce((sum, { n }) => sum + n, 0) / rounds.length);
  return [`${rounds.length} passes instead of ${figures.tokens}. A pass over ${rows} rows, draft included, costs ${against.cost} plain ones here, so τ ${against.tau} loses; from τ ${against.cost} on it wins.`,
    ...(comparison?.others ?? []).filter(plainly).slice(0, 1).map(() => "The budget auto would have decoded plainly.")].join(" ");
}

export function plainly(/** @type {import("../types.d.ts").OtherSetting} */ { pace, rounds, drafted }) {
  return pace === "auto" && rounds > 0 && drafted <= MOSTLY * rounds;
}

// How much of its budget an auto run used, and how often it drafted.
/** @param {Header | null} header @param {Round[]} rounds @param {boolean} busy */
export function paced(header, rounds, busy) {
  if (!header || header.pace !== "auto" || !header.drafters.length || !rounds.length) return "";
  const drafted = rounds.filter((round) => round.n > 1).length;
  if (!drafted) return `auto ${busy ? "has decoded plainly so far" : "decoded plainly"}: a draft would have cost more than it brought.`;
  const used = `auto used ${usedOf(header, rounds)} of up to ${(header.budget ?? 0).toLocaleString("en")} nodes`;
  if (drafted > NEARLY * rounds.length) return `${used}.`;
  return `${used} and drafted in ${drafted} of ${rounds.length} rounds${busy ? " so far" : ""}; in the others a draft would have cost more than it brought.`;
}

export class SlowdownNote {
  /** @param {Stage} stage @param {HTMLElement} parent */
  constructor(stage, parent) {
    this.stage = stage;
    this.box = html("div", { class: "cs-plainly", role: "status" }, parent);
    this.words = html("span", "", this.box);
    this.again = action(this.box, "Measure again", "Time this run in turns with plain decoding once more", () => stage.tell("measure"), "cs-use");
    this.end = action(this.box, "", "", () => this.stopThere(), "cs-use");
    stage.on("value state round begin compared mode", () => this.draw());
    this.draw();
  }

  draw() {
    const { rounds, header, live, repetition, recorded, server } = this.stage;
    const words = [repetition?.words, slower(this.stage), paced(header, rounds, live)].filter(Boolean).join(" ");
    this.again.hidden = !measuresAgain(this.stage);
    this.end.hidden = !repetition || recorded || !server;
    this.box.hidden = !words && this.again.hidden;
    write(this.words, words || "No speed-up is said of this run.");
    write(this.end, live || !repetition ? "Stop here" : `End at token ${repetition.token}`);
    this.end.title = live ? "End the run: it only repeats itself" : "Put this run into the bar with as many tokens as do not repeat themselves";
  }

  stopThere() {
    const { stage } = this;
    if (stage.live) document.querySelector("#canopy-stop").click();
    else if (stage.header && stage.repetition) stage.tell("adopt", { ...stage.header.options, max_tokens: stage.repetition.token });
  }
}

// Whether measuring again may give a speed-up.
export function measuresAgain(/** @type {Stage} */ stage) {
  const { comparison, comparing, header, server, live, recorded, withheld, value } = stage;
  if (!server || live || recorded || value.followed || !header || !header.drafters.length || stage.figures.shared) return false;
  return withheld ? Boolean(comparison?.speed.again) : Boolean(comparing) && !comparing.endsWith("…");
}

// What a live run is compared with: after the run, the server measures it in turns with plain decoding of the same prompt,
// only if the queue is empty. A run that shared rounds with others is not compared.
const POLL_MS = 400;

export class ComparisonRequest {
  constructor(/** @type {Stage} */ stage) {
    this.stage = stage;
    this.asked = /** @type {Set<string>} */ (new Set()); // runs: each is compared with plain decoding once
    stage.on("value state", () => this.look());
    stage.on("measure", () => this.ask(stage.value.run));
  }

  look() {
    const { stage } = this;
    const { run, state } = stage.value;
    const ended = ["done", "stopped"].includes(state) && stage.header && stage.rounds.length > 1;
    if (!ended || stage.recorded || stage.value.followed || !stage.header.drafters.length || !stage.server || this.asked.has(run)) return;
    this.asked.add(run);
    if (!stage.comparison && !stage.figures.shared) this.ask(run);
  }

  async ask(/** @type {string} */ run) {
    this.say(run, "being measured …");
    this.say(run, await this.measured(run));
  }

  // Shows what is found as it grows; "" or why nothing was found.
  async measured(/** @type {string} */ run) {
    const { server } = this.stage;
    if (!server) return "";
    try {
      const begun = await server.compare({ run });
      if ("error" in begun) return begun.error;
      for (;;) {
        const job = await server.compared({ job: begun.job });
        if ("error" in job) return job.error;
        if (job.result) this.stage.compared(run, job.result);
        if (job.state === "error") return job.message;
        if (["done", "stopped"].includes(job.state)) return job.result ? "" : "Timing stopped because another run began.";
        await pause(POLL_MS);
      }
    } catch {
      return "The server cannot be reached, so it was not measured.";
    }
  }

  /** @param {string} run @param {string} words */
  say(run, words) {
    if (this.stage.value.run !== run) return;
    this.stage.comparing = words;
    this.stage.tell("compared");
  }
}
