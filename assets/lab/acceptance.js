// What is accepted: how long rounds are, which proposals are taken, how well the drafter knows it. Of a run also what its
// rows earned and what other trees of its drafts would have kept.

import { fillSelect, offer, tell } from "./forms.js";
import { drawAll } from "./plots.js";
import { Tool } from "./tools.js";
import { html } from "../shared/ink.js";

const CHOOSE_A_RUN = "Choose the current run to see where its tree pays: what rows earned, how many nodes do, other trees.";
const OF_A_RUN = { rows: ["drafters"], nodes: ["nodes"], trees: ["branching", "lacking"] }; // by figure, the sentences under it

export class Acceptance extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.source = this.select("Rounds of", "The measurement or run whose rounds are drawn");
    this.budget = this.select("Node budget", "The budget whose rounds are drawn");
    this.method = this.select("Method", "The method whose rounds are drawn");
    this.status = this.note("status");
    this.plots = this.plotsIn("lab-three", {
      lengths: ["Acceptance lengths", "The share of rounds that added so many tokens, with {95 %} intervals."],
      map: ["Depth and rank", "Of the proposals that verification reached, the percentage that was accepted, by {depth} and {rank}."],
      calibration: ["Calibration", "Expected tokens per round, 1 + {Σq}, against the tokens that were added; below the diagonal the drafter is over-confident."],
    });
    this.misses = html("ul", { class: "lab-card lab-words", "aria-label": "Where walks ended" }, pane);
    this.parts = this.plotsIn("lab-three", {
      rows: ["What a row earned", "Tokens that a verified row added to the text, by its place among its siblings."],
      nodes: ["The next node, and the last", "Drafted tokens that a {round} would have kept with the first nodes of its tree alone."],
      trees: ["Other trees of the same drafts", "Chain, wider chain and trees, replayed at the same places of the known text."],
    });
    this.lists = Object.fromEntries(Object.entries(this.parts).map(([name, plot]) => [name, html("ul", "lab-words", plot.box)]));
    const [whole, parts] = pane.querySelectorAll(".lab-grid");
    this.grids = { whole, parts };
  }

  choices() {
    const { table, progress, runRig, unasked, stage } = this.lab;
    const whence = progress.other_rig || (progress.recorded ? "recorded measurement" : `measurement ${progress.sweep}`);
    const run = stage.header && stage.rounds.length && !unasked ? [["run", runRig ? `current run, of ${runRig}` : "current run"]] : [];
    const rows = table ? table.rows.filter((row) => row.budget > 0) : [];
    fillSelect(this.source, [...(rows.length ? [["sweep", whence]] : []), ...run]);
    this.cells(rows, (table && table.best) || { nodes: "", line: "" });
    for (const field of [this.budget, this.method]) offer(field, this.source.value === "sweep");
  }

  // The budgets of a measurement's rows, and the lines of the chosen one.
  cells(rows, best) {
    const rank = (nodes) => (nodes === "auto" ? Infinity : Number(nodes));
    const budgets = [...new Set(rows.map((row) => row.nodes))].sort((one, other) => rank(one) - rank(other));
    fillSelect(this.budget, budgets, this.budget.value || best.nodes);
    const lines = rows.filter((row) => row.nodes === this.budget.value).map((row) => row.line);
    fillSelect(this.method, lines, this.method.value || best.line);
  }

  async redraw() {
    this.choices();
    const { progress, runRig, stage } = this.lab;
    const source = this.source.value;
    for (const grid of Object.values(this.grids)) grid.classList.toggle("is-other-rig", Boolean(source === "run" ? runRig : source && progress.other_rig));
    const wanted = source === "run" ? { run: stage.value.run } : { sweep: progress.sweep, nodes: this.budget.value, line: this.method.value };
    const answer = source ? await this.lab.ask("lab_acceptance", wanted) : {};
    drawAll(this.plots, answer, () => {
      if (!source) return ["No rounds yet", "Press Run, or Measure."];
      if (answer.error) return ["Nothing to draw", answer.error];
      if (answer.lengths) return ["Not recorded by this engine", "recorder.round(…, logprobs): what the drafter believed of each node."];
      return ["Nothing was drafted", "Plain decoding has one token a round and no drafter to judge."];
    });
    const words = answer.words || {};
    this.grids.parts.hidden = !answer.words;
    tell(this.status, source === "sweep" && this.source.options.length > 1 ? CHOOSE_A_RUN : "");
    this.list(this.misses, words.misses);
    if (!answer.words) return;
    drawAll(this.parts, answer, () => ["Not in this run", "Nothing was drafted, or its engine does not record it."]);
    for (const [name, list] of Object.entries(this.lists)) this.list(list, OF_A_RUN[name].flatMap((topic) => words[topic] || []));
  }

  list(list, lines = []) {
    list.hidden = !lines.length;
    list.replaceChildren(...lines.map((line) => html("li", "", null, line)));
  }
}
