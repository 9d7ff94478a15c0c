// The short measurements: what a pass costs, and what is wrong with the rig. Each is a job of the server.

import { pasted } from "./anatomy.js";
import { fillSelect, selectField } from "./forms.js";
import { Plot } from "./plots.js";
import { action, button, html, pause, sparing, write } from "../panels/ink.js";

const BETWEEN_LOOKS_MS = 300;
const GLYPHS = { wrong: "✕", suspicious: "▲", fine: "✓" };

// A button that begins a measurement, and the line beside it with its progress.
export class Begin {
  constructor(server, parent, label, title, act) {
    this.server = server;
    this.button = action(parent, label, title, act, "lab-primary");
    this.cancel = button(parent, "Cancel", "Cancel and drop what was measured so far", () => this.stop());
    this.bar = html("progress", { class: "lab-job-bar", "aria-label": "Progress" }, parent);
    this.cancel.hidden = this.bar.hidden = true;
    this.said = html("p", { class: "lab-said", role: "status" }, parent);
  }

  // A measurement that reports its progress can be cancelled between two steps.
  hear(job) {
    const far = job.total ? `${job.done} of ${job.total} runs` : "";
    write(this.said, job.message || far);
    this.job = job.name;
    this.bar.hidden = this.cancel.hidden = job.share === null;
    if (job.share !== null) this.bar.value = job.share;
  }

  async stop() {
    this.cancel.hidden = true;
    write(this.said, "Stopping after the current step …");
    await this.server.lab_job({ job: this.job, stop: true });
  }

  // Begins a job and waits for it; `hear` is called with its progress. Returns the result or {error}, which is said.
  async run(begin, hear = (job) => this.hear(job)) {
    this.button.disabled = true;
    this.said.classList.remove("is-error");
    write(this.said, "Asking …");
    const answer = await this.answered(begin, hear);
    this.tell(answer.error || (answer.state === "stopped" ? "Stopped." : ""), Boolean(answer.error));
    this.button.disabled = false;
    this.bar.hidden = this.cancel.hidden = true;
    return answer;
  }

  async answered(begin, hear) {
    try {
      const begun = await begin();
      if (begun.error) return begun;
      for (;;) {
        const job = await this.server.lab_job({ job: begun.job });
        if (job.error) return job;
        if (job.state === "error") return { error: job.message };
        if (job.state === "done" || job.state === "stopped") return { ...job.result, state: job.state };
        hear({ ...job, name: begun.job });
        await pause(BETWEEN_LOOKS_MS);
      }
    } catch {
      return { error: "The server does not answer; try again." };
    }
  }

  tell(message, wrong) {
    this.said.classList.toggle("is-error", wrong);
    write(this.said, message);
  }
}

export class Cost {
  constructor(lab, parent) {
    this.lab = lab;
    const bar = html("div", "lab-toolbar", parent);
    this.begin = new Begin(lab.server, bar, "Measure the cost", "Times forward passes of every size at the length of the current run, then replays its text", () => lab.predict());
    this.line = selectField(bar, "Method", "The method whose nodes are shown", () => this.draw());
    this.line.parentElement.hidden = true;
    this.about = html("p", "lab-note", bar);
    this.doubt = html("p", { class: "lab-notice", hidden: true }, parent);
    const grid = html("div", "lab-grid lab-two", parent);
    this.cost = new Plot(lab.library, grid, {
      name: "cost", title: "What a pass costs",
      caption: "Milliseconds of one forward {pass} of the target by its number of rows, measured on this machine; the band holds eight passes in ten.",
    });
    this.gain = new Plot(lab.library, grid, {
      name: "gain", title: "What a node gains",
      caption: "Tokens that one more node adds to a {round}, against what its row costs: nodes pay while the gain is above the cost, and the curves cross at the best budget, {predicted}.",
    });
  }

  async draw() {
    const { prediction, server } = this.lab;
    const answer = prediction ? await server.lab_cost({ what_if: prediction, line: this.line.value }) : { error: "" };
    if (answer.error !== undefined) {
      for (const plot of [this.cost, this.gain]) plot.say("Not measured yet", answer.error || "Press Measure the cost: it takes a few seconds and uses the current run.");
      return;
    }
    this.line.parentElement.hidden = false;
    fillSelect(this.line, answer.lines, answer.line);
    write(this.about, answer.about);
    this.doubt.hidden = !answer.withheld;
    write(this.doubt, answer.withheld);
    this.cost.draw(answer.cost);
    this.gain.draw(answer.gain);
  }
}

export class Doctor {
  constructor(lab, parent) {
    this.lab = lab;
    const bar = html("div", "lab-toolbar", parent);
    this.begin = new Begin(lab.server, bar, "Examine the rig", "Runs every drafter as configured and with each common mistake in its configuration; can take minutes", () => this.examine());
    this.counts = html("p", "lab-note", bar);
    this.list = html("ul", { class: "lab-findings", tabIndex: 0, "aria-label": "Findings" }, parent);
    html("li", "lab-note", this.list, "Why is τ low? This checks taps, mask token, slot 0, RoPE, dtype, vocabulary, chat template and the acceptance at every position, each with a figure.");
  }

  async examine() {
    const answer = await this.begin.run(() => this.lab.server.lab_doctor({}));
    if (answer.error || !answer.findings) return;
    const count = (status) => answer.findings.filter((finding) => finding.status === status).length;
    write(this.counts, `${count("wrong")} wrong, ${count("suspicious")} suspicious, ${count("fine")} fine.`);
    this.list.replaceChildren(...answer.findings.map((finding) => this.finding(finding)));
  }

  finding({ name, head, status, seen, advice }) {
    const item = html("li", "lab-finding");
    item.dataset.status = status;
    html("span", "lab-verdict-glyph", item, GLYPHS[status]).title = status;
    const text = html("div", "", item);
    html("strong", "", text, name);
    html("span", "lab-tag", text, status);
    if (head) html("small", "", text, head);
    html("p", "", text, seen);
    if (advice) html("p", "lab-advice", text, `→ ${advice}`);
    return item;
  }
}

// What rounds are like: their acceptance lengths, which proposals are accepted, and how well the drafter is calibrated.
const MOST_SHOWN = 8;

export class Shapes {
  constructor(lab, parent) {
    this.lab = lab;
    this.stage = lab.stage;
    this.bar = html("div", "lab-toolbar", parent);
    this.source = selectField(this.bar, "Rounds of", "The measurement or run whose rounds are drawn", () => this.draw());
    this.budget = selectField(this.bar, "Node budget", "The budget at which methods are compared", () => this.draw());
    this.method = selectField(this.bar, "Method of the map", "The method whose proposals the plot in the middle shows", () => this.draw());
    this.grid = html("div", "lab-grid lab-three", parent);
    this.plots = {
      histogram: new Plot(lab.library, this.grid, {
        name: "histogram", title: "Acceptance lengths",
        caption: "The share of rounds that added so many tokens; the mean of each line is its {τ}.",
      }),
      map: new Plot(lab.library, this.grid, {
        name: "map", title: "Depth and rank",
        caption: "Of the proposals that verification reached, the percentage that was accepted, by {depth} and {rank}.",
      }),
      calibration: new Plot(lab.library, this.grid, {
        name: "calibration", title: "Calibration",
        caption: "Expected tokens per round, 1 + {Σq}, against the tokens that were added; below the diagonal the drafter is over-confident.",
      }),
    };
    const plan = sparing(() => lab.shown && lab.tab === "shapes" && this.draw(), 600);
    this.stage.on("state", plan);
    lab.on("table", plan);
  }

  choices() {
    const { table, progress } = this.lab;
    const whence = progress.other_rig || (progress.recorded ? "recorded measurement" : `measurement ${progress.sweep}`);
    const run = this.stage.header && this.stage.rounds.length && !this.lab.unasked ? [["run", this.lab.runRig ? `current run, of ${this.lab.runRig}` : "current run"]] : [];
    const sweep = table && table.rows.length ? [["sweep", whence]] : [];
    fillSelect(this.source, [...sweep, ...run]);
    const swept = this.source.value === "sweep";
    this.cells(swept ? table.rows.filter((row) => row.budget > 0) : [], (table && table.best) || { nodes: "", line: "" });
    this.budget.parentElement.hidden = this.method.parentElement.hidden = !swept;
  }

  // The budgets of a measurement's rows, and the lines of the chosen one.
  cells(rows, best) {
    const rank = (nodes) => (nodes === "auto" ? Infinity : Number(nodes));
    const budgets = [...new Set(rows.map((row) => row.nodes))].sort((one, other) => rank(one) - rank(other));
    fillSelect(this.budget, budgets, this.budget.value || best.nodes);
    const lines = rows.filter((row) => row.nodes === this.budget.value).map((row) => row.line);
    fillSelect(this.method, lines, this.method.value || best.line);
  }

  async draw() {
    this.choices();
    if (!this.source.value) {
      for (const plot of Object.values(this.plots)) plot.say("No rounds yet", "Press Run, or Measure.");
      return;
    }
    this.grid.classList.toggle("is-other-rig", Boolean(this.source.value === "run" ? this.lab.runRig : this.lab.progress.other_rig));
    const wanted = this.source.value === "run" ? { run: this.stage.value.run }
      : { sweep: this.lab.progress.sweep, nodes: this.budget.value, line: this.method.value, most: MOST_SHOWN };
    const answer = await this.lab.server.lab_shapes(wanted);
    for (const [name, plot] of Object.entries(this.plots)) {
      if (answer.error) plot.say("Nothing to draw", answer.error);
      else if (!answer[name] && answer.histogram) plot.say("Not recorded by this engine", "recorder.round(…, logprobs): what the drafter believed of each node.");
      else if (!answer[name]) plot.say("Nothing was drafted", "Plain decoding has one token a round and no drafter to judge.");
      else plot.draw(answer[name]);
    }
  }
}

// An attached server: its counters while the tab is open, and its speed by requests at once, measured on request.
const BETWEEN_COUNTS_MS = 2000;

export class Server {
  constructor(lab, parent) {
    this.lab = lab;
    const bar = html("div", "lab-toolbar", parent);
    this.begin = new Begin(lab.server, bar, "Measure requests at once",
      "Sends prompts of the chosen set to this server, 1, 2, 4, 8 and 16 at once, 64 tokens each", () => this.measure());
    this.set = selectField(bar, "Prompts", "The set whose prompts are sent", () => {});
    fillSelect(this.set, lab.given.options.sets.map(({ name, title }) => [name, title]), "bench");
    this.about = html("p", { class: "lab-note", role: "status" }, bar);
    const grid = html("div", "lab-grid lab-three", parent);
    this.traffic = new Plot(lab.library, grid, {
      name: "traffic", title: "All requests to the server", caption: "{τ} and tokens per second between two readings of the server's counters.",
    });
    this.places = new Plot(lab.library, grid, {
      name: "places", title: "Acceptance by position", caption: "The share of drafts in which the token at each position was accepted, since this tab was first opened.",
    });
    this.load = new Plot(lab.library, grid, {
      name: "load", title: "Concurrency", caption: "Tokens per second of all requests together, and the median time of one.",
    });
    this.silence = html("p", { class: "lab-notice", role: "status", hidden: true }, parent);
    this.flags = html("section", { class: "lab-card lab-paste", "aria-label": "Flags to paste", hidden: true }, parent);
    html("h3", "", this.flags, "Draft length, by its own counts");
    this.pasted = html("div", "", this.flags);
    this.load.say("Not measured yet", "Press Measure requests at once: it keeps the server busy for up to a few minutes.");
  }

  // Reads the counters for as long as the tab is shown.
  async draw() {
    clearTimeout(this.timer);
    if (!this.lab.shown || this.lab.tab !== "server") return;
    try {
      const answer = await this.lab.server.lab_server_look({});
      this.show(answer);
    } catch {
      write(this.about, "The page's server does not answer; trying again.");
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), BETWEEN_COUNTS_MS);
  }

  show(answer) {
    write(this.about, answer.error || answer.about);
    write(this.silence, answer.silence);
    this.silence.hidden = !answer.silence;
    const { flags = [] } = answer;
    this.flags.hidden = !flags.length;
    if (JSON.stringify(flags) !== this.said) pasted(this.pasted, flags);
    this.said = JSON.stringify(flags);
    const figures = [["traffic", "Nothing to compare yet", "This takes two readings, two seconds apart."],
      ["places", "Not counted by this server", "Or nothing was drafted yet."]];
    for (const [name, headline, more] of figures) {
      if (answer[name]) this[name].draw(answer[name]);
      else this[name].say(headline, answer.error || more);
    }
  }

  async measure() {
    const { server } = this.lab;
    const answer = await this.begin.run(() => server.lab_server_load({ set: this.set.value }));
    if (answer.error) return;
    if (answer.load) this.load.draw(answer.load);
    else this.load.say("Nothing was measured", answer.about || "It was stopped.");
    if (answer.about) this.begin.tell(answer.about, true);
  }
}
