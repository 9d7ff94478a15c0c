// The tab Acceptance: acceptance lengths, acceptance by depth and rank, calibration of the drafter. For a run also what its
// rows earned and what other trees of the same drafts would have kept.

import { fillSelect, foldIn, showField, showLine } from "./forms.js";
import { drawAll, RUN } from "./plots.js";
import { Tool } from "./tools.js";
import { html, onPhone } from "../shared/ink.js";

const CHOOSE_A_RUN = "Choose the current run to see which rows paid, how many nodes were enough, and other trees.";
/** The topics of the sentences under each figure of a run. */
const TOPICS = /** @type {const} */ ([["rows", ["drafters"]], ["nodes", ["nodes"]], ["trees", ["branching", "omissions"]]]);

export class Acceptance extends Tool {
  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    this.source = this.addSelect("Rounds of", "The measurement or run whose rounds are drawn");
    this.budget = this.addSelect("Node budget", "The budget whose rounds are drawn");
    this.method = this.addSelect("Method", "The method whose rounds are drawn");
    this.status = this.addNote();
    this.plots = this.plotsIn("lab-three", {
      lengths: ["Acceptance lengths", "Share of rounds by tokens added, with {95 %} intervals."],
      map: ["Depth and rank", "Percentage accepted of the proposals that verification reached, by {depth} and {rank}; below ten, the counts."],
      calibration: ["Calibration", "Expected (1 + {Σq}) against added tokens per round; over-confident below the diagonal. Hollow: no interval."],
    });
    this.misses = html("ul", { class: "lab-card lab-words", "aria-label": "Where walks ended" }, pane);
    this.runSection = foldIn(pane, "Where the tree of this run pays", "", !onPhone());
    this.runPlots = this.plotsIn("lab-three", {
      rows: ["What a row earned", "Tokens added per verified row, by its place among its siblings."],
      nodes: ["How many nodes are enough", "Drafted tokens that a {round} would have kept with only the first nodes of its tree."],
      trees: ["Other trees of the same drafts", "Chain, wider chain and trees, replayed at the same positions of this text."],
    }, this.runSection);
    this.lists = TOPICS.map(([name, topics]) => ({ topics, list: html("ul", "lab-words", this.runPlots[name].box) }));
  }

  choices() {
    const { results: { table }, progress, runRig, unasked, stage } = this.lab;
    const measurement = progress.other_rig || (progress.recorded ? "recorded measurement" : `measurement ${progress.sweep}`);
    const rows = table ? table.rows.filter((row) => row.budget > 0) : [];
    const sources = /** @type {[string, string][]} */ ([]);
    if (rows.length) sources.push(["sweep", measurement]);
    if (stage.header && stage.rounds.length && !unasked) sources.push(["run", runRig ? `current run, of ${runRig}` : "current run"]);
    fillSelect(this.source, sources);
    const best = (table && table.best) || { nodes: "", line: "" };
    const rank = (/** @type {string} */ nodes) => (nodes === "auto" ? Infinity : Number(nodes));
    const budgets = [...new Set(rows.map((row) => row.nodes))].sort((one, other) => rank(one) - rank(other));
    fillSelect(this.budget, budgets, this.budget.value || best.nodes);
    const lines = rows.filter((row) => row.nodes === this.budget.value).map((row) => row.line);
    fillSelect(this.method, lines, this.method.value || best.line);
    for (const field of [this.budget, this.method]) showField(field, this.source.value === "sweep");
  }

  async redraw() {
    this.choices();
    const { progress, runRig, stage } = this.lab;
    const source = this.source.value;
    this.pane.classList.toggle("is-other-rig", Boolean(source === "run" ? runRig : source && progress.other_rig));
    const query = source === "run" ? { run: stage.value.run } : { sweep: progress.sweep, nodes: this.budget.value, line: this.method.value };
    const answer = source ? await this.lab.ask("lab_acceptance", query) : {};
    /** @type {AcceptanceView} */
    const view = "error" in answer ? {} : answer;
    drawAll(this.plots, view, () => {
      if (!source) return ["No rounds yet", "They come from a run, or from a measurement.", RUN];
      if ("error" in answer) return ["Nothing to draw", answer.error];
      if (view.lengths) return ["Not recorded by this engine", "It needs the drafter's probability of each node: recorder.round(…, logprobs)."];
      return ["Nothing was drafted", "Plain decoding writes one token per round, without a drafter."];
    });
    const words = view.words ?? {};
    this.runSection.hidden = !view.words;
    showLine(this.status, source === "sweep" && this.source.options.length > 1 ? CHOOSE_A_RUN : "");
    this.list(this.misses, words.misses);
    if (!view.words) return;
    drawAll(this.runPlots, view, () => ["Not in this run", "Nothing was drafted, or its engine does not record what this needs."]);
    for (const { topics, list } of this.lists) this.list(list, topics.flatMap((topic) => words[topic] || []));
  }

  /** @param {HTMLElement} list @param {string[]} [lines] */
  list(list, lines = []) {
    list.hidden = !lines.length;
    list.replaceChildren(...lines.map((line) => html("li", "", null, line)));
  }
}
