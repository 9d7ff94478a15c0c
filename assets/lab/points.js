// Finished runs of this browser, a point each. They stay until they are cleared, also when the page is opened again.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const STORE = "canopy-lab-points";
  const MOST = 400;

  function stored() {
    try {
      const read = JSON.parse(localStorage.getItem(STORE));
      return Array.isArray(read) ? read : [];
    } catch {
      return [];
    }
  }

  class Points {
    constructor(stage) {
      this.stage = stage;
      this.all = stored();
      this.listeners = [];
      stage.on("state", () => this.take());
    }

    on(listener) {
      this.listeners.push(listener);
    }

    // A run that ended by itself; a stopped one or a recording says nothing about this machine.
    take() {
      const { value, header, rounds, recorded } = this.stage;
      if (value.state !== "done" || recorded || !header || !rounds.length) return;
      if (this.all.some((point) => point.run === value.run)) return;
      const run = Canopy.figures(rounds);
      this.all.push({
        run: value.run, method: header.method, budget: header.budget, split: header.split,
        temperature: header.temperature, pace: header.pace, tau: run.tau, tokens_per_second: run.tokensPerSecond, tokens: run.tokens,
        rounds: run.rounds, rig: header.rig, hardware: header.hardware, dtype: header.dtype,
      });
      this.all = this.all.slice(-MOST);
      this.keep();
    }

    clear() {
      this.all = [];
      this.keep();
    }

    keep() {
      try {
        localStorage.setItem(STORE, JSON.stringify(this.all));
      } catch {
        // A browser that stores nothing still shows the points until it is closed.
      }
      for (const listener of this.listeners) listener();
    }
  }

  Lab.Points = Points;
})(window.Canopy = window.Canopy || {});
