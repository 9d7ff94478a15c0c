// How fast: curves over the node budget, the table, the cost of a pass, and other machines.

import { Curves } from "./curves.js";
import { field, fillSelect, Flags, foldIn, showField, selectField } from "./forms.js";
import { drawAll } from "./plots.js";
import { Table } from "./table.js";
import { JobButton, Tool } from "./tools.js";
import { html, write } from "../shared/ink.js";

export class Speed extends Tool {
  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    this.concurrency = field("input", this.bar, "Concurrency", {
      type: "range", min: 0, step: 1, title: "How many requests are answered at once; the curves, the table and the recommendation follow",
    }, ({ value }) => lab.showConcurrency(lab.results.counts[Number(value)]));
    this.shown = html("output", { htmlFor: this.concurrency.id }, this.concurrency.parentElement);
    this.category = selectField(this.bar, "Kind of text", "The category of prompts for curves, table and recommendation", () => {
      lab.results.category = this.category.value;
      lab.reload();
    });
    this.begin = new JobButton(this, { label: "Predict all budgets", className: "", act: () => this.predict(),
      title: "Times passes of every size, then replays the current run with every budget: τ is exact, tokens/s are predicted" });
    this.line = selectField(this.bar, "Predicted", "The method whose prediction is drawn", () => lab.reload());
    this.curves = new Curves(lab, html("div", "lab-grid lab-tall", pane));
    this.table = new Table(lab, pane);
    this.about = html("p", "lab-note", pane);
    this.plots = this.plotsIn("lab-two", {
      cost: ["What a pass costs", "Milliseconds of one {pass} by its rows, measured on this machine; the band holds eight passes in ten."],
      gain: ["What a node gains", "Tokens that one more node adds to a {round}, and the cost of its row. They cross at the best budget, {predicted}."],
    });
    this.costs = pane.querySelector(".lab-two");
    this.elsewhere = new OtherMachine(lab, pane);
  }

  // From the current run: what a pass costs here, and what every budget would have achieved.
  async predict() {
    const { lab, begin } = this;
    if (!lab.stage.header || lab.unasked) return begin.showStatus("Open a recording or press Run first: this replays the text of a run.", true);
    const { result } = await begin.run("lab_what_if", { run: lab.stage.value.run });
    if (!result) return;
    lab.prediction = result.what_if;
    const { departures } = result;
    if (departures) begin.showStatus(`τ is not exact: by rounding, the target would choose other tokens at ${departures} positions of this text.`);
    await lab.reload();
  }

  async redraw() {
    const { line, concurrency: slider, lab: { progress, results: { counts, concurrency, curves, cost, categories, category } } } = this;
    showField(this.category, categories.length > 1);
    fillSelect(this.category, [["", "all"], .../** @type {[string, string][]} */ (categories.map((name) => [name, name]))], category);
    showField(slider, counts.length > 1);
    slider.max = String(Math.max(0, counts.length - 1));
    slider.value = String(Math.max(0, counts.indexOf(concurrency)));
    slider.setAttribute("aria-valuetext", `${concurrency} at once`);
    write(this.shown, String(concurrency));
    this.begin.button.hidden = Boolean(progress.other_rig); // it would have no place there
    if (curves) {
      showField(line, curves.predicted.lines.length > 0);
      if (document.activeElement !== line) fillSelect(line, curves.predicted.lines, curves.predicted.line);
    }
    for (const part of [this.curves, this.table, this.elsewhere]) part.draw();
    this.costs.hidden = !cost;
    write(this.about, cost ? cost.about : "What a pass costs here is not measured yet: press Predict all budgets.");
    if (cost) drawAll(this.plots, cost, () => ["Nothing to draw", "No method of this rig drafts."]);
  }
}

// The current run's trees predicted on another machine, with flags for other engines. Loaded when it is unfolded.
class OtherMachine extends Tool {
  shownKey = ""; // identifies the shown prediction

  constructor(/** @type {Lab} */ lab, /** @type {Element} */ pane) {
    const box = foldIn(pane, "On another machine, predicted, and flags to paste", "lab-card lab-elsewhere");
    super(lab, box);
    this.box = box;
    this.box.addEventListener("toggle", () => this.draw());
    this.status = this.addNote();
    this.bar.before(this.status);
    this.model = this.addSelect("Model", "A target by its published configuration");
    this.device = this.addSelect("Device", "Bandwidth and operations as published");
    this.plots = this.plotsIn("lab-two", { elsewhere: ["On another machine, predicted",
      "The current run's measured {τ} divided by the cost of a round there, which is {predicted} from published figures."] });
    this.flags = new Flags("Flags to paste", box.querySelector(".lab-grid"));
    this.costOn = html("p", "lab-caption", null);
    this.flags.list.before(this.costOn);
  }

  async redraw() {
    if (!this.box.open) return;
    const { stage, prediction, unasked } = this.lab;
    const run = stage.header && stage.rounds.length && !unasked ? stage.value.run : "";
    if (!run) {
      write(this.status, "Open a recording or press Run: this predicts the rounds of the run on the page.");
      return;
    }
    const query = { run, model: this.model.value, device: this.device.value };
    const key = JSON.stringify([query, stage.rounds.length, prediction]);
    if (key === this.shownKey) return;
    this.shownKey = key;
    const answer = await this.lab.ask("lab_predict_on_machine", query);
    write(this.status, "error" in answer ? answer.error : answer.caution);
    if ("error" in answer) return;
    const { elsewhere, too_large: tooLarge, flags, cost_on: costOn, read_in: readIn, models, devices, model, device } = answer;
    drawAll(this.plots, { elsewhere }, () => ["Nothing to predict", tooLarge || "Nothing was drafted."]);
    fillSelect(this.model, models, this.model.value || model); // what was chosen while this was asked for stays
    fillSelect(this.device, devices, this.device.value || device);
    write(this.costOn, flags.length ? `Best for this run with the pass cost of ${costOn}; Predict all budgets measures it here. Flags of ${readIn}.`
      : "None: the drafts of this run or the cost of a pass are not known.");
    this.flags.show(flags);
  }
}
