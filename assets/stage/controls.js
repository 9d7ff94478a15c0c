// The bridge to the controls of the bar: the budget's steps, what the address restores, what Stop does in the browser.
(function (Canopy) {
  "use strict";

  const PROMPT = "canopy-prompt";
  const TURNS = "canopy-turns";
  const AGAIN = "canopy-again";
  const ON = "canopy-on";
  const KEPT = "canopy-kept";
  const LARGEST_STEP = 11; // 2^10 nodes
  const LOOKS = 100; // at the bar, until it is as it was asked to be
  const BETWEEN_LOOKS_MS = 100;

  function taken(name) {
    const value = window.sessionStorage.getItem(name);
    window.sessionStorage.removeItem(name);
    return value;
  }

  const SERVED = "served"; // the method of an attached server
  const DECIDED = ["steps", "budget", "pace", "split", "heads"]; // what its own command line sets

  Canopy.controls = {
    stage: null,
    turns: [], // before the prompt: they go along with the next run
    carried: taken(PROMPT), // the prompt as it stood when the page reloaded itself, else null
    kept: JSON.parse(taken(KEPT)), // the run that was shown when the server was lost, else null
    goesOn: taken(ON), // what the first page was doing when this one took its place: "runs", "plays", or null
    budgetOf: (step) => (step <= 0 ? 0 : 2 ** (step - 1)),
    stepOf: (budget) => (budget >= 1 ? Math.min(LARGEST_STEP, Math.round(Math.log2(budget)) + 1) : 0),

    note(method, budget, pace) {
      const { stage } = Canopy.controls;
      if (!stage) return;
      stage.settings = { method, budget, pace };
      document.body.dataset.canopyMethod = method;
      for (const name of DECIDED) {
        const field = document.getElementById(`canopy-${name}`);
        if (field) field.title = method === SERVED ? "The attached server drafts as it was started; this has no effect on it." : "";
      }
      stage.tell("settings");
    },

    // The values that method, budget, step and prompt have to take when the page opens.
    restore(method, budget, step, prompt) {
      const asked = Canopy.Address.opened;
      document.querySelector("#canopy-preset input").placeholder = "Pick a prompt …"; // Gradio's list takes none
      const wanted = [asked.method || method, asked.budget === null ? budget : asked.budget];
      Canopy.controls.note(...wanted);
      if (Canopy.parts) Canopy.parts.conversation.draw(); // the prompt is here now, whichever came first
      return [...wanted, asked.budget === null ? step : Canopy.controls.stepOf(asked.budget), Canopy.controls.carried ?? Canopy.controls.restored() ?? prompt];
    },

    // What Run sends: the bar's values, the first of which is the prompt, the last replaced by the turns.
    asked(values) {
      Canopy.controls.stage.ask(values[0], Canopy.controls.turns);
      return [...values.slice(0, -1), Canopy.controls.turns];
    },

    // Reloads the page, with the prompt as it stands and the turns before it.
    reload() {
      const again = window.sessionStorage.getItem(AGAIN);
      window.sessionStorage.setItem(PROMPT, again || document.querySelector("#canopy-prompt textarea").value);
      if (again) window.history.replaceState(null, "", `#mode=${Canopy.controls.stage.mode}&method=ddtree`);
      window.sessionStorage.setItem(TURNS, JSON.stringify(Canopy.controls.turns));
      window.location.reload();
    },

    // The call of Run has ended, whatever came of it: where the server refused it, no run will come.
    async over() {
      const { stage } = Canopy.controls;
      const { coming } = stage;
      await new Promise((done) => setTimeout(done, 5 * BETWEEN_LOOKS_MS));
      if (coming && coming === stage.coming) stage.refuse("The server did not take this run; press Run again.");
    },

    // What the page is to have when it is loaded again; a run that is too large for the browser's store is let go.
    keep(run, goesOn) {
      const { sessionStorage } = window;
      sessionStorage.setItem(PROMPT, document.querySelector("#canopy-prompt textarea").value);
      sessionStorage.setItem(TURNS, JSON.stringify(Canopy.controls.turns));
      if (goesOn) sessionStorage.setItem(ON, goesOn);
      try {
        if (run) sessionStorage.setItem(KEPT, JSON.stringify(run));
      } catch {
        sessionStorage.removeItem(KEPT);
      }
    },

    // From the first page to this one: the prompt if one was typed, and what goes on.
    handOver(prompt, goesOn) {
      if (prompt !== null) window.sessionStorage.setItem(PROMPT, prompt);
      if (goesOn) window.sessionStorage.setItem(ON, goesOn);
      window.location.reload();
    },

    // The prompt of the run that the address brought back, where that was here before the bar.
    restored() {
      const { stage } = Canopy.controls;
      const { trace } = Canopy.Address.opened;
      return stage && trace && stage.value.run === trace && stage.header ? stage.header.prompt : null;
    },

    keptTurns() {
      return JSON.parse(taken(TURNS) || "[]");
    },

    // Presses Run as soon as the bar holds that prompt, and never if it does not come to. A run that is asked for
    // `early` waits in the queue for the page's first rig.
    async runWhen(prompt, pace, early) {
      for (let look = 0; look < LOOKS; look++) {
        await new Promise((done) => setTimeout(done, BETWEEN_LOOKS_MS));
        const field = document.querySelector("#canopy-prompt textarea");
        const { rigs } = Canopy.parts || {};
        const paced = !pace || document.querySelector("#canopy-pace input").value === pace;
        const ready = field && field.value === prompt && paced && rigs && rigs.state && (early || !rigs.state.coming);
        if (ready) return document.querySelector("#canopy-run").click();
      }
      return undefined;
    },

    // The prompt that the page runs by itself after it has reloaded; null for none.
    askAfterReload(prompt) {
      if (prompt === null) window.sessionStorage.removeItem(AGAIN);
      else window.sessionStorage.setItem(AGAIN, prompt);
    },

    // In full, because auto would first time passes of the new rig.
    async askAgain(adopt) {
      const prompt = taken(AGAIN);
      if (!prompt) return;
      await Canopy.controls.first();
      adopt({ prompt, method: "ddtree", budget: 16, temperature: 0, pace: "fixed", heads: [] });
      Canopy.controls.runWhen(prompt, "in full");
    },

    // The bar's values have been restored as the page opened, and what the rig can do has arrived.
    async first() {
      const there = () => Canopy.parts && Canopy.parts.ready && Canopy.parts.rigs.state && !Canopy.parts.rigs.state.coming;
      for (let look = 0; look < LOOKS && !there(); look++) await new Promise((done) => setTimeout(done, BETWEEN_LOOKS_MS));
      await new Promise((done) => setTimeout(done, 5 * BETWEEN_LOOKS_MS));
    },

    // The run ends on the server; what has arrived stays.
    stop() {
      const { stage } = Canopy.controls;
      if (stage) stage.halt();
    },
  };
})(window.Canopy = window.Canopy || {});
