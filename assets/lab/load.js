// The tab Load: total tokens/s by node budget and concurrency, and where drafting stops paying; for an attached server its
// counters and speed.

import { fillSelect, Flags, showField, showLine } from "./forms.js";
import { drawAll } from "./plots.js";
import { tableIn } from "./table.js";
import { JobButton, Tool } from "./tools.js";
import { action, html, write } from "../shared/ink.js";

export class Load extends Tool {
  view = /** @type {LabConcurrency | null} */ (null);

  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    this.line = this.addSelect("Method", "The method whose budgets are drawn");
    showField(this.line, false);
    this.again = action(this.bar, "Measure again", "Repeats this measurement with the same budgets, concurrency and prompts",
      () => this.view && lab.sweep.control("repeat", { line: this.view.line }));
    this.plots = this.plotsIn("lab-one", {
      heat: ["All requests together", "Total {tokens/s} by {node budget} and concurrency. Framed: best of a row; ▸: the row shown under Speed."],
    });
    this.words = html("ul", { class: "lab-card lab-words", "aria-label": "What the figures show" }, pane);
    this.plots.heat.onPoint = ({ x, y }) => this.chooseCell(x, y);
    this.table = tableIn(pane, "lab-concurrency-table", "In figures", "Total {tokens/s} with {95 %} interval (or range), and of each request.");
  }

  /** A click on a cell chooses that number of requests, and puts the budget into the page's controls.
   *  @param {number} x @param {number} y */
  chooseCell(x, y) {
    if (!this.view) return;
    const { columns, rows, line } = this.view;
    const clicked = rows[Math.round(y)];
    const nodes = columns[Math.round(x)];
    if (!clicked || nodes === undefined) return;
    const { results: { table }, progress } = this.lab;
    this.lab.showConcurrency(clicked.concurrency);
    const setting = table && !progress.other_rig && table.rows.find((row) => row.line === line && row.nodes === nodes);
    if (setting) this.lab.apply(setting);
  }

  async redraw() {
    const { progress, sweep, setup, results: { concurrency } } = this.lab;
    const query = { sweep: progress.sweep, line: this.line.value, concurrency };
    const answer = await this.lab.ask("lab_concurrency", query, "The server does not answer; this will be drawn when it does.");
    const view = this.view = "error" in answer ? null : answer;
    if (view) {
      showField(this.line, view.lines.length > 0);
      fillSelect(this.line, view.lines, view.line);
    }
    const { table } = this.lab.results;
    const drawn = view?.heat && view.rows.length > 1 ? view : null;
    this.words.hidden = !drawn;
    this.again.hidden = !sweep.measureAction || !drawn?.rows.some(({ withheld }) => withheld);
    drawAll(this.plots, { heat: drawn?.heat }, () => [
      table ? "Measured for one request at a time so far" : `Nothing measured with ${setup.rig} yet`,
      "error" in answer ? answer.error : "How many requests can share a pass before drafting stops paying?",
      table ? sweep.severalAction : sweep.measureAction]);
    if (!drawn) return this.table.fill([]);
    const sentences = [...drawn.words, drawn.recorded].filter(Boolean);
    this.words.replaceChildren(...sentences.map((sentence) => html("li", "", null, sentence)));
    this.fillTable(drawn);
  }

  fillTable(/** @type {LabConcurrency} */ { columns, rows }) {
    this.table.head(["requests at once", ...columns.map((column) => (/^[0-9]/.test(column) ? `${column} nodes` : column))]);
    this.table.fill(rows.map((row) => {
      const isShown = row.concurrency === this.lab.results.concurrency;
      const line = html("tr", { class: row.withheld ? "is-withheld" : isShown ? "is-best" : "", title: row.withheld });
      html("th", { scope: "row" }, line, String(row.concurrency));
      for (const cell of row.cells) {
        const box = html("td", "", line, cell ? "" : "–");
        if (!cell) continue;
        html(cell.best ? "strong" : "span", { title: cell.withheld }, box, cell.text);
        if (cell.best) box.append(" ", html("span", "lab-tag", null, "best"));
        html("small", "", box, cell.more);
        if (cell.differs) box.append(" ", html("span", "lab-tag is-warning", null, cell.differs));
      }
      return line;
    }));
  }
}

// An attached server: its counters while the tab is open, and its speed by requests at once, measured on request.
const BETWEEN_COUNTS_MS = 2000;

export class ServerLoad extends Tool {
  timer = 0;

  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    this.begin = new JobButton(this, { label: "Measure requests at once", refused: "", act: () => this.measure(),
      title: "Sends prompts of the chosen set to this server, 1, 2, 4, 8 and 16 at once, 64 tokens each" });
    this.set = this.addSelect("Prompts", "The set whose prompts are sent");
    fillSelect(this.set, lab.setup.sets.map(({ name, title }) => [name, title]), "bench");
    this.about = this.addNote();
    const { concurrency, ...counters } = this.plotsIn("lab-three", {
      traffic: ["All requests to the server", "{τ} and tokens per second between two readings of the server's counters."],
      places: ["Acceptance by position", "The share of drafts whose token at each position was accepted, since this tab was first opened."],
      concurrency: ["Concurrency", "Total tokens per second, and the median time of a request."],
    });
    this.concurrency = concurrency;
    this.counters = counters;
    this.silence = html("p", { class: "lab-notice", role: "status", hidden: true }, pane);
    this.flags = new Flags("Draft length, from the server's counters", pane);
    this.flags.box.hidden = true;
    this.concurrency.say("Not measured yet", "Press Measure requests at once: it keeps the server busy for up to a few minutes.");
  }

  // Reads the counters for as long as the tab is shown.
  async redraw() {
    clearTimeout(this.timer);
    if (!this.lab.shown || this.lab.tab !== "load") return;
    const answer = await this.lab.ask("lab_server_counters", {}, "The page's server does not answer; trying again.");
    this.timer = setTimeout(() => this.draw(), BETWEEN_COUNTS_MS);
    const error = "error" in answer ? answer.error : "";
    const { about, silence, flags, ...figures } = "error" in answer ? { about: error, silence: "", flags: [] } : answer;
    write(this.about, about);
    showLine(this.silence, silence);
    this.flags.box.hidden = !flags.length;
    this.flags.show(flags);
    drawAll(this.counters, figures, (name) => (name === "traffic" ? ["Nothing to compare yet", error || "This takes two readings, two seconds apart."]
      : ["Not counted by this server", error || "Or nothing was drafted yet."]));
  }

  async measure() {
    const { result, error } = await this.begin.run("lab_server_concurrency", { set: this.set.value });
    if (error) return;
    if (result?.figure) this.concurrency.draw(result.figure);
    else this.concurrency.say("Nothing was measured", result?.about || "It was stopped.");
    if (result?.about) this.begin.showStatus(result.about, true);
  }
}
