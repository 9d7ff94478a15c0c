// The short measurements: what a pass costs, what is wrong with the rig, how fast a server is. Each is a job of the server.

import { paste, pasteCard } from "./acceptance.js";
import { fillSelect, offer, selectField, tell } from "./forms.js";
import { drawAll, plotsIn } from "./plots.js";
import { action, button, html, pause, write } from "../panels/ink.js";

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
    write(this.said, job.message || (job.total ? `${job.done} of ${job.total} runs` : ""));
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
    this.tell("Asking …");
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

  tell(message, wrong = false) {
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
    offer(this.line, false);
    this.about = html("p", "lab-note", bar);
    this.doubt = html("p", { class: "lab-notice", hidden: true }, parent);
    this.plots = plotsIn(lab, parent, "lab-two", {
      cost: ["What a pass costs", "Milliseconds of one forward {pass} of the target by its number of rows, measured on this machine; the band holds eight passes in ten."],
      gain: ["What a node gains", "Tokens that one more node adds to a {round}, against what its row costs: nodes pay while the gain is above the cost, and the curves cross at the best budget, {predicted}."],
    });
  }

  async draw() {
    const { prediction, server } = this.lab;
    const answer = prediction ? await server.lab_cost({ what_if: prediction, line: this.line.value }) : {};
    drawAll(this.plots, answer, () => ["Not measured yet", answer.error || "Press Measure the cost: it takes a few seconds and uses the current run."]);
    if (!answer.cost) return;
    offer(this.line, true);
    fillSelect(this.line, answer.lines, answer.line);
    write(this.about, answer.about);
    tell(this.doubt, answer.withheld);
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
    const { findings } = await this.begin.run(() => this.lab.server.lab_doctor({}));
    if (!findings) return;
    const counts = ["wrong", "suspicious", "fine"].map((status) => `${findings.filter((finding) => finding.status === status).length} ${status}`);
    write(this.counts, `${counts.join(", ")}.`);
    this.list.replaceChildren(...findings.map((finding) => this.finding(finding)));
  }

  finding({ name, head, status, seen, advice }) {
    const item = html("li", "lab-finding");
    item.dataset.status = status;
    html("span", { class: "lab-verdict-glyph", title: status }, item, GLYPHS[status]);
    const text = html("div", "", item);
    html("strong", "", text, name);
    html("span", "lab-tag", text, status);
    if (head) html("small", "", text, head);
    html("p", "", text, seen);
    if (advice) html("p", "lab-advice", text, `→ ${advice}`);
    return item;
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
    const { concurrency, ...counters } = plotsIn(lab, parent, "lab-three", {
      traffic: ["All requests to the server", "{τ} and tokens per second between two readings of the server's counters."],
      places: ["Acceptance by position", "The share of drafts in which the token at each position was accepted, since this tab was first opened."],
      concurrency: ["Concurrency", "Tokens per second of all requests together, and the median time of one."],
    });
    this.concurrency = concurrency;
    this.counters = counters;
    this.silence = html("p", { class: "lab-notice", role: "status", hidden: true }, parent);
    this.flags = pasteCard("Draft length, by its own counts", parent);
    this.flags.hidden = true;
    this.list = html("div", "", this.flags);
    this.concurrency.say("Not measured yet", "Press Measure requests at once: it keeps the server busy for up to a few minutes.");
  }

  // Reads the counters for as long as the tab is shown.
  async draw() {
    clearTimeout(this.timer);
    if (!this.lab.shown || this.lab.tab !== "server") return;
    try {
      this.show(await this.lab.server.lab_server_look({}));
    } catch {
      write(this.about, "The page's server does not answer; trying again.");
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), BETWEEN_COUNTS_MS);
  }

  show(answer) {
    write(this.about, answer.error || answer.about);
    tell(this.silence, answer.silence);
    const { flags = [] } = answer;
    this.flags.hidden = !flags.length;
    if (JSON.stringify(flags) !== this.said) paste(this.list, flags);
    this.said = JSON.stringify(flags);
    drawAll(this.counters, answer, (name) => (name === "traffic" ? ["Nothing to compare yet", answer.error || "This takes two readings, two seconds apart."]
      : ["Not counted by this server", answer.error || "Or nothing was drafted yet."]));
  }

  async measure() {
    const answer = await this.begin.run(() => this.lab.server.lab_server_concurrency({ set: this.set.value }));
    if (answer.error) return;
    if (answer.figure) this.concurrency.draw(answer.figure);
    else this.concurrency.say("Nothing was measured", answer.about || "It was stopped.");
    if (answer.about) this.begin.tell(answer.about, true);
  }
}
