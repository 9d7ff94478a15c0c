// Tables of the lab, and how figures stand in them.

import { headed, WORDS } from "./plots.js";
import { button, html, methodColour } from "../shared/ink.js";

/** @param {number} value @param {number} digits */
const rounded = (value, digits) => value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });

/** The 95 % interval, or the range if there are too few prompts for one.
 *  @param {import("../types.d.ts").Estimate} estimate @param {number} digits */
export function spread({ low, high, least, most, prompts }, digits) {
  if (prompts < 2) return "1 prompt";
  return `${rounded(low ?? least, digits)} – ${rounded(high ?? most, digits)}`;
}

/** A table whose columns are named, with titles by name, and whose rows are replaced as a whole. @param {Element} parent */
export function tableIn(parent, caption = "") {
  const element = html("table", "lab-table", parent);
  if (caption) html("caption", "", element, caption);
  const row = html("tr", "", html("thead", "", element));
  const body = html("tbody", "", element);
  return {
    element,
    /** @param {string[]} names @param {Record<string, string>} [titles] */
    head: (names, titles = {}) => row.replaceChildren(...names.map((name) => html("th", { scope: "col", title: titles[name] || "" }, null, name))),
    fill: (/** @type {Element[]} */ rows) => body.replaceChildren(...rows),
  };
}

const COLUMNS = {
  setting: "", "tokens/s": WORDS["tokens/s"], "× plain": WORDS["plain decoding"], "τ": WORDS["τ"], "pays from": WORDS["pays from"],
  runs: "Measured runs; failed ones in brackets",
  "same text": "How many of the compared runs wrote exactly what plain decoding wrote; in bfloat16, near-ties may differ",
  use: "Set the controls of the page to this setting",
};

// The table behind the plots: a row for each setting, the fastest first, those whose speed-up is withheld last.
export class Table {
  /** @param {Lab} lab @param {Element} parent */
  constructor(lab, parent) {
    this.lab = lab;
    const settings = this.boxed(parent, "lab-table-box", "All settings", "Medians over prompts with their {95 %} intervals, the fastest setting first, those without a speed-up last.");
    const kinds = this.boxed(parent, "lab-kinds", "By kind of text", "The fastest setting over the prompts of each category.");
    this.kindsBox = kinds.box;
    this.empty = html("p", "lab-note", settings.scroll, "Nothing measured yet: press Measure.");
    this.table = tableIn(settings.scroll);
    this.table.head(Object.keys(COLUMNS), COLUMNS);
    this.kinds = tableIn(kinds.scroll);
    this.kinds.head(["kind of text", ...Object.keys(COLUMNS)], COLUMNS);
  }

  /** @param {Element} parent @param {string} look @param {string} title @param {string} caption */
  boxed(parent, look, title, caption) {
    const box = html("section", { class: `lab-plot ${look}`, "aria-label": title }, parent);
    headed(box, title, caption);
    return { box, scroll: html("div", { class: "lab-scroll", tabIndex: 0 }, box) };
  }

  draw() {
    const { table, kinds, category } = this.lab;
    const rows = table ? table.rows : [];
    this.empty.hidden = rows.length > 0;
    this.table.element.hidden = !rows.length;
    this.table.fill(rows.map((row) => this.row(row)));
    const best = Object.entries(category ? {} : kinds);
    this.kindsBox.hidden = !best.length;
    this.kinds.fill(best.map(([kind, row]) => {
      const line = this.row({ ...row, fastest: false });
      line.prepend(html("td", "", null, kind));
      return line;
    }));
  }

  row(/** @type {TableRow} */ row) {
    const { record, total, speedup, tau } = row;
    const line = html("tr", row.fastest ? "is-best" : record.withheld ? "is-withheld" : "");
    this.name(html("th", { scope: "row" }, line), row);
    const figure = (/** @type {string} */ printed, beside = "") => {
      const cell = html("td", "", line);
      html("strong", "", cell, printed || "–");
      html("small", "", cell, beside);
    };
    figure(record.speed, spread(total, 0));
    figure(record.times.replace("×", ""), record.range || (speedup ? spread(speedup, 2) : ""));
    figure(rounded(tau.median, 2), spread(tau, 2));
    const modelled = row.modelled === null ? "" : `modelled ${rounded(row.modelled, 2)}`;
    figure(row.break_even ? `τ ${rounded(row.break_even.median, 2)}` : "", modelled);
    html("td", "", line, row.failed ? `${row.runs} (${row.failed})` : String(row.runs));
    html("td", "", line, row.compared ? `${row.same_text} of ${row.compared}` : "–");
    if (!this.lab.progress.other_rig) button(html("td", "", line), "Use", `Use ${row.label}`, () => this.lab.apply(row));
    return line;
  }

  /** @param {Element} parent @param {TableRow} row */
  name(parent, { method, label, fastest, lossless, record: { withheld } }) {
    html("span", "lab-swatch", parent).style.background = methodColour(method);
    parent.append(label);
    const tag = (/** @type {string} */ text, look = "", title = "") => parent.append(" ", html("span", { class: `lab-tag ${look}`, title }, null, text));
    if (fastest) tag("fastest");
    if (withheld) tag("no speed-up said", "", withheld);
    if (!lossless) tag("biased", "is-warning");
  }
}
