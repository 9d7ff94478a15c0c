// Under a run that was slower than plain decoding: what its τ would give if a pass costs less, from what was measured
// here down to what is predicted of a GPU; the setting to use instead; and a recording that won.

import { action, html, write } from "../shared/ink.js";
import { decodedPlainly } from "./slowdown.js";
import { counted } from "../shared/round.js";

const SNAP_DISTANCE = 0.025; // plain passes: this close to a known cost the slider snaps to it

/** The setting to use instead of one that was slower; `title` names those that were measured with it.
 *  @param {{ speedup: Pick<PrintedSpeed, "ratio">, comparison: Pick<PlainComparison, "others"> }} run
 *  @returns {{ label: string, title: string, setting: Setting }} */
export function fasterSetting({ speedup, comparison }) {
  const better = (comparison.others || []).filter((other) => other.ratio > speedup.ratio && !decodedPlainly(other));
  const named = (/** @type {typeof better[0]} */ { pace, budget, dtype }) => (
    dtype ? `${dtype} (start with --dtype ${dtype})` : pace === "auto" ? `auto up to ${budget} nodes` : counted(budget, "node"));
  const title = better.length ? `Measured just now on this prompt, interleaved with plain decoding: ${better.map((other) => `${named(other)} ${other.times}`).join("; ")}.`
    : "No other setting that was tried was faster.";
  const usable = better.find(({ dtype, ratio }) => !dtype && ratio > 1);
  if (!usable) return { title, label: "Use plain decoding", setting: { method: "autoregressive", budget: 0, pace: "fixed" } };
  const { method, budget, pace } = usable;
  return { title, label: `Use ${named(usable)}: ${usable.times}`, setting: { method, budget, pace } };
}

/** @param {Stage} stage @param {Element} parent @param {Parts["recordings"]} recordings */
export function cheaper(stage, parent, recordings) {
  let from = /** @type {PlainComparison | null} */ (null); // that it was drawn from
  let setting = /** @type {Setting} */ ({}); // to use instead
  let winner = /** @type {Recording | undefined} */ (undefined);
  const box = html("span", { class: "cs-what-if", hidden: true }, parent);
  const label = html("label", "", box, "What if a pass cost less? ");
  const slider = html("input", { type: "range", step: 0.01 }, label);
  const prediction = html("output", "", box);
  const useButton = action(box, "", "", () => stage.header && stage.emit("fillBar", { ...stage.header.options, ...setting }), "cs-use");
  const winnerButton = action(box, "", "", () => winner && recordings.open(winner.name, { push: true }), "cs-use");

  // The speed-up of this run's τ if a pass costs what the slider says.
  const drawPrediction = () => {
    const { speedup, comparison } = stage;
    const gpu = comparison?.gpu;
    if (!speedup || !gpu) return;
    const { tau, cost } = speedup;
    const at = Number(slider.value);
    const passCost = [gpu.loop, gpu.floor, Number(cost)].find((known) => Math.abs(known - at) < SNAP_DISTANCE) || at;
    const whose = passCost === gpu.loop ? `, as the published loop takes for ${gpu.name}`
      : passCost === gpu.floor ? `, the least that bandwidth allows ${gpu.name}` : "";
    const times = (Number(tau) / passCost).toFixed(2);
    write(prediction, passCost === Number(cost) ? `${cost} plain ones, as measured here` : `${passCost.toFixed(2)} plain ones${whose}: τ ${tau} gives ${times}×, predicted`);
    prediction.classList.toggle("is-fast", Number(times) > 1);
  };

  const draw = () => {
    const { speedup, comparison, server, header, value: { run } } = stage;
    box.hidden = speedup?.outcome !== "slower";
    if (!speedup || !comparison || !header || box.hidden || from === comparison) return;
    from = comparison;
    const instead = fasterSetting({ speedup, comparison });
    ({ setting } = instead);
    useButton.hidden = !server || comparison.state === "measuring";
    useButton.title = instead.title;
    write(useButton, instead.label);
    winner = recordings.listed.find(({ rig, won: times, name }) => times && rig === header.rig && name !== run);
    winnerButton.hidden = !winner || !server;
    write(winnerButton, `See one that won: ${winner?.title}, ${winner?.won}`);
    winnerButton.title = `A recording with ${header.rig}, faster than plain decoding on ${winner?.hardware === header.hardware ? "such a machine" : winner?.hardware}`;
    const { gpu } = comparison;
    label.hidden = prediction.hidden = !gpu || Number(speedup.cost) <= gpu.floor + SNAP_DISTANCE; // no GPU's passes are cheaper
    if (gpu) Object.assign(slider, { min: gpu.floor, max: speedup.cost, value: speedup.cost, title: gpu.caution });
    drawPrediction();
  };
  slider.addEventListener("input", drawPrediction);
  stage.on("lines round run compared mode", draw);
  draw();
}
