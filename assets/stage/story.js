// The story's sentence: what one pass of the big model just did, for people who have never heard of drafting; at the end
// the outcome, and a race against plain decoding. What is said beside plain decoding comes from the server's comparison.

import { html, write } from "../shared/ink.js";
import { counted, DRAFTER_KINDS, figuresOf } from "../shared/round.js";
import { reportedSums } from "./metrics.js";
import { cutOf, waitingWords } from "./text.js";

const MAX_TOLD = 20; // rounds of a live run that are told one by one

/** A sentence in parts, each with the class of its look. @typedef {[text: string, look?: string][]} Sentence */

/** @type {Record<string, (speedup: PrintedSpeed, passes: string) => Sentence>} */
const VERDICTS = {
  faster: ({ times }, passes) => [[`${passes}, `], [times, "is-fast"], [" as fast."]],
  slower: ({ times, range }, passes) => [[`${passes}, yet slower than one at a time: ${times} (${range}).`]],
  similar: () => [["No clear difference from plain decoding."]],
};

/** What a scene of the film says; the others say what the story says of a round or of the run.
 *  @param {Stage} stage @returns {{ headline: Sentence, more: string } | null} */
function sceneWords({ scene, recordedRound: round, speedup, comparison, roundsBeforeRepetition, header, withheld }) {
  if (scene === "plain") {
    return { headline: [[document.querySelector(".cs-first")?.textContent ?? ""]],
      more: "A token is a word, or a piece of one. Each pass reads all of the model's weights again, for one token: that is slow." };
  }
  if (scene === "guess" && round) {
    const two = round.drafterNames.length > 1;
    const kind = DRAFTER_KINDS[header?.drafter_kinds[0] ?? ""];
    const helper = two ? "The helpers (drafters) are" : `The helper (drafter) is${kind ? ` ${kind},` : ""}`;
    const forks = round.children.some((below) => below.length > 1);
    return { headline: [[`Now ${two ? "two helpers make" : "a helper makes"} ${guesses(round)}.`]],
      more: `${helper} far cheaper than a pass of the big model.${forks ? " Where it is unsure, it tries several continuations: a tree." : ""}` };
  }
  if (scene === "race") {
    return { headline: [["One token a pass, against a tree a pass."]], more: speedup ? `Their true relative speed, ${speedup.how}.` : withheld };
  }
  if (scene === "same" && comparison) {
    const { text, tracks } = comparison;
    return { headline: [["Same words "], ["✓", "is-fast"], [", "], [counted(roundsBeforeRepetition.length, "pass", "passes"), "is-fast"], [` instead of ${tracks.texts.length}.`]],
      more: `${text.words} ${withheld}` };
  }
  return null;
}

// How many guesses a round has, and how far ahead the deepest lies.
function guesses(/** @type {Pick<Round, "n" | "depths">} */ { n, depths }) {
  const ahead = Math.max(...depths);
  const reach = ahead === 1 ? "one token ahead" : `${n - 1 === ahead ? "" : "up to "}${ahead} tokens ahead`;
  return `${counted(n - 1, "guess", "guesses")}, ${reach}`;
}

/** What has to be said of what is shown. @param {Stage} stage @returns {{ headline: Sentence, more: string, title?: string }} */
function wordsOf(stage) {
  const { round } = stage;
  const over = stage.atEnd && stage.scene !== "verify";
  const waiting = waitingWords(stage);
  const scene = sceneWords(stage);
  if (scene) return scene;
  if (waiting) return { headline: [[waiting.headline]], more: waiting.more };
  if (!round) {
    return { headline: [["Ask something, and watch a drafter guess ahead of a big model."]],
      more: "Pick a preset and press Run: each pass of the big model keeps every guess that it would have written itself." };
  }
  if (round.chunked) return chunkWords(stage, round, over);
  if (over) return outcome(stage);
  if (stage.following && stage.current > 0 && stage.rounds.length > MAX_TOLD) { // nobody reads a sentence a round any more
    const { tau, tokens, rounds } = figuresOf(stage.rounds.slice(0, stage.current + 1));
    return { headline: [[tau.toFixed(1), "cs-count"], [" tokens a pass so far."]], more: `${tokens} tokens in ${counted(rounds, "pass", "passes")}.` };
  }
  return { headline: keptWords("One pass of the big model just wrote ", round), more: explain(round) };
}

/** How many tokens a round kept. @param {string} lead @param {Round} round @returns {Sentence} */
function keptWords(lead, { keep: { length } }) {
  return [[lead], [String(length), "cs-count"], [length === 1 ? " token." : " tokens."]];
}

function explain(/** @type {Round} */ round) {
  const accepted = round.keep.length - 1;
  if (round.n === 1) return "Nothing was guessed ahead: this is plain decoding, one token a pass.";
  const verdict = accepted ? `${accepted} ${accepted === 1 ? "is" : "are"} exactly what it would have written` : "none is what it would have written";
  const checked = round.n === 2 ? "a guess" : `all ${round.n - 1} guesses at once`;
  return `The big model checked ${checked}: ${verdict}.`;
}

/** Of a server that does not report its rounds. @param {Stage} stage @param {Round} round @param {boolean} over */
function chunkWords(stage, round, over) {
  const run = stage.figures;
  const passes = reportedSums(stage, run)?.passes;
  const written = `${counted(run.tokens, "token")}${passes ? ` in about ${counted(passes, "pass", "passes")}` : ""}.`;
  return { headline: over ? /** @type {Sentence} */ ([[written]]) : keptWords("The server just sent ", round),
    more: "Which tokens were guessed ahead in one pass is not known: this server does not report its rounds." };
}

// The outcome of the whole text, and why n tokens a pass are less than n times as fast.
function outcome(/** @type {Stage} */ stage) {
  const { speedup, comparison, repetition, figuresBeforeRepetition: run } = stage;
  const cut = repetition ? null : cutOf(stage);
  const passes = `${cut?.lead ?? ""}${counted(run.tokens, "token")} in ${counted(run.rounds, "pass", "passes")}`;
  if (!stage.header?.drafters.length) {
    return { headline: /** @type {Sentence} */ ([[`${passes}: one at a time.`]]), more: "Nothing was guessed ahead: this is plain decoding, the baseline of every speed-up." };
  }
  /** @type {Sentence} */
  const headline = speedup ? VERDICTS[speedup.outcome](speedup, passes) : [[`${passes}.`]];
  const unknown = stage.comparing.endsWith("…") ? `How much faster that is: ${stage.comparing}` : stage.comparing || "How much faster that is was not measured.";
  const why = speedup ? speedup.outcome !== "slower" && speedup.words : stage.withheld ? stage.scene === "card" && "The bars count passes, not time." : unknown; // what is slower or withheld says so below
  const more = [stage.budgetPreview.error, speedup?.outcome === "similar" && `${passes}.`, why, comparison?.text.words];
  return { headline, more: more.filter(Boolean).join(" "), title: comparison?.text.rule };
}

export function story(/** @type {Stage} */ stage, /** @type {Element} */ parent) {
  const box = html("div", "cs-story", parent);
  const headline = html("p", "cs-headline", box);
  const words = html("p", "cs-more", box);
  const draw = () => {
    const said = wordsOf(stage);
    headline.replaceChildren(...said.headline.map(([text, look]) => html("span", look || "", null, text)));
    write(words, said.more);
    words.title = said.title ?? "";
  };
  stage.on("round lines run mode state compared scene", draw);
  draw();
  return box;
}
