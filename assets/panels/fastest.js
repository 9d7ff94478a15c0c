// What may be said of the node budgets of one prompt: which was measured to be the fastest, which may be faster, or why nothing.

import { counted } from "../shared/round.js";

const MIN_GAIN = 1.1; // of a predicted ratio over the best measured one, to be worth a sentence

/** A setting's speed divided by plain decoding's, with its range. @typedef {{ budget: number, ratio: number, low: number, high: number, name?: string }} Ratio */

/** @type {Ratio} */
export const PLAIN = { budget: 0, ratio: 1, low: 1, high: 1 };
export const ratioText = (/** @type {number} */ ratio) => ratio.toFixed(ratio < 1.995 ? 2 : 1);
export const rangeText = (/** @type {Ratio} */ { low, high }) => `${ratioText(low)} to ${ratioText(high)}`;
const nameOf = (/** @type {Ratio} */ { name, budget }) => name ?? counted(budget, "node");
export const fastestOf = (/** @type {Ratio[]} */ ratios) => ratios.toSorted((one, other) => other.ratio - one.ratio)[0];

/** What runs have in common that differ in their budget alone. @param {Pick<RunPoint, "machine" | "options">} point */
export const requestOf = ({ machine, options }) => machine + JSON.stringify({ ...options, budget: 0, max_tokens: 0, pace: "" });

/** The ratio of a measured run, or of a setting that was timed after it; none if it has no range.
 *  @param {{ budget: number, name?: string, ratio?: number, range?: string }} measured @returns {Ratio[]} */
export function ratioOf({ budget, name, ratio = 0, range = "" }) {
  const [low, high] = range.split(" to ").map(Number);
  return ratio && high ? [{ budget, name, ratio, low, high }] : [];
}

/** The ratios at some budgets of a curve. @param {{ budgets: number[], speed: BudgetForecast["speed"], plain: number } | null} curve @returns {Ratio[]} */
export function ratiosOf(curve) {
  const { budgets = [], speed, plain } = curve ?? {};
  if (!speed || !plain) return [];
  return budgets.map((budget, at) => ({ budget, ratio: speed.mean[at] / plain, low: speed.low[at] / plain, high: speed.high[at] / plain })).filter(({ ratio }) => ratio > 0);
}

/** One ratio for each setting, by budget: the mean of those measured, whose range narrows with each, but holds them.
 *  @template {Ratio} One @param {One[]} measured @returns {One[]} */
export function merged(measured) {
  return [...new Set(measured.map(nameOf))].map((name) => {
    const same = measured.filter((one) => nameOf(one) === name);
    if (same.length === 1) return same[0];
    const logs = same.map(({ ratio }) => Math.log(ratio));
    const [mean, spread] = [logs.reduce((sum, one) => sum + one) / logs.length, Math.max(...logs) - Math.min(...logs)];
    const half = Math.max(spread / 2, Math.hypot(...same.map(({ low, high }) => Math.log(high / low) / 2)) / logs.length);
    return { ...same[0], ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half) };
  }).sort((one, other) => one.budget - other.budget);
}

/** "4 and 16 nodes", or "2 to 8 nodes" if those between were measured, too. @param {Ratio[]} level @param {Ratio[]} all */
function namesOf(level, all) {
  const [last, next] = [level[level.length - 1], level.slice(0, -1)];
  if (!next.length) return nameOf(last);
  const names = level.map((one, place) => one.name ?? (place < level.length - 1 ? String(one.budget) : nameOf(one)));
  const isRow = level.length > 2 && all.indexOf(last) - all.indexOf(level[0]) === level.length - 1;
  return isRow ? `${names[0]} to ${nameOf(last)}` : `${names.slice(0, -1).join(", ")} and ${nameOf(last)}`;
}

/** The verdict on settings that were `measured` beside plain decoding and those whose speed is `predicted`; without either it is
 *  `unknown`. Settings whose ranges overlap the best one's are level. `level`: those to use, if any; `title`: all that was measured.
 *  @param {Ratio[]} measured @param {Ratio[]} predicted @param {string} unknown */
export function verdictOf(measured, predicted, unknown) {
  const tried = merged(measured);
  const faster = tried.filter(({ low }) => low > 1);
  const top = fastestOf(faster.length ? faster : tried);
  const next = fastestOf(predicted.filter(({ budget }) => !tried.some((one) => one.budget === budget)));
  const title = tried.length ? `Measured beside plain decoding: ${tried.map((one) => `${nameOf(one)} ${ratioText(one.ratio)}× (${rangeText(one)})`).join("; ")}` : "";
  const verdict = (/** @type {string} */ words, /** @type {Ratio[]} */ level = []) => ({ words, title, level });
  if (next && next.ratio > MIN_GAIN * Math.max(1, top?.ratio ?? 1)) return verdict(`${nameOf(next)} may be faster: predicted ${rangeText(next)}× plain`, [next]);
  if (!top) return verdict(predicted.length ? "Predicted: no budget clearly faster than plain" : unknown);
  const level = faster.length ? faster.filter(({ high }) => high >= top.low) : tried.filter(({ high }) => high >= 1);
  if (!level.length) return verdict("Fastest measured: plain decoding", [PLAIN]);
  const fixed = level.filter(({ name }) => !name);
  const named = fixed.length > Number(faster.length > 0) ? fixed : level; // what auto did is in the title
  if (!faster.length && level.length < tried.length) return verdict(`None clearly faster than plain; level with it: ${namesOf(named, tried)}`);
  if (!faster.length) return verdict(`${namesOf(named, tried)}: no clear difference from plain decoding`);
  if (level.length === 1) return verdict(`Fastest measured: ${nameOf(top)}, ${ratioText(top.ratio)}× plain (${rangeText(top)})`, level);
  const ratios = named.map(({ ratio }) => ratio);
  return verdict(`${namesOf(named, tried)} are level: ${ratioText(Math.min(...ratios))} to ${ratioText(Math.max(...ratios))}× plain`, level);
}
