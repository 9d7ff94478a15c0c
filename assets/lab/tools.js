// What the tabs share that ask the server and draw its answer, and the short measurements: what a pass costs, what is
// wrong with the rig, how fast a server is. Each is a job of the server.

import { fillSelect, Flags, offer, selectField, tell } from "./forms.js";
import { drawAll, plotsIn } from "./plots.js";
import { action, button, html, inTurn, pause, write } from "../shared/ink.js";

const BETWEEN_LOOKS_MS = 300;
const GLYPHS = { wrong: "✕", suspicious: "▲", fine: "✓" };

// A tab: a toolbar, and below it what `redraw` draws whenever the tab is looked at or something new is known.
export class Tool {
  constructor(lab, pane) {
    this.lab = lab;
    this.pane = pane;
    this.bar = html("div", "lab-toolbar", pane);
    this.draw = inTurn(() => this.redraw()); // one question at a time, so that no answer is overtaken by an older one
  }

  async redraw() {}

  select(label, title) {
    return selectField(this.bar, label, title, () => this.draw());
  }

  note(role) {
    return html("p", { class: "lab-note", role }, this.bar);
  }

  plotsIn(look, about) {
    return plotsIn(this.lab, this.pane, look, about);
  }
}

// A button that begins a measurement, a job of the server, and beside it the job's progress.
export class Begin {
  constructor(tool, label, title, act, [ending, endingTitle] = ["Cancel", "Cancel and drop what was measured so far"]) {
    const { lab, bar } = tool;
    this.lab = lab;
    this.button = action(bar, label, title, act, "lab-primary");
    this.cancel = button(bar, ending, endingTitle, () => this.stop());
    this.bar = html("progress", { class: "lab-job-bar", "aria-label": "Progress" }, bar);
    this.cancel.hidden = this.bar.hidden = true;
    this.status = html("p", { class: "lab-said", role: "status" }, bar);
  }

  hear(job) {
    write(this.status, job.message || (job.total ? `${job.done} of ${job.total} runs` : ""));
    this.cancel.hidden = false;
    this.bar.hidden = job.share === null;
    this.bar.value = job.share || 0;
  }

  async stop() {
    write(this.status, "Stopping after the current step …");
    await this.lab.ask("lab_job", { job: this.job, stop: true });
  }

  // Begins the job and waits for it. Returns the result or {error}, which is shown.
  async run(name, wanted) {
    this.button.disabled = true;
    this.tell("Asking …");
    const answer = await this.answered(name, wanted);
    this.tell(answer.error || (answer.state === "stopped" ? "Stopped." : ""), Boolean(answer.error));
    this.button.disabled = false;
    this.bar.hidden = this.cancel.hidden = true;
    return answer;
  }

  // As `run`, of the run on the stage.
  async replay(name) {
    const { stage, unasked } = this.lab;
    if (stage.header && !unasked) return this.run(name, { run: stage.value.run });
    const error = "Open a recording or press Run first: the prediction replays the text of a run.";
    this.tell(error, true);
    return { error };
  }

  async answered(name, wanted) {
    const { job: id, error } = await this.lab.ask(name, wanted);
    if (error) return { error };
    this.job = id;
    for (;;) {
      const job = await this.lab.ask("lab_job", { job: id });
      if (job.error) return job;
      if (job.state === "error") return { error: job.message };
      if (job.state === "done" || job.state === "stopped") return { ...job.result, state: job.state };
      this.hear(job);
      await pause(BETWEEN_LOOKS_MS);
    }
  }

  tell(message, wrong = false) {
    this.status.classList.toggle("is-error", wrong);
    write(this.status, message);
  }
}

export class Cost extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.begin = new Begin(this, "Measure the cost", "Times forward passes of every size at the length of the current run, then replays its text", () => this.predict());
    this.line = this.select("Method", "The method whose nodes are shown");
    offer(this.line, false);
    this.about = this.note();
    this.doubt = html("p", { class: "lab-notice", hidden: true }, pane);
    this.plots = this.plotsIn("lab-two", {
      cost: ["What a pass costs", "Milliseconds of one forward {pass} of the target by its number of rows, measured on this machine; the band holds eight passes in ten."],
      gain: ["What a node gains", "Tokens that one more node adds to a {round}, against what its row costs: nodes pay while the gain is above the cost, and the curves cross at the best budget, {predicted}."],
    });
  }

  // From the current run: what a pass costs here, and what every budget would have achieved.
  async predict() {
    const { lab, begin } = this;
    lab.budget.predicting(true);
    const { what_if: prediction, departures, error } = await begin.replay("lab_what_if");
    lab.budget.predicting(false);
    lab.sweep.fail(error || "");
    if (!prediction) return;
    lab.prediction = prediction;
    if (departures) begin.tell(`Because of rounding, the target would choose another token at ${departures} places of this text, so τ is not exact.`);
    await lab.load();
  }

  async redraw() {
    const { lab, line } = this;
    const answer = lab.prediction ? await lab.ask("lab_cost", { what_if: lab.prediction, line: line.value }) : {};
    drawAll(this.plots, answer, () => ["Not measured yet", answer.error || "Press Measure the cost: it takes a few seconds and uses the current run."]);
    if (!answer.cost) return;
    offer(line, true);
    fillSelect(line, answer.lines, answer.line);
    write(this.about, answer.about);
    tell(this.doubt, answer.withheld);
  }
}

export class Doctor extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.begin = new Begin(this, "Examine the rig", "Runs every drafter as configured and with each common mistake in its configuration; can take minutes", () => this.examine());
    this.counts = this.note();
    this.list = html("ul", { class: "lab-findings", tabIndex: 0, "aria-label": "Findings" }, pane);
    html("li", "lab-note", this.list, "Why is τ low? This checks taps, mask token, slot 0, RoPE, dtype, vocabulary, chat template and the acceptance at every position, each with a figure.");
  }

  async examine() {
    const { findings } = await this.begin.run("lab_doctor", {});
    if (!findings) return;
    const counts = ["wrong", "suspicious", "fine"].map((status) => `${findings.filter((finding) => finding.status === status).length} ${status}`);
    write(this.counts, `${counts.join(", ")}.`);
    this.list.replaceChildren(...findings.map((finding) => this.finding(finding)));
  }

  finding({ name, drafter, status, seen, advice }) {
    const item = html("li", "lab-finding");
    item.dataset.status = status;
    html("span", { class: "lab-verdict-glyph", title: status }, item, GLYPHS[status]);
    const text = html("div", "", item);
    html("strong", "", text, name);
    html("span", "lab-tag", text, status);
    if (drafter) html("small", "", text, drafter);
    html("p", "", text, seen);
    if (advice) html("p", "lab-advice", text, `→ ${advice}`);
    return item;
  }
}

// An attached server: its counters while the tab is open, and its speed by requests at once, measured on request.
const BETWEEN_COUNTS_MS = 2000;

export class Server extends Tool {
  constructor(lab, pane) {
    super(lab, pane);
    this.begin = new Begin(this, "Measure requests at once",
      "Sends prompts of the chosen set to this server, 1, 2, 4, 8 and 16 at once, 64 tokens each", () => this.measure());
    this.set = this.select("Prompts", "The set whose prompts are sent");
    fillSelect(this.set, lab.given.options.sets.map(({ name, title }) => [name, title]), "bench");
    this.about = this.note("status");
    const { concurrency, ...counters } = this.plotsIn("lab-three", {
      traffic: ["All requests to the server", "{τ} and tokens per second between two readings of the server's counters."],
      places: ["Acceptance by position", "The share of drafts in which the token at each position was accepted, since this tab was first opened."],
      concurrency: ["Concurrency", "Tokens per second of all requests together, and the median time of one."],
    });
    this.concurrency = concurrency;
    this.counters = counters;
    this.silence = html("p", { class: "lab-notice", role: "status", hidden: true }, pane);
    this.flags = new Flags("Draft length, by its own counts", pane);
    this.flags.box.hidden = true;
    this.concurrency.say("Not measured yet", "Press Measure requests at once: it keeps the server busy for up to a few minutes.");
  }

  // Reads the counters for as long as the tab is shown.
  async redraw() {
    clearTimeout(this.timer);
    if (!this.lab.shown || this.lab.tab !== "server") return;
    this.show(await this.lab.ask("lab_server_look", {}, "The page's server does not answer; trying again."));
    this.timer = setTimeout(() => this.draw(), BETWEEN_COUNTS_MS);
  }

  show({ about, error, silence, flags = [], ...figures }) {
    write(this.about, error || about);
    tell(this.silence, silence);
    this.flags.box.hidden = !flags.length;
    this.flags.show(flags);
    drawAll(this.counters, figures, (name) => (name === "traffic" ? ["Nothing to compare yet", error || "This takes two readings, two seconds apart."]
      : ["Not counted by this server", error || "Or nothing was drafted yet."]));
  }

  async measure() {
    const { error, figure, about } = await this.begin.run("lab_server_concurrency", { set: this.set.value });
    if (error) return;
    if (figure) this.concurrency.draw(figure);
    else this.concurrency.say("Nothing was measured", about || "It was stopped.");
    if (about) this.begin.tell(about, true);
  }
}
