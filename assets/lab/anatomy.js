// Where a tree pays: the anatomy of the run on the stage, flags to paste, and the run on another machine, predicted.

import { Command, fillSelect, selectField } from "./forms.js";
import { Plot } from "./plots.js";
import { html, sparing, write } from "../panels/ink.js";

const FIGURES = [
  { name: "siblings", title: "On the spine and after a sibling", words: ["misses", "siblings"],
    caption: "How often the drafter's first proposal was the target's token: by {depth} while all before it were first proposals, and after an accepted other one." },
  { name: "rows", title: "What a row earned", words: ["rows"],
    caption: "Tokens that a verified row added to the text, by its place among its siblings." },
  { name: "nodes", title: "The next node, and the last", words: ["nodes", "text"],
    caption: "Drafted tokens that a {round} would have kept with the first nodes of its tree alone." },
  { name: "trees", title: "Other trees of the same drafts", words: ["trees", "lacking"],
    caption: "Chain, wider chain and trees, replayed at the same places of the known text." },
];

export class Anatomy {
  constructor(lab, parent) {
    this.lab = lab;
    const bar = html("div", "lab-toolbar", parent);
    this.about = html("p", { class: "lab-note", role: "status" }, bar);
    const grid = html("div", "lab-grid lab-two", parent);
    this.plots = new Map(FIGURES.map((about) => [about.name, this.part(grid, about)]));
    this.flags = this.card(grid, "Flags to paste");
    this.priced = html("p", "lab-caption", this.flags);
    this.list = html("div", "", this.flags);
    this.elsewhere = this.part(grid, {
      name: "elsewhere", title: "On another machine, predicted",
      caption: "This run's measured {τ} over the predicted cost of a round there: speed is {predicted}, from published figures alone.",
    });
    const machine = html("div", "lab-toolbar");
    this.elsewhere.words.before(machine);
    this.model = selectField(machine, "Model", "A target by its published configuration", () => this.draw());
    this.device = selectField(machine, "Device", "Bandwidth and operations as published", () => this.draw());
    const plan = sparing(() => lab.shown && lab.tab === "anatomy" && this.draw(), 600);
    lab.stage.on("state", plan);
    lab.on("table", plan);
  }

  // A figure with the sentences that it supports.
  part(parent, about) {
    const box = html("div", "lab-figure", parent);
    const plot = new Plot(this.lab.library, box, about);
    return { plot, words: html("ul", { class: "lab-words", tabIndex: 0, "aria-label": `${about.title}: in words` }, box) };
  }

  card(parent, title) {
    const box = html("section", { class: "lab-card lab-paste", tabIndex: 0, "aria-label": title }, parent);
    html("h3", "", box, title);
    return box;
  }

  async draw() {
    const { stage, server, unasked } = this.lab;
    if (!stage.header || !stage.rounds.length) {
      write(this.about, "Open a recording or press Run: this takes the rounds of the run on the page apart.");
      return;
    }
    const asked = JSON.stringify([stage.value.run, stage.rounds.length, this.model.value, this.device.value, this.lab.prediction]);
    if (asked === this.asked) return;
    this.asked = asked;
    write(this.about, "Taking the rounds apart …");
    const answer = await server.lab_anatomy({ run: stage.value.run, model: this.model.value, device: this.device.value });
    if (asked === this.asked) this.show(answer, unasked);
  }

  show(answer, unasked) {
    if (answer.error) {
      write(this.about, answer.error);
      return;
    }
    write(this.about, `${answer.rounds} rounds of ${unasked ? "the recording" : "the run"} that drafted; lines at the bars are 95 % intervals.`);
    for (const { name, words } of FIGURES) {
      const { plot, words: list } = this.plots.get(name);
      if (answer.figures[name]) plot.draw(answer.figures[name]);
      else plot.say("Not in this run", "Nothing was drafted, or its engine does not record it.");
      this.tell(list, words.flatMap((word) => answer.sentences[word] || []));
    }
    fillSelect(this.model, answer.models, answer.model);
    fillSelect(this.device, answer.devices, answer.device);
    if (answer.elsewhere) this.elsewhere.plot.draw(answer.elsewhere);
    else this.elsewhere.plot.say("Nothing to predict", answer.misfit || "Nothing was drafted.");
    this.tell(this.elsewhere.words, [answer.caution]);
    write(this.priced, answer.flags.length ? `Best for this run by the cost on ${answer.priced}. Measure the cost (tab Cost) for the rig that answers.`
      : "None: other trees of this run are not known, or no cost is.");
    pasted(this.list, answer.flags);
  }

  tell(list, lines) {
    list.replaceChildren(...lines.map((line) => html("li", "", null, line)));
  }
}

// Flags of engines, each with a copy button and what is expected of it.
export function pasted(parent, flags) {
  parent.replaceChildren();
  flags.forEach(({ engine, flags: line, expected }, place) => {
    if (line) new Command(parent, engine).show(line);
    const next = flags[place + 1];
    if (!next || next.expected !== expected) html("p", "lab-note", parent, expected); // once, below all that it is true of
  });
}
