// Several requests at once: total tokens/s over budget and number of requests, what each gets, and the best budgets.

import { fillSelect, offer, sliderField } from "./forms.js";
import { drawAll } from "./plots.js";
import { Begin, Tool } from "./tools.js";
import { recordedOn, tableIn } from "./verdict.js";
import { html, write } from "../shared/ink.js";

const NARROW = 420; // pixels: below, the labels are short, and the scale of colours is left out

function narrowed(figure) {
  const data = figure.data.map((trace) => {
    if (trace.type === "heatmap") return { ...trace, showscale: false };
    return trace.meta === "labels" ? { ...trace, text: trace.customdata.map(([, short]) => short), textfont: { ...trace.textfont, size: 10 } } : trace;
  });
  return { ...figure, data };
}

export class Concurrency extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.line = this.select("Method", "The method whose budgets are drawn");
    offer(this.line, false);
    if (lab.can("what_if")) {
      this.begin = new Begin(this, "Predict the rest",
        "Times rounds of 1 to 16 requests like the current run, then replays its text. Fills in, hatched, what was not measured.", () => this.predict());
    }
    this.words = html("ul", { class: "lab-card lab-concurrency-words", "aria-label": "What the figures show" }, pane);
    this.plots = this.plotsIn("lab-two", {
      heat: ["All requests together", "Total {tokens/s} by {node budget} and requests at once; a frame marks the best budget of each row, hatching what is {predicted}."],
      per_request: ["Each request", "{tokens/s} that one request gets, by requests at once; a line for each {node budget}, with {95 %} intervals."],
    });
    this.plots.heat.onPoint = ({ x, y }) => this.chosen(x, y);
    this.box = html("section", { class: "lab-plot lab-concurrency-table", "aria-label": "Table of requests at once" }, pane);
    this.table = tableIn(html("div", { class: "lab-scroll", tabIndex: 0 }, this.box), "Total tokens/s with the 95 % interval (the range, with fewer than six prompts), and tokens/s of each request, by requests at once and node budget.");
  }

  // A click on a cell chooses that number of requests, and puts the budget into the page's controls.
  chosen(x, y) {
    const { table: { columns, rows }, line } = this.answer;
    const clicked = rows[Math.round(y)];
    const nodes = columns[Math.round(x)];
    if (!clicked || nodes === undefined) return;
    const { table, progress } = this.lab;
    this.lab.lookAt(clicked.concurrency);
    const setting = table && !progress.other_rig && table.rows.find((row) => row.line === line && row.nodes === nodes);
    if (setting) this.lab.apply(setting);
  }

  async predict() {
    const { prediction } = await this.begin.replay("lab_concurrency_cost");
    if (!prediction) return;
    this.prediction = prediction;
    await this.draw();
  }

  async redraw() {
    const { progress, concurrency } = this.lab;
    const wanted = { sweep: progress.sweep, line: this.line.value, concurrency, prediction: this.prediction || null };
    const answer = await this.lab.ask("lab_concurrency", wanted, "The server does not answer; this will be drawn when it does.");
    this.answer = answer;
    const { lines = [], line, table, words, accuracy, recorded, heat, per_request: perRequest, error } = answer;
    if (!error) {
      offer(this.line, lines.length > 0);
      fillSelect(this.line, lines, line);
    }
    if (error || !answer.count || table.rows.length < 2) {
      this.nothing(error);
      return;
    }
    this.words.hidden = this.box.hidden = false;
    const sentences = [...words, accuracy, recorded && recordedOn(recorded)].filter(Boolean);
    this.words.replaceChildren(...sentences.map((sentence) => html("li", "", null, sentence)));
    this.plots.heat.draw(this.plots.heat.body.clientWidth < NARROW ? narrowed(heat) : heat);
    this.plots.per_request.draw(perRequest);
    this.fill(table);
  }

  nothing(error) {
    this.words.hidden = this.box.hidden = true;
    const way = `Choose more “Concurrency” in the form, then press Measure${this.begin ? "; or press Run, then Predict the rest" : ""}.`;
    drawAll(this.plots, {}, () => [this.lab.table ? "Measured for one request at a time so far" : `Nothing measured with ${this.lab.given.rig} yet`, error || way]);
  }

  fill({ columns, rows }) {
    this.table.head(["requests at once", ...columns.map((column) => (/^[0-9]/.test(column) ? `${column} nodes` : column))]);
    this.table.fill(rows.map((row) => {
      const line = html("tr", row.concurrency === this.lab.concurrency ? "is-best" : "");
      html("th", { scope: "row" }, line, String(row.concurrency));
      for (const cell of row.cells) this.cell(html("td", "", line), cell);
      return line;
    }));
  }

  cell(place, cell) {
    if (!cell) {
      place.append("–");
      return;
    }
    html(cell.best ? "strong" : "span", "", place, cell.text);
    if (cell.best) place.append(" ", html("span", "lab-tag", null, "best"));
    html("small", "", place, cell.more);
    if (cell.differs) place.append(" ", html("span", "lab-tag is-warning", null, cell.differs));
  }
}

// How many requests at once the curves, the table and the recommendation are for.
export class ConcurrencySlider {
  constructor(lab, parent) {
    this.lab = lab;
    this.field = sliderField(parent, "Concurrency", "How many requests are answered at once; the curves, the table and the recommendation follow",
      () => lab.lookAt(lab.counts[Number(this.field.value)]));
    this.shown = html("output", { htmlFor: this.field.id }, this.field.parentElement);
    lab.on("table", () => this.draw());
    this.draw();
  }

  draw() {
    const { counts, concurrency } = this.lab;
    offer(this.field, counts.length > 1);
    this.field.max = String(Math.max(0, counts.length - 1));
    this.field.value = String(Math.max(0, counts.indexOf(concurrency)));
    this.field.setAttribute("aria-valuetext", `${concurrency} at once`);
    write(this.shown, String(concurrency));
  }
}
