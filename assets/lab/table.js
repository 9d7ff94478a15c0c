// Tables of the lab, and how figures stand in them.

import { foldIn } from "./forms.js";
import { headed, WORDS } from "./plots.js";
import { button, html, methodMark, onPhone } from "../shared/ink.js";

/** The 95 % interval, or the range if there are too few prompts for one.
 *  @param {Estimate} estimate @param {number} digits */
export function spread({ low, high, minimum, maximum, prompts }, digits) {
  if (prompts < 2) return "1 prompt";
  return `${(low ?? minimum).toFixed(digits)} to ${(high ?? maximum).toFixed(digits)}`;
}

/** A table under its title. Its columns are named, with titles by name; its rows are replaced as a whole.
 *  @param {Element} parent @param {string} className @param {string} title @param {string} caption */
export function tableIn(parent, className, title, caption) {
  const box = html("section", { class: `lab-plot ${className}`, "aria-label": title }, parent);
  headed(box, title, caption);
  const element = html("table", "lab-table", html("div", { class: "lab-scroll", tabIndex: 0 }, box));
  const row = html("tr", "", html("thead", "", element));
  const body = html("tbody", "", element);
  return {
    box,
    /** @param {string[]} names @param {Record<string, string>} [titles] */
    head: (names, titles = {}) => row.replaceChildren(...names.map((name) => (
      html("th", { scope: "col", title: titles[name] || "", class: DETAILS.includes(name) ? "lab-detail" : "" }, null, name)))),
    fill: (/** @type {Element[]} */ rows) => {
      box.hidden = !rows.length;
      body.replaceChildren(...rows);
    },
  };
}

const DETAILS = ["pays from", "runs", "same text"]; // hidden on narrow screens
const COLUMNS = {
  setting: "", "tokens/s": WORDS["tokens/s"], "× plain": WORDS["plain decoding"], "τ": WORDS["τ"], "pays from": WORDS["pays from"],
  runs: "Measured runs; failed ones in brackets",
  "same text": "How many of the compared runs wrote exactly what plain decoding wrote; in bfloat16, near-ties may differ",
  use: "Set the bar to this setting",
};

// The table behind the plots: a row for each setting, the fastest first, those whose speed-up is withheld last.
export class Table {
  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.table = tableIn(parent, "lab-table-box", "All settings", "Medians over prompts with {95 %} intervals, fastest first, withheld ones last.");
    this.table.head(Object.keys(COLUMNS), COLUMNS);
    this.fold = foldIn(parent, "The fastest by kind of text", "", !onPhone());
    this.kinds = tableIn(this.fold, "lab-kinds", "By kind of text", "The fastest setting over the prompts of each category.");
    this.kinds.head(["kind of text", ...Object.keys(COLUMNS)], COLUMNS);
  }

  draw() {
    const { table, kinds, category } = this.lab.results;
    this.table.fill((table ? table.rows : []).map((row) => this.row(row)));
    const best = Object.entries(category ? {} : kinds);
    this.fold.hidden = !best.length;
    this.kinds.fill(best.map(([kind, row]) => {
      const line = this.row({ ...row, fastest: false });
      line.prepend(html("td", "", null, kind));
      return line;
    }));
  }

  row(/** @type {TableRow} */ row) {
    const { method, label, fastest, lossless, record, total, speedup, tau } = row;
    const line = html("tr", row.fastest ? "is-best" : record.withheld ? "is-withheld" : "");
    const name = html("th", { scope: "row" }, line);
    methodMark(method, name);
    name.append(label);
    const tag = (/** @type {string} */ text, className = "", title = "") => (
      name.append(" ", html("span", { class: `lab-tag ${className}`, title }, null, text)));
    if (fastest) tag("fastest");
    if (record.withheld) tag("speed-up withheld", "", record.withheld);
    if (!lossless) tag("biased", "is-warning");
    const figure = (/** @type {string} */ printed, detail = "", className = "") => {
      const cell = html("td", className, line);
      html("strong", "", cell, printed || "–");
      html("small", "", cell, detail);
    };
    figure(record.speed, spread(total, 0));
    figure(record.times.replace("×", ""), record.range || (speedup ? spread(speedup, 2) : ""));
    figure(tau.median.toFixed(2), spread(tau, 2));
    const modelled = row.modelled === null ? "" : `modelled ${row.modelled.toFixed(2)}`;
    figure(row.break_even ? `τ ${row.break_even.median.toFixed(2)}` : "", modelled, "lab-detail");
    html("td", "lab-detail", line, row.failed ? `${row.runs} (${row.failed})` : String(row.runs));
    html("td", "lab-detail", line, row.compared ? `${row.same_text} of ${row.compared}` : "–");
    if (!this.lab.progress.other_rig) button(html("td", "", line), "Use", `Use ${row.label}`, () => this.lab.apply(row));
    return line;
  }
}
