// Under a run that was slower than plain decoding: what its τ would give if a pass costs less, from what was measured
// here down to what is predicted of a GPU; the setting to use instead; and a recording that won.

import { action, html, write } from "../shared/ink.js";
import { plainly } from "./metrics.js";
import { counted } from "../shared/round.js";

const NEAR = 0.025; // plain passes: so close to a known cost the slider rests on it

/** The setting to use instead of one that was slower; `title` names those that were measured with it.
 *  @param {{ against: Pick<RunSpeed, "ratio">, comparison: Pick<PlainComparison, "others"> }} run
 *  @returns {{ label: string, title: string, setting: Setting }} */
export function insteadOf({ against, comparison }) {
  const better = (comparison.others || []).filter((other) => other.ratio > against.ratio && !plainly(other));
  const named = (/** @type {typeof better[0]} */ { pace, budget, dtype }) => (
    dtype ? `${dtype} (start with --dtype ${dtype})` : pace === "auto" ? `auto up to ${budget} nodes` : counted(budget, "node"));
  const title = better.length ? `Measured just now on this prompt, in turns with plain decoding: ${better.map((other) => `${named(other)} ${other.times}`).join("; ")}.`
    : "No other setting that was tried was faster.";
  const usable = better.find(({ dtype, ratio }) => !dtype && ratio > 1);
  if (!usable) return { title, label: "Use plain decoding", setting: { method: "autoregressive", budget: 0, pace: "fixed" } };
  const { method, budget, pace } = usable;
  return { title, label: `Use ${named(usable)}: ${usable.times}`, setting: { method, budget, pace } };
}

export class Cheaper {
  from = /** @type {PlainComparison | null} */ (null); // that it was drawn from
  setting = /** @type {Setting} */ ({}); // to use instead
  winner = ""; // the name of a recording that won

  /** @param {Stage} stage @param {Element} parent @param {Parts["recordings"]} recordings */
  constructor(stage, parent, recordings) {
    this.stage = stage;
    this.recordings = recordings;
    this.box = html("span", { class: "cs-what-if", hidden: true }, parent);
    this.label = html("label", "", this.box, "What if a pass cost less? ");
    this.slide = html("input", { type: "range", step: 0.01 }, this.label);
    this.would = html("output", "", this.box);
    this.use = action(this.box, "", "", () => this.adopt(), "cs-use");
    this.won = action(this.box, "", "", () => recordings.open(this.winner, { push: true }), "cs-use");
    this.slide.addEventListener("input", () => this.weigh());
    stage.on("value round begin compared mode", () => this.draw());
    this.draw();
  }

  draw() {
    const { against, comparison, server, header, value: { run } } = this.stage;
    this.box.hidden = against?.standing !== "slower";
    if (!against || !comparison || !header || this.box.hidden || this.from === comparison) return;
    this.from = comparison;
    const { label, title, setting } = insteadOf({ against, comparison });
    this.setting = setting;
    this.use.hidden = !server || comparison.state === "measuring";
    this.use.title = title;
    write(this.use, label);
    const winner = this.recordings.listed.find((/** @type {Recording} */ { rig, won, name }) => won && rig === header.rig && name !== run);
    this.won.hidden = !winner || !server;
    if (winner) {
      this.winner = winner.name;
      write(this.won, `See one that won: ${winner.title}, ${winner.won}`);
      const machine = winner.hardware === header.hardware ? "such a machine" : winner.hardware;
      this.won.title = `A recording with ${header.rig}, faster than plain decoding on ${machine}`;
    }
    const { gpu } = comparison;
    this.label.hidden = this.would.hidden = !gpu || Number(against.cost) <= gpu.floor + NEAR; // no GPU's passes are cheaper
    if (gpu) Object.assign(this.slide, { min: gpu.floor, max: against.cost, value: against.cost, title: gpu.caution });
    this.weigh();
  }

  // The speed-up of this run's τ if a pass costs what the slider says.
  weigh() {
    const { against, comparison } = this.stage;
    const gpu = comparison?.gpu;
    if (!against || !gpu) return;
    const { tau, cost } = against;
    const at = Number(this.slide.value);
    const passCost = [gpu.loop, gpu.floor, Number(cost)].find((known) => Math.abs(known - at) < NEAR) || at;
    const whose = passCost === gpu.loop ? `, as the published loop takes for ${gpu.name}`
      : passCost === gpu.floor ? `, the least that bandwidth allows ${gpu.name}` : "";
    const times = (Number(tau) / passCost).toFixed(2);
    write(this.would, passCost === Number(cost) ? `${cost} plain ones, as measured here` : `${passCost.toFixed(2)} plain ones${whose}: τ ${tau} gives ${times}×, predicted`);
    this.would.classList.toggle("is-fast", Number(times) > 1);
  }

  adopt() {
    const { header } = this.stage;
    if (header) this.stage.tell("adopt", { ...header.options, ...this.setting });
  }
}
