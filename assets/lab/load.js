// Several requests at once: total tokens/s over budget and number of requests, what each gets, and the best budgets.

import { fillSelect, selectField, sliderField } from "./forms.js";
import { Plot } from "./plots.js";
import { Begin } from "./tools.js";
import { recordedOn } from "./verdict.js";
import { html, inTurn, write } from "../panels/ink.js";

const NARROW = 420; // pixels: below, the labels are short, and the scale of colours is left out

function narrowed(figure) {
  const data = figure.data.map((trace) => {
    if (trace.type === "heatmap") return { ...trace, showscale: false };
    return trace.meta === "labels" ? { ...trace, text: trace.customdata.map(([, short]) => short), textfont: { ...trace.textfont, size: 10 } } : trace;
  });
  return { ...figure, data };
}

export class Load {
  constructor(lab, parent) {
    this.lab = lab;
    this.draw = inTurn(() => this.redraw()); // one question at a time, so that no answer is overtaken by an older one
    const bar = html("div", "lab-toolbar", parent);
    this.line = selectField(bar, "Method", "The method whose budgets are drawn", () => this.draw());
    this.line.parentElement.hidden = true;
    this.predicting(bar);
    this.words = html("ul", { class: "lab-card lab-load-words", "aria-label": "What the figures show" }, parent);
    const grid = html("div", "lab-grid lab-two", parent);
    this.heat = new Plot(lab.library, grid, {
      name: "heat", title: "All requests together",
      caption: "Total {tokens/s} by {node budget} and requests at once; a frame marks the best budget of each row, hatching what is {predicted}.",
    });
    this.each = new Plot(lab.library, grid, {
      name: "each", title: "Each request",
      caption: "{tokens/s} that one request gets, by requests at once; a line for each {node budget}, with {95 %} intervals.",
    });
    this.heat.onPoint = ({ x, y }) => this.chosen(x, y);
    this.table(parent);
    for (const event of ["table", "shown"]) lab.on(event, () => this.plan());
  }

  predicting(bar) {
    const { lab } = this;
    if (!lab.can("what_if")) return;
    this.begin = new Begin(lab.server, bar, "Predict the rest",
      "Times rounds of 1 to 16 requests like the current run, then replays its text. Fills in, hatched, what was not measured.", () => this.predict());
  }

  table(parent) {
    this.box = html("section", { class: "lab-plot lab-load-table", "aria-label": "Table of requests at once" }, parent);
    const scroll = html("div", { class: "lab-scroll", tabIndex: 0 }, this.box);
    this.cells = html("table", "lab-table", scroll);
    html("caption", "lab-load-caption", this.cells, "Total tokens/s with the 95 % interval (the range, with fewer than six prompts), and tokens/s of each request, by requests at once and node budget.");
    this.head = html("tr", "", html("thead", "", this.cells));
    this.body = html("tbody", "", this.cells);
  }

  // Drawn while it is on the screen, and redrawn with every measured cell.
  plan() {
    if (this.lab.tab === "load" && this.lab.shown) this.draw();
  }

  // A click on a cell chooses that number of requests, and puts the budget into the page's controls.
  chosen(x, y) {
    const { table, line } = this.answer;
    const row = table.rows[Math.round(y)];
    const nodes = table.columns[Math.round(x)];
    if (!row || nodes === undefined) return;
    this.lab.lookAt(row.concurrency);
    const found = this.lab.table && !this.lab.progress.other_rig ? this.lab.table.rows.find((each) => each.line === line && each.nodes === nodes) : null;
    if (found) this.lab.apply(found);
  }

  async predict() {
    const { value, header } = this.lab.stage;
    if (!header || this.lab.unasked) {
      this.begin.tell("Open a recording or press Run first: the prediction replays the text of a run.", true);
      return;
    }
    const answer = await this.begin.run(() => this.lab.server.lab_concurrency_cost({ run: value.run }));
    if (!answer.load) return;
    this.prediction = answer.load;
    await this.draw();
  }

  async redraw() {
    const answer = await this.answered();
    if (answer.error) this.nothing(answer.error);
    else this.drawn(answer);
  }

  async answered() {
    const { server, progress, concurrency } = this.lab;
    try {
      return await server.lab_concurrency({ sweep: progress.sweep, line: this.line.value, concurrency, prediction: this.prediction || null });
    } catch {
      return { error: "The server does not answer; this will be drawn when it does." };
    }
  }

  drawn(answer) {
    this.answer = answer;
    const several = answer.count && answer.table.rows.length > 1;
    this.line.parentElement.hidden = !answer.lines.length;
    fillSelect(this.line, answer.lines, answer.line);
    if (!several) {
      this.nothing("");
      return;
    }
    this.words.hidden = this.box.hidden = false;
    const said = [...answer.words, answer.accuracy, answer.recorded ? recordedOn(answer.recorded) : ""].filter(Boolean);
    this.words.replaceChildren(...said.map((sentence) => html("li", "", null, sentence)));
    this.heat.draw(this.heat.body.clientWidth < NARROW ? narrowed(answer.heat) : answer.heat);
    this.each.draw(answer.each);
    this.fill(answer.table);
  }

  nothing(error) {
    this.words.hidden = this.box.hidden = true;
    const way = this.begin ? "Choose more “Concurrency” in the form, then press Measure; or press Run, then Predict the rest." : "Choose more “Concurrency” in the form, then press Measure.";
    for (const plot of [this.heat, this.each]) plot.say(this.lab.table ? "Measured for one request at a time so far" : `Nothing measured with ${this.lab.given.rig} yet`, error || way);
  }

  fill({ columns, rows }) {
    const titled = (parent, text, scope) => {
      html("th", "", parent, text).scope = scope;
    };
    this.head.replaceChildren();
    for (const name of ["requests at once", ...columns.map((column) => (/^[0-9]/.test(column) ? `${column} nodes` : column))]) titled(this.head, name, "col");
    this.body.replaceChildren(...rows.map((row) => {
      const line = html("tr", row.concurrency === this.lab.concurrency ? "is-best" : "");
      titled(line, String(row.concurrency), "row");
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
export class People {
  constructor(lab, parent) {
    this.lab = lab;
    this.field = sliderField(parent, "Concurrency", "How many requests are answered at once; the curves, the table and the recommendation follow", () => this.moved());
    this.said = html("output", { htmlFor: this.field.id }, this.field.parentElement);
    lab.on("table", () => this.draw());
    this.draw();
  }

  moved() {
    this.lab.lookAt(this.lab.counts[Number(this.field.value)]);
  }

  draw() {
    const { counts, concurrency } = this.lab;
    this.field.parentElement.hidden = counts.length < 2;
    Object.assign(this.field, { min: 0, max: Math.max(0, counts.length - 1), step: 1 });
    this.field.value = String(Math.max(0, counts.indexOf(concurrency)));
    this.field.setAttribute("aria-valuetext", `${concurrency} at once`);
    write(this.said, String(concurrency));
  }
}
