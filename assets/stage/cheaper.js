// Under a run that was slower than plain decoding: what its τ would give if a pass costs less, from what was measured
// here down to what is predicted of a GPU; the setting to use instead; and a recording that won.

import { action, html, write } from "../shared/ink.js";
import { plainly } from "./metrics.js";
import { counted, settingFrom } from "../shared/round.js";

const NEAR = 0.025; // plain passes: so close to a known cost the slider rests on it

// The setting to use instead of one that was slower: {label, said, setting}. Those that were measured with it are said.
export function insteadOf({ against, comparison }) {
  const better = (comparison.others || []).filter((other) => other.ratio > against.ratio && !plainly(other));
  const named = ({ pace, budget, dtype }) => (dtype ? `${dtype} (start with --dtype ${dtype})` : pace === "auto" ? `auto up to ${budget} nodes` : counted(budget, "node"));
  const said = better.length ? `Measured just now on this prompt, in turns with plain decoding: ${better.map((other) => `${named(other)} ${other.times}`).join("; ")}.`
    : "No other setting that was tried was faster.";
  const usable = better.find(({ dtype, ratio }) => !dtype && ratio > 1);
  if (!usable) return { said, label: "Use plain decoding", setting: { method: "autoregressive", budget: 0, pace: "fixed" } };
  const { method, budget, pace } = usable;
  return { said, label: `Use ${named(usable)}: ${usable.times}`, setting: { method, budget, pace } };
}

export class Cheaper {
  constructor(stage, parent, lessons) {
    this.stage = stage;
    this.lessons = lessons;
    this.box = html("span", { class: "cs-what-if", hidden: true }, parent);
    this.label = html("label", "", this.box, "What if a pass cost less? ");
    this.slide = html("input", { type: "range", step: 0.01 }, this.label);
    this.would = html("output", "", this.box);
    this.use = action(this.box, "", "", () => this.adopt(), "cs-use");
    this.won = action(this.box, "", "", () => lessons.open(this.winner.name, { push: true }), "cs-use");
    this.slide.addEventListener("input", () => this.weigh());
    stage.on("value round begin compared mode", () => this.draw());
    this.draw();
  }

  draw() {
    const { against, comparison, server, header } = this.stage;
    this.box.hidden = !against || against.standing !== "slower";
    if (this.box.hidden || this.of === comparison) return;
    this.of = comparison;
    this.instead = insteadOf(this.stage);
    this.use.hidden = !server || comparison.state === "measuring";
    this.use.title = this.instead.said;
    write(this.use, this.instead.label);
    this.winner = this.lessons.listed.find(({ rig, won, name }) => won && rig === header.rig && name !== this.stage.value.run);
    this.won.hidden = !this.winner || !server;
    if (this.winner) this.offer(this.winner, header);
    this.label.hidden = this.would.hidden = Number(against.cost) <= comparison.gpu.floor + NEAR; // no GPU's passes are cheaper
    Object.assign(this.slide, { min: comparison.gpu.floor, max: against.cost, value: against.cost, title: comparison.gpu.caution });
    this.weigh();
  }

  offer({ title, won, hardware }, header) {
    write(this.won, `See one that won: ${title}, ${won}`);
    this.won.title = `A recording with ${header.rig}, faster than plain decoding on ${hardware === header.hardware ? "such a machine" : hardware}`;
  }

  // The speed-up of this run's τ if a pass costs what the slider says.
  weigh() {
    const { against: { tau, cost }, comparison: { gpu } } = this.stage;
    const at = Number(this.slide.value);
    const price = [gpu.loop, gpu.floor, Number(cost)].find((known) => Math.abs(known - at) < NEAR) || at;
    const whose = { [gpu.floor]: `, the least that bandwidth allows ${gpu.name}`, [gpu.loop]: `, as the published loop takes for ${gpu.name}` };
    const times = (Number(tau) / price).toFixed(2);
    write(this.would, price === Number(cost) ? `${cost} plain ones, as measured here` : `${price.toFixed(2)} plain ones${whose[price] || ""}: τ ${tau} gives ${times}×, predicted`);
    this.would.classList.toggle("is-fast", Number(times) > 1);
  }

  adopt() {
    this.stage.tell("adopt", { ...settingFrom(this.stage.header), ...this.instead.setting });
  }
}
