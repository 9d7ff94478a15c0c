// What the tabs share: a toolbar, what is drawn below it, and a button that begins a job of the server.

import { selectField } from "./forms.js";
import { Plot } from "./plots.js";
import { action, button, html, inTurn, pause, write } from "../shared/ink.js";

const BETWEEN_LOOKS_MS = 300;

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

  // A grid of plots, by name: `about` has a title and a caption for each.
  plotsIn(look, about) {
    const grid = html("div", `lab-grid ${look}`, this.pane);
    return Object.fromEntries(Object.entries(about).map(([name, [title, caption]]) => [name, new Plot(this.lab.library, grid, { name, title, caption })]));
  }
}

// A button that begins a measurement, a job of the server, and beside it the job's progress.
export class Begin {
  constructor({ lab, bar }, { label, title, act, look = "lab-primary", refused = lab.reason, ending = "Cancel", endingTitle = "Cancel and drop what was measured so far" }) {
    this.lab = lab;
    this.button = action(bar, label, refused || title, act, look);
    this.button.disabled = Boolean(refused);
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
