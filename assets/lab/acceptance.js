// Figures of rounds: what is accepted of them, and where a tree pays, with flags to paste and other machines, predicted.

import { fillSelect, Flags, offer, selectField } from "./forms.js";
import { drawAll } from "./plots.js";
import { Tool } from "./tools.js";
import { html, write } from "../shared/ink.js";

// How long rounds are, which proposals are accepted, and how well the drafter is calibrated.
export class Shapes extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.stage = lab.stage;
    this.source = this.select("Rounds of", "The measurement or run whose rounds are drawn");
    this.budget = this.select("Node budget", "The budget at which methods are compared");
    this.method = this.select("Method of the map", "The method whose proposals the plot in the middle shows");
    this.plots = this.plotsIn("lab-three", {
      histogram: ["Acceptance lengths", "The share of rounds that added so many tokens; the mean of each line is its {τ}."],
      map: ["Depth and rank", "Of the proposals that verification reached, the percentage that was accepted, by {depth} and {rank}."],
      calibration: ["Calibration", "Expected tokens per round, 1 + {Σq}, against the tokens that were added; below the diagonal the drafter is over-confident."],
    });
    this.grid = pane.querySelector(".lab-grid");
  }

  choices() {
    const { table, progress, runRig, unasked } = this.lab;
    const whence = progress.other_rig || (progress.recorded ? "recorded measurement" : `measurement ${progress.sweep}`);
    const run = this.stage.header && this.stage.rounds.length && !unasked ? [["run", runRig ? `current run, of ${runRig}` : "current run"]] : [];
    const rows = table ? table.rows : [];
    fillSelect(this.source, [...(rows.length ? [["sweep", whence]] : []), ...run]);
    const swept = this.source.value === "sweep";
    this.cells(swept ? rows.filter((row) => row.budget > 0) : [], (table && table.best) || { nodes: "", line: "" });
    offer(this.budget, swept);
    offer(this.method, swept);
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
    const { progress, runRig } = this.lab;
    const source = this.source.value;
    this.grid.classList.toggle("is-other-rig", Boolean(source === "run" ? runRig : source && progress.other_rig));
    if (!source) {
      drawAll(this.plots, {}, () => ["No rounds yet", "Press Run, or Measure."]);
      return;
    }
    const answer = await this.lab.ask("lab_shapes", source === "run" ? { run: this.stage.value.run }
      : { sweep: progress.sweep, nodes: this.budget.value, line: this.method.value });
    drawAll(this.plots, answer, () => {
      if (answer.error) return ["Nothing to draw", answer.error];
      if (answer.histogram) return ["Not recorded by this engine", "recorder.round(…, logprobs): what the drafter believed of each node."];
      return ["Nothing was drafted", "Plain decoding has one token a round and no drafter to judge."];
    });
  }
}

// By figure, the sentences under it.
const WORDS_OF = { siblings: ["misses", "siblings"], rows: ["rows"], nodes: ["nodes", "text"], trees: ["trees", "lacking"] };

export class Anatomy extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.status = this.note("status");
    this.plots = this.plotsIn("lab-two", {
      siblings: ["On the greedy path and after a sibling", "How often the drafter's first proposal was the target's token: by {depth} while all before it were first proposals, and after an accepted other one."],
      rows: ["What a row earned", "Tokens that a verified row added to the text, by its place among its siblings."],
      nodes: ["The next node, and the last", "Drafted tokens that a {round} would have kept with the first nodes of its tree alone."],
      trees: ["Other trees of the same drafts", "Chain, wider chain and trees, replayed at the same places of the known text."],
      elsewhere: ["On another machine, predicted", "This run's measured {τ} over the predicted cost of a round there: speed is {predicted}, from published figures alone."],
    });
    this.words = Object.fromEntries(Object.entries(this.plots).map(([name, plot]) => [name, this.sentences(plot)]));
    this.flags = new Flags("Flags to paste");
    this.words.elsewhere.parentElement.before(this.flags.box);
    this.priced = html("p", "lab-caption", null);
    this.flags.list.before(this.priced);
    const machine = html("div", "lab-toolbar");
    this.words.elsewhere.before(machine);
    this.model = selectField(machine, "Model", "A target by its published configuration", () => this.draw());
    this.device = selectField(machine, "Device", "Bandwidth and operations as published", () => this.draw());
  }

  // What its answer depends on.
  get about() {
    const { stage, prediction } = this.lab;
    return JSON.stringify([stage.value.run, stage.rounds.length, this.model.value, this.device.value, prediction]);
  }

  // A list under a plot, for the sentences that it supports.
  sentences(plot) {
    const figure = html("div", "lab-figure");
    plot.box.replaceWith(figure);
    figure.append(plot.box);
    return html("ul", { class: "lab-words", tabIndex: 0, "aria-label": `${plot.title.textContent}: in words` }, figure);
  }

  async redraw() {
    const { stage, unasked } = this.lab;
    if (!stage.header || !stage.rounds.length) {
      write(this.status, "Open a recording or press Run: this takes the rounds of the run on the page apart.");
      return;
    }
    const { about } = this;
    if (about === this.asked) return;
    this.asked = about;
    const choice = () => [stage.value.run, this.model.value, this.device.value].join(" ");
    const asked = choice();
    write(this.status, "Taking the rounds apart …");
    const answer = await this.lab.ask("lab_anatomy", { run: stage.value.run, model: this.model.value, device: this.device.value });
    if (asked !== choice()) return; // another one was chosen meanwhile
    write(this.status, answer.error || `${answer.rounds} rounds of ${unasked ? "the recording" : "the run"} that drafted; lines at the bars are 95 % intervals.`);
    if (!answer.error) this.show(answer);
  }

  show(answer) {
    drawAll(this.plots, answer.figures, (name) => (name === "elsewhere" ? ["Nothing to predict", answer.misfit || "Nothing was drafted."]
      : ["Not in this run", "Nothing was drafted, or its engine does not record it."]));
    for (const [name, list] of Object.entries(this.words)) {
      const lines = name === "elsewhere" ? [answer.caution] : WORDS_OF[name].flatMap((word) => answer.sentences[word] || []);
      list.replaceChildren(...lines.map((line) => html("li", "", null, line)));
    }
    fillSelect(this.model, answer.models, answer.model);
    fillSelect(this.device, answer.devices, answer.device);
    write(this.priced, answer.flags.length ? `Best for this run by the cost on ${answer.priced}. Measure the cost (tab Cost) for the rig that answers.`
      : "None: other trees of this run are not known, or no cost is.");
    this.flags.show(answer.flags);
  }
}
