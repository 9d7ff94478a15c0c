// The result of the measurement: the fastest setting, how certain it is, one click to use it, the figures behind it.

import { Command, whole } from "./forms.js";
import { prose, WORDS } from "./plots.js";
import { action, button, html, write } from "../panels/ink.js";
import { Menu } from "../stage/bar.js";
import { download } from "../stage/save.js";

const SURE = {
  plain: "Plain decoding is fastest here", few: "Fastest so far, over too few prompts to be sure",
  unclear: "Not yet clearly faster than plain decoding", withheld: "Fastest here; its speed-up is not said", faster: "Fastest here",
};

export class Verdict {
  constructor(lab, parent) {
    this.lab = lab;
    this.box = html("section", { class: "lab-card lab-verdict", "aria-label": "Recommended setting" }, parent);
    this.eyebrow = html("p", "lab-eyebrow", this.box);
    this.headline = html("h2", "lab-headline", this.box);
    this.figures = html("dl", "lab-figures", this.box);
    this.note = html("p", "lab-note", this.box);
    this.row = html("div", "lab-row", this.box);
    this.use = action(this.row, "Use it", "Set the controls of the page to this method and budget", () => lab.apply(this.best), "lab-primary");
    this.report = new Menu(this.row, "Report ▾", "Save what was measured", () => [
      { label: "HTML page", note: "self-contained", act: () => this.save("html") },
      { label: "CSV table", note: "every setting", act: () => this.save("csv") },
      { label: "Parquet", note: "every run", act: () => this.save("parquet") },
    ]);
    this.more = action(this.row, "More prompts", "Sets the form to twice as many prompts; then press Measure", () => lab.sweep.twice());
    this.command = new Command(this.box, "The same measurement on the command line");
    this.own = new Command(this.box, "The recommended setting on the command line");
    this.draw();
  }

  async save(kind) {
    const file = await this.lab.server.lab_report({ sweep: this.lab.progress.sweep, kind });
    if (file.error) this.lab.sweep.fail(file.error);
    else download(file);
  }

  draw() {
    const { table } = this.lab;
    const { state, command } = this.lab.progress;
    this.best = table ? table.best : null;
    const busy = ["queued", "running"].includes(state);
    this.row.hidden = !this.best;
    this.use.hidden = Boolean(this.lab.progress.other_rig);
    this.figures.hidden = !this.best;
    this.command.show(this.best ? command : "");
    this.own.show(this.best && this.lab.counts.length > 1 ? this.lab.command : "");
    if (this.best) this.found(table, busy);
    else this.nothing(busy);
  }

  nothing(busy) {
    const { reason, given } = this.lab;
    const none = `Nothing was measured with ${given.rig} yet, and no recorded measurement of it comes with the page.`;
    write(this.eyebrow, given.rig);
    write(this.headline, reason ? "Nothing can be measured here" : "Which method and budget are fastest here?");
    write(this.note, reason || (busy ? "The first figures come in a moment." : `${none} One press measures them on this machine, beside plain decoding.`));
  }

  found(table, busy) {
    const { done, total, recorded, other_rig: otherRig } = this.lab.progress;
    const partial = busy || done < total;
    const elsewhere = Boolean(recorded || otherRig);
    write(this.eyebrow, elsewhere ? this.elsewhere(table) : partial ? `Fastest so far, ${done} of ${total} runs` : SURE[table.standing] || "Fastest here");
    this.more.hidden = partial || elsewhere || !["few", "unclear"].includes(table.standing);
    this.box.classList.toggle("is-unclear", !partial && ["plain", "few", "unclear", "withheld"].includes(table.standing));
    write(this.headline, this.best.label);
    this.fill(this.best);
    write(this.note, [recorded && recordedOn(recorded), table.remark, this.next()].filter(Boolean).join(" "));
  }

  // What a measurement is called that was not made here, or not with the rig that answers.
  elsewhere({ standing }) {
    const { other_rig: otherRig } = this.lab.progress;
    if (otherRig) return `Of another rig: ${otherRig}`;
    const sure = SURE[standing] || "Fastest here";
    return standing === "faster" ? "Fastest in the recorded measurement" : `Recorded: ${sure[0].toLowerCase()}${sure.slice(1)}`;
  }

  // What to do where the figures are not of this rig and machine.
  next() {
    const { recorded, other_rig: otherRig } = this.lab.progress;
    if (otherRig) return `Nothing of it holds for ${this.lab.given.rig}, which answers now.`;
    return recorded ? "Press Measure for figures of this machine." : "";
  }

  fill(best) {
    const figures = [
      [whole(best.speed.median), best.concurrency > 1 ? `tokens/s, ${best.concurrency} at once` : "tokens/s", spread(best.speed, 0), WORDS["tokens/s"]],
      [best.speedup ? `${best.speedup.median.toFixed(1)}×` : "–", "plain decoding", best.speedup ? spread(best.speedup, 1) : best.withheld && "not said", best.withheld || WORDS["plain decoding"]],
      [best.tau.median.toFixed(2), "τ", spread(best.tau, 2), WORDS["τ"]],
    ];
    this.figures.replaceChildren(...figures.map(([number, name, range, title]) => {
      const item = html("div", { title });
      html("dd", "lab-number", item, number);
      const label = html("dt", "", item, name);
      html("small", "", label, range);
      return item;
    }));
  }
}

// Where and when the recorded measurement was made, in a sentence.
export const recordedOn = ({ date, rig, hardware, dtype }) => `Recorded on ${date}: ${rig}, ${hardware}, ${dtype}.`;

// The 95 % interval, or the range where there are too few prompts for one.
export function spread({ low, high, least, most, prompts }, digits) {
  if (prompts < 2) return "1 prompt";
  const show = (value) => value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  return low === null ? `${show(least)} – ${show(most)}` : `${show(low)} – ${show(high)}`;
}

// The table behind the plots: a row for each setting, the fastest first.
export class Table {
  constructor(lab, parent) {
    this.lab = lab;
    this.box = html("section", { class: "lab-plot lab-table-box", "aria-label": "Table of settings" }, parent);
    const head = html("header", "lab-plot-head", this.box);
    html("h3", "", head, "All settings");
    prose(html("p", "lab-caption", head), "Medians over prompts with their {95 %} intervals, the fastest setting first.");
    const scroll = html("div", { class: "lab-scroll", tabIndex: 0 }, this.box);
    this.empty = html("p", "lab-note", scroll, "Nothing measured yet: press Measure.");
    this.table = html("table", "lab-table", scroll);
    const row = html("tr", "", html("thead", "", this.table));
    for (const [name, title] of [["setting", ""], ["tokens/s", WORDS["tokens/s"]], ["× plain", WORDS["plain decoding"]],
      ["τ", WORDS["τ"]], ["runs", "Measured runs; failed ones in brackets"],
      ["same text", "How many of the compared runs wrote exactly what plain decoding wrote; in bfloat16, near-ties may differ"],
      ["use", "Set the controls of the page to this setting"]]) html("th", { scope: "col", title }, row, name);
    this.body = html("tbody", "", this.table);
  }

  draw() {
    const rows = this.lab.table ? this.lab.table.rows : [];
    this.empty.hidden = rows.length > 0;
    this.table.hidden = !rows.length;
    this.body.replaceChildren(...rows.map((row) => this.row(row)));
  }

  row(row) {
    const line = html("tr", row.best ? "is-best" : "");
    const name = html("th", { scope: "row" }, line);
    html("span", "lab-swatch", name).style.background = this.lab.look(row.method).color;
    name.append(row.label, ...(row.best ? [" ", html("span", "lab-tag", null, "fastest")] : []), ...(row.lossless ? [] : [" ", html("span", "lab-tag is-warning", null, "biased")]));
    for (const [value, digits] of [[row.speed, 0], [row.speedup, 2], [row.tau, 2]]) {
      const cell = html("td", "", line);
      if (value) {
        html("strong", "", cell, value.median.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits }));
        html("small", "", cell, spread(value, digits));
      } else cell.append("–");
    }
    line.children[2].title = row.withheld;
    html("td", "", line, row.failed ? `${row.runs} (${row.failed})` : String(row.runs));
    html("td", "", line, row.compared ? `${row.same_text} of ${row.compared}` : "–");
    if (!this.lab.progress.other_rig) button(html("td", "", line), "Use", `Use ${row.label}`, () => this.lab.apply(row));
    return line;
  }
}
