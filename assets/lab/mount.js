// The lab as one view: what to measure at the left, what came of it at the right, in tabs.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const BUSY_MS = 500;
  const IDLE_MS = 4000;
  const NOTHING = { sweep: null, state: "none", message: "", done: 0, total: 0, failed: 0, seconds_left: null, recorded: null, other_rig: "", sweeps: [], command: "" };

  class View {
    constructor(stage, host, server, given, adopt) {
      this.stage = stage;
      this.host = host;
      this.server = server;
      this.given = given;
      this.adopt = adopt;
      this.said = null; // where the bar of the tabs tells what was done
      this.listeners = new Map();
      this.live = given.live;
      this.reason = given.reason;
      this.library = new Lab.Library(server);
      this.points = new Lab.Points(stage);
      this.progress = NOTHING;
      this.table = this.curves = null;
      this.counts = [1]; // the measured numbers of requests at once; below, the one shown and the one asked for
      this.together = 1;
      this.asked = null;
      this.build();
      this.points.on(() => this.load());
      stage.on("mode", () => this.show());
      new ResizeObserver(() => this.fit()).observe(document.getElementById("canopy-settings") || document.body);
      this.show();
    }

    on(event, listener) {
      this.listeners.set(event, [...(this.listeners.get(event) || []), listener]);
    }

    tell(event) {
      for (const listener of this.listeners.get(event) || []) listener();
    }

    look(method) {
      return this.given.looks[method] || this.given.looks[""];
    }

    can(what) {
      return this.given.tools.includes(what);
    }

    // Whether the run on the stage is one of another rig that nobody asked for: the recording that the page opens with.
    get unasked() {
      const { header, value } = this.stage;
      return this.runRig !== "" && value.run === this.given.opening && Boolean(header);
    }

    // The rig of the run on the stage, where that is another one than the rig that answers.
    get runRig() {
      const { header } = this.stage;
      return header && header.rig !== this.given.rig ? header.rig : "";
    }

    get shown() {
      return this.stage.mode === "lab";
    }

    build() {
      const { html } = Canopy.ink;
      this.root = html("div", "lab", this.host);
      const side = html("aside", "lab-side", this.root);
      this.main = html("div", "lab-main", this.root);
      this.verdict = new Lab.Verdict(this, side);
      this.sweep = new Lab.Sweep(this, side);
      this.history = new Lab.History(this, side);
      this.tabs = new Lab.Tabs(this, this.main);
      const curves = this.tabs.add("curves", "Curves", "The fastest setting, and the current run");
      const pair = html("div", "lab-grid lab-pair", curves);
      this.budget = new Lab.Curves(this, pair);
      this.running = new Lab.Live(this, pair);
      this.people = new Lab.Load(this, this.tabs.add("load", "Under load", "Several requests at once: which budget is fastest, and where drafting stops paying"));
      this.settings = new Lab.Table(this, this.tabs.add("table", "Table", "Every setting with its figures"));
      this.shapes = new Lab.Shapes(this, this.tabs.add("shapes", "Acceptance", "How many tokens rounds add, and which guesses are accepted"));
      if (this.can("cost")) this.cost = new Lab.Cost(this, this.tabs.add("cost", "Cost", "What a forward pass costs, and what one more node gains"));
      if (this.can("race")) this.race = new Lab.Race(this, this.tabs.add("race", "Race", "Several methods answer one prompt, side by side"));
      if (this.can("doctor")) this.doctor = new Lab.Doctor(this, this.tabs.add("doctor", "Doctor", "Why is τ low? Checks every drafter's configuration"));
      this.compare = new Lab.Compare(this, this.tabs.add("compare", "Compare", "Two runs side by side"));
      if (this.can("server")) this.served = new Lab.Server(this, this.tabs.add("server", "Server", "The attached server: counters of all its requests, and its speed with several at once"));
      const { stage, tabs } = this;
      tabs.go(tabs.made.has(stage.tab) ? stage.tab : "curves");
      stage.on("tab", (name) => name !== tabs.current && tabs.made.has(name) && tabs.go(name));
    }

    get tab() {
      return this.tabs.current;
    }

    show() {
      this.root.hidden = !this.shown;
      if (!this.shown) return;
      this.fit();
      this.library.load().then(() => this.tell("shown"));
      if (this.tab === "server") this.served.draw();
      this.refresh();
    }

    fit() {
      const top = this.root.getBoundingClientRect().top + window.scrollY;
      this.root.style.setProperty("--lab-left", `${Math.max(0, window.innerHeight - top)}px`);
    }

    // The sweep to show: the one asked for, else the one being measured, else the latest.
    async follow(sweep) {
      this.wanted = sweep;
      await this.refresh();
    }

    // Asks how far the sweep is, and goes on asking while the lab is open: often while something is measured.
    async refresh() {
      clearTimeout(this.timer);
      try {
        const answer = await this.server.lab_progress({ sweep: this.wanted ?? null });
        if (this.lost) this.sweep.fail(""); // it answers again
        this.lost = false;
        if (answer.error) this.sweep.fail(answer.error);
        else this.take(answer);
      } catch {
        this.lost = true;
        this.sweep.fail("The server does not answer; the lab keeps trying.");
      }
      const busy = ["queued", "running"].includes(this.progress.state);
      clearTimeout(this.timer);
      if (this.shown || busy) this.timer = setTimeout(() => this.refresh(), busy ? BUSY_MS : IDLE_MS);
    }

    take(answer) {
      const key = (progress) => [progress.sweep, progress.done, progress.state].join(" ");
      const moved = key(answer) !== key(this.progress) || !this.curves;
      this.progress = answer;
      this.root.classList.toggle("is-other-rig", Boolean(answer.other_rig));
      this.tell("progress");
      if (moved) this.load();
    }

    // Redraws curves and table: something was measured, a run has ended, or another sweep was chosen.
    async load() {
      if (this.loading) {
        this.again = true;
        return;
      }
      this.loading = true;
      try {
        const answer = await this.server.lab_curves({
          sweep: this.progress.sweep, points: this.points.all, what_if: this.prediction || null, line: this.budget.line.value, together: this.asked });
        if (answer.error) this.sweep.fail(answer.error);
        else this.drawn(answer);
      } catch {
        // The next refresh says so.
      } finally {
        this.loading = false;
      }
      if (this.again) {
        this.again = false;
        this.load();
      }
    }

    drawn(answer) {
      this.curves = answer.curves;
      this.counts = answer.counts.length ? answer.counts : [1];
      this.together = answer.together;
      this.command = answer.command;
      this.table = answer.table;
      this.secondsPerRun = answer.seconds_per_run;
      this.verdict.draw();
      this.settings.draw();
      if (this.shown) this.budget.draw();
      this.tell("table");
    }

    // From now on, curves, table and recommendation are for this many requests at once.
    lookAt(together) {
      this.asked = together;
      return this.load();
    }

    // From the current run: what a pass costs here, and what every budget would have achieved.
    async predict() {
      const { value, header } = this.stage;
      const begin = this.cost.begin;
      if (!header || this.unasked) {
        begin.tell("Open a recording or press Run first: the prediction replays the text of a run.", true);
        return;
      }
      this.budget.predicting(true);
      const answer = await begin.during((tell) => Lab.work(this.server, () => this.server.lab_what_if({ run: value.run }), tell));
      this.budget.predicting(false);
      this.sweep.fail(answer.error || "");
      if (!answer.what_if) return;
      this.prediction = answer.what_if;
      if (answer.departures) begin.tell(`Because of rounding, the target would choose another token at ${answer.departures} places of this text, so τ is not exact.`, false);
      await this.load();
      if (this.tab === "cost") this.cost.draw();
    }

    // One click puts a setting into the page's controls.
    apply({ method, budget, split, pace }) {
      this.adopt({ method, budget, split: split || null, pace });
      const nodes = budget ? `, ${pace === "auto" ? "auto up to " : ""}${budget} nodes` : "";
      Canopy.ink.write(this.said, `The page's controls now say ${method}${nodes}.`);
    }
  }

  // Waits for the stage, which another component brings along.
  Lab.open = async function open(element, server, adopt) {
    const host = element.querySelector(".canopy-host");
    const waiting = Canopy.ink.html("p", "lab-note lab-waiting", host);
    const given = await asked(server, waiting); // of the rig that answers now: another one may have been chosen
    waiting.remove();
    const begin = () => {
      if (!Canopy.parts || !Canopy.parts.stage) return setTimeout(begin, 30);
      if (!host.querySelector(".lab")) Canopy.laboratory = new View(Canopy.parts.stage, host, server, given, adopt);
      return 0;
    };
    begin();
  };

  // Asks until the page's first rig is there.
  async function asked(server, waiting) {
    for (;;) {
      try {
        const given = await server.lab_given({});
        if (!given.error) return given;
        Canopy.ink.write(waiting, given.error);
      } catch {
        // The server starts or is away for a moment.
      }
      await new Promise((done) => setTimeout(done, BUSY_MS));
    }
  }

  window.addEventListener("resize", () => {
    if (Canopy.laboratory) Canopy.laboratory.fit();
  });
})(window.Canopy = window.Canopy || {});
