// The fastest setting of the measurement: how certain it is, its figures, and a button that uses it.

import { Command, foldIn } from "./forms.js";
import { WORDS } from "./plots.js";
import { spread } from "./table.js";
import { action, html, write } from "../shared/ink.js";
import { Menu } from "../shared/overlays.js";
import { download } from "../stage/save.js";

/** @type {Record<string, string>} */
const HEADINGS = {
  plain: "Plain decoding is fastest here", few: "Fastest so far, over too few prompts to be sure",
  unclear: "Not yet clearly faster than plain decoding", withheld: "No speed-up is reported", faster: "Fastest here",
};

const REPORTS = [["HTML page", "self-contained", "html"], ["CSV of settings", "a row each", "csv"], ["CSV of runs", "a row each", "runs"]];

export class Verdict {
  best = /** @type {TableRow | null} */ (null);

  constructor(/** @type {Lab} */ lab, /** @type {Element} */ parent) {
    this.lab = lab;
    this.box = html("section", { class: "lab-card lab-verdict", "aria-label": "Recommended setting" }, parent);
    this.eyebrow = html("p", "lab-eyebrow", this.box);
    this.headline = html("h2", "lab-headline", this.box);
    this.figures = html("dl", "lab-figures", this.box);
    this.note = html("p", "lab-note", this.box);
    this.row = html("div", "lab-row", this.box);
    this.useButton = action(this.row, "Use it", "Set the bar to this method and budget", () => this.best && lab.apply(this.best), "lab-primary");
    new Menu(this.row, "Report ▾", "Save what was measured", () => REPORTS.map(([label, note, kind]) => ({ label, note, act: async () => {
      const file = await lab.ask("lab_report", { sweep: lab.progress.sweep, kind });
      if (!lab.sweep.refused(file)) download(file);
    } })));
    this.moreButton = action(this.row, "More prompts", "Sets the form to twice as many prompts; then press Measure", () => {
      const { promptCount } = lab.sweep;
      promptCount.value = String(Math.min(Number(promptCount.max), Math.max(12, 2 * Number(promptCount.value))));
      lab.sweep.openForm(promptCount);
    });
    this.commands = foldIn(this.box, "On the command line");
    this.command = new Command(this.commands, "The same measurement");
    this.bestCommand = new Command(this.commands, "The recommended setting");
    this.draw();
  }

  draw() {
    const { busy, progress, reason, results: { table, counts, command }, setup } = this.lab;
    this.best = table ? table.best : null;
    this.row.hidden = this.figures.hidden = this.commands.hidden = !this.best;
    this.useButton.hidden = Boolean(progress.other_rig);
    this.command.show(this.best ? progress.command : "");
    this.bestCommand.show(this.best && counts.length > 1 ? command : "");
    if (table && this.best) return this.drawResult(table, this.best);
    const none = `Nothing was measured with ${setup.rig} yet, and the page has no recorded measurement of it.`;
    write(this.eyebrow, setup.rig);
    write(this.headline, reason ? "Nothing can be measured here" : "Which method and budget are fastest here?");
    write(this.note, reason || (busy ? "The first figures come in a moment." : `${none} Press Measure to time them on this machine.`));
  }

  /** @param {TableView} table @param {TableRow} best */
  drawResult({ outcome, remark, rivals }, best) {
    const { progress: { done, total, recorded, other_rig: otherRig }, results: { category } } = this.lab;
    const kind = category && ` · ${category}`;
    const partial = this.lab.busy || done < total;
    const heading = HEADINGS[outcome] || "Fastest here";
    this.moreButton.hidden = partial || Boolean(recorded || otherRig) || !["few", "unclear"].includes(outcome);
    this.box.classList.toggle("is-unclear", !partial && ["plain", "few", "unclear", "withheld"].includes(outcome));
    write(this.headline, best.label);
    this.drawFigures(best);
    let advice = "";
    if (otherRig) {
      write(this.eyebrow, `Of another rig: ${otherRig}`);
      advice = `It does not hold for ${this.lab.setup.rig}, the loaded rig.`;
    } else if (recorded) {
      const words = outcome === "faster" ? "Fastest in the recorded measurement" : `Recorded: ${heading[0].toLowerCase()}${heading.slice(1)}`;
      write(this.eyebrow, `${words}${kind}`);
      advice = "Press Measure for figures of this machine.";
    } else write(this.eyebrow, partial ? `Fastest so far, ${done} of ${total} runs${kind}` : `${heading}${kind}`);
    write(this.note, [recorded, remark].filter(Boolean).join(" "));
    if (rivals.length) this.note.append(" ", html("abbr", { class: "lab-word", title: rivals.join("\n") }, null, "Which?"));
    if (advice) this.note.append(" ", advice);
  }

  drawFigures(/** @type {TableRow} */ { total, speedup, record, tau, concurrency }) {
    const { withheld } = record;
    const range = record.range || (speedup ? spread(speedup, 2) : withheld && "withheld");
    const figures = [
      [record.speed, concurrency > 1 ? `tokens/s, ${concurrency} at once` : "tokens/s", spread(total, 0), WORDS["tokens/s"]],
      [record.times || "–", "plain decoding", range, withheld || WORDS["plain decoding"]],
      [tau.median.toFixed(2), "τ", spread(tau, 2), WORDS["τ"]],
    ];
    this.figures.replaceChildren(...figures.map(([number, name, interval, title]) => {
      const item = html("div", { title });
      html("dd", "lab-number", item, number);
      html("small", "", html("dt", "", item, name), interval);
      return item;
    }));
  }
}
