// The short measurements: what a pass costs, and what is wrong with the rig. Each is a job of the server.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const BETWEEN_LOOKS_MS = 300;
  const GLYPHS = { wrong: "✕", suspicious: "▲", fine: "✓" };

  // Begins a job and waits for it. `tell` is called with its progress; returns the result or {error}.
  Lab.work = async function work(server, begin, tell, look = "lab_job") {
    const begun = await begin();
    if (begun.error) return begun;
    for (;;) {
      const job = await server[look]({ job: begun.job });
      if (job.error) return job;
      if (job.state === "error") return { error: job.message };
      if (job.state === "done" || job.state === "stopped") return { ...job.result, state: job.state };
      tell({ ...job, name: begun.job });
      await new Promise((done) => setTimeout(done, BETWEEN_LOOKS_MS));
    }
  };

  // A button that begins a measurement, and the line beside it with its progress.
  class Begin {
    constructor(server, parent, label, title, act, look = "lab_job") {
      const { html } = Canopy.ink;
      this.server = server;
      this.look = look;
      this.button = html("button", "lab-primary", parent, label);
      this.button.type = "button";
      this.button.title = title;
      this.cancel = Canopy.ink.button(parent, "Cancel", "Cancel and drop what was measured so far", () => this.stop());
      this.bar = html("progress", "lab-job-bar", parent);
      this.bar.setAttribute("aria-label", "Progress");
      this.cancel.hidden = this.bar.hidden = true;
      this.said = html("p", "lab-said", parent);
      this.said.setAttribute("role", "status");
      this.button.addEventListener("click", act);
    }

    // A measurement that reports its progress can be cancelled between two steps.
    hear(job) {
      const far = job.total ? `${job.done} of ${job.total} runs` : "";
      Canopy.ink.write(this.said, job.message || far);
      this.job = job.name;
      this.bar.hidden = this.cancel.hidden = job.share === null;
      if (job.share !== null) this.bar.value = job.share;
    }

    async stop() {
      this.cancel.hidden = true;
      Canopy.ink.write(this.said, "Stopping after the current step …");
      await this.server[this.look]({ job: this.job, stop: true });
    }

    async during(measuring) {
      this.button.disabled = true;
      this.said.classList.remove("is-error");
      Canopy.ink.write(this.said, "Asking …");
      try {
        const answer = await measuring((job) => this.hear(job));
        this.tell(answer.error || (answer.state === "stopped" ? "Stopped." : ""), Boolean(answer.error));
        return answer;
      } catch {
        const error = "The server does not answer; try again.";
        this.tell(error, true);
        return { error };
      } finally {
        this.button.disabled = false;
        this.bar.hidden = this.cancel.hidden = true;
      }
    }

    tell(message, wrong) {
      this.said.classList.toggle("is-error", wrong);
      Canopy.ink.write(this.said, message);
    }
  }

  class Cost {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      const bar = html("div", "lab-toolbar", parent);
      this.begin = new Begin(lab.server, bar, "Measure the cost", "Times forward passes of every size at the length of the current run, then replays its text", () => lab.predict());
      this.line = Lab.select(bar, "Method", "The method whose nodes are shown", () => this.draw());
      this.line.parentElement.hidden = true;
      this.about = html("p", "lab-note", bar);
      this.doubt = html("p", "lab-notice", parent);
      this.doubt.hidden = true;
      const grid = html("div", "lab-grid lab-two", parent);
      this.cost = new Lab.Plot(lab.library, grid, {
        name: "cost", title: "What a pass costs",
        caption: "Milliseconds of one forward {pass} of the target by its number of rows, measured on this machine; the band holds eight passes in ten.",
      });
      this.gain = new Lab.Plot(lab.library, grid, {
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
      Lab.options(this.line, answer.lines.map((line) => [line, line]), answer.line);
      Canopy.ink.write(this.about, answer.about);
      this.doubt.hidden = !answer.withheld;
      Canopy.ink.write(this.doubt, answer.withheld);
      this.cost.draw(answer.cost);
      this.gain.draw(answer.gain);
    }
  }

  class Doctor {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      const bar = html("div", "lab-toolbar", parent);
      this.begin = new Begin(lab.server, bar, "Examine the rig", "Runs every drafter as configured and with each common mistake in its configuration; can take minutes", () => this.examine());
      this.counts = html("p", "lab-note", bar);
      this.list = html("ul", "lab-findings", parent);
      this.list.tabIndex = 0;
      this.list.setAttribute("aria-label", "Findings");
      html("li", "lab-note", this.list, "Why is τ low? This checks taps, mask token, slot 0, RoPE, dtype, vocabulary, chat template and the acceptance at every position, each with a figure.");
    }

    draw() {}

    async examine() {
      const answer = await this.begin.during((tell) => Lab.work(this.lab.server, () => this.lab.server.lab_doctor({}), tell));
      if (answer.error || !answer.findings) return;
      const count = (status) => answer.findings.filter((finding) => finding.status === status).length;
      Canopy.ink.write(this.counts, `${count("wrong")} wrong, ${count("suspicious")} suspicious, ${count("fine")} fine.`);
      this.list.replaceChildren(...answer.findings.map((finding) => this.finding(finding)));
    }

    finding({ name, head, status, seen, advice }) {
      const { html } = Canopy.ink;
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

  Object.assign(Lab, { Begin, Cost, Doctor });
})(window.Canopy = window.Canopy || {});
