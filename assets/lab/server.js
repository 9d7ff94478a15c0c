// An attached server: its counters while the tab is open, and its speed by requests at once, measured on request.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const BETWEEN_LOOKS_MS = 2000;

  class Server {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      const bar = html("div", "lab-toolbar", parent);
      this.begin = new Lab.Begin(lab.server, bar, "Measure requests at once",
        "Sends prompts of the chosen set to this server, 1, 2, 4, 8 and 16 at once, 64 tokens each", () => this.measure(), "lab_server_job");
      this.set = Lab.select(bar, "Prompts", "The set whose prompts are sent", () => {});
      Lab.options(this.set, lab.given.options.sets.map(({ name, title }) => [name, title]), "bench");
      this.about = html("p", "lab-note", bar);
      this.about.setAttribute("role", "status");
      const grid = html("div", "lab-grid lab-three", parent);
      this.traffic = new Lab.Plot(lab.library, grid, {
        name: "traffic", title: "All requests to the server", caption: "{τ} and tokens per second between two readings of the server's counters.",
      });
      this.places = new Lab.Plot(lab.library, grid, {
        name: "places", title: "Acceptance by position", caption: "The share of drafts in which the token at each position was accepted, since this tab was first opened.",
      });
      this.load = new Lab.Plot(lab.library, grid, {
        name: "load", title: "Requests at once", caption: "Tokens per second of all requests together, and the median time of one.",
      });
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
        Canopy.ink.write(this.about, "The page's server does not answer; trying again.");
      }
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.draw(), BETWEEN_LOOKS_MS);
    }

    show(answer) {
      Canopy.ink.write(this.about, answer.error || answer.about);
      const figures = [["traffic", "Nothing to compare yet", "This takes two readings, two seconds apart."],
        ["places", "Not counted by this server", "Or nothing was drafted yet."]];
      for (const [name, headline, more] of figures) {
        if (answer[name]) this[name].draw(answer[name]);
        else this[name].say(headline, answer.error || more);
      }
    }

    async measure() {
      const { server } = this.lab;
      const answer = await this.begin.during((tell) => Lab.work(server, () => server.lab_server_load({ set: this.set.value }), tell, "lab_server_job"));
      if (answer.error) return;
      if (answer.load) this.load.draw(answer.load);
      else this.load.say("Nothing was measured", answer.about || "It was stopped.");
      if (answer.about) this.begin.tell(answer.about, true);
    }
  }

  Lab.Server = Server;
})(window.Canopy = window.Canopy || {});
