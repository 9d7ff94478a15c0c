// The parts that tabs share: a toolbar, plots, and a button that starts a job of the server.

import { selectField } from "./forms.js";
import { Plot } from "./plots.js";
import { action, button, html, oneAtATime, write } from "../shared/ink.js";
import { jobEnd } from "../shared/lines.js";

// A tab with a toolbar. `redraw` is called when the tab is opened, and when new data arrive.
export class Tool {
  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    this.lab = lab;
    this.pane = pane;
    this.bar = html("div", "lab-toolbar", pane);
    this.draw = oneAtATime(() => this.redraw()); // so that an older answer never replaces a newer one
  }

  async redraw() {}

  addSelect(/** @type {string} */ label, /** @type {string} */ title) {
    return selectField(this.bar, label, title, () => this.draw());
  }

  // A line about the figures, read aloud when it changes.
  addNote() {
    return html("p", { class: "lab-note", role: "status" }, this.bar);
  }

  /** A grid of plots, by name: `about` has a title and a caption for each.
   *  @template {string} Name @param {string} className @param {Record<Name, [title: string, caption: string]>} about @param {Element} parent */
  plotsIn(className, about, parent = this.pane) {
    const grid = html("div", `lab-grid ${className}`, parent);
    const plots = /** @type {Record<Name, Plot>} */ ({});
    for (const name in about) {
      const [title, caption] = about[name];
      plots[name] = new Plot(this.lab, grid, name, title, caption);
    }
    return plots;
  }
}

// A button that starts a job of the server; shows its progress and a button to cancel it.
export class JobButton {
  job = "";

  /** `refused` says why the job cannot start.
   *  @param {Tool} tool
   *  @param {{ label: string, title: string, act: () => unknown, className?: string, refused?: string, ending?: string, endingTitle?: string }} about */
  constructor({ lab, bar }, { label, title, act, className = "lab-primary", refused = lab.reason, ending = "Cancel", endingTitle = "Cancel and drop what was measured so far" }) {
    this.lab = lab;
    this.button = action(bar, label, refused || title, act, className);
    this.button.disabled = Boolean(refused);
    this.cancel = button(bar, ending, endingTitle, () => {
      write(this.status, "Stopping after the current step …");
      return lab.ask("lab_job", { job: this.job, stop: true });
    });
    this.bar = html("progress", { class: "lab-job-bar", "aria-label": "Progress" }, bar);
    this.cancel.hidden = this.bar.hidden = true;
    this.status = html("p", { class: "lab-said", role: "status" }, bar);
  }

  /** Begins the job and waits for it. An error is shown; a job that was stopped may have no result.
   *  @template {keyof JobResults} Name @param {Name} name @param {object} query
   *  @returns {Promise<{ result: JobResults[Name] | null, error: string }>} */
  async run(name, query) {
    this.button.disabled = true;
    this.showStatus("Asking …");
    const poll = (/** @type {{ job: string }} */ { job }) => {
      this.job = job;
      return this.lab.ask("lab_job", { job });
    };
    const job = await jobEnd(this.lab.ask(name, query), poll, ({ message, done, total, share }) => {
      write(this.status, message || (total ? `${done} of ${total} runs` : ""));
      this.cancel.hidden = false;
      this.bar.hidden = share === null;
      this.bar.value = share || 0;
    });
    const error = "error" in job ? job.error : job.state === "error" ? job.message : "";
    const stopped = "state" in job && job.state === "stopped";
    this.showStatus(error || (stopped ? "Stopped." : ""), Boolean(error));
    this.button.disabled = false;
    this.bar.hidden = this.cancel.hidden = true;
    return { result: error || !("result" in job) ? null : /** @type {JobResults[Name] | null} */ (job.result), error };
  }

  /** @param {string} message @param {boolean} [wrong] */
  showStatus(message, wrong = false) {
    this.status.classList.toggle("is-error", wrong);
    write(this.status, message);
  }
}
