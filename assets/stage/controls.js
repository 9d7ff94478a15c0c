// The bridge to the controls of the bar: the budget's steps, what the address restores, what Stop means here.
(function (Canopy) {
  "use strict";

  const PROMPT = "canopy-prompt";
  const LARGEST_STEP = 11; // 2^10 nodes

  Canopy.controls = {
    stage: null,
    budgetOf: (step) => (step <= 0 ? 0 : 2 ** (step - 1)),
    stepOf: (budget) => (budget >= 1 ? Math.min(LARGEST_STEP, Math.round(Math.log2(budget)) + 1) : 0),

    note(method, budget, pace) {
      const { stage } = Canopy.controls;
      if (!stage) return;
      stage.settings = { method, budget, pace };
      stage.tell("settings");
    },

    // The values that method, budget, step and prompt have to take when the page opens.
    restore(method, budget, step, prompt) {
      const asked = Canopy.Address.opened;
      document.querySelector("#canopy-preset input").placeholder = "Pick a prompt …"; // Gradio's list takes none
      const wanted = [asked.method || method, asked.budget === null ? budget : asked.budget];
      Canopy.controls.note(...wanted);
      return [...wanted, asked.budget === null ? step : Canopy.controls.stepOf(asked.budget), Canopy.controls.kept() ?? prompt];
    },

    // Loads the page anew, with the prompt as it stands.
    reload() {
      window.sessionStorage.setItem(PROMPT, document.querySelector("#canopy-prompt textarea").value);
      window.location.reload();
    },

    kept() {
      const prompt = window.sessionStorage.getItem(PROMPT);
      window.sessionStorage.removeItem(PROMPT);
      return prompt;
    },

    // The run ends on the server; what has arrived stays.
    stop() {
      const { stage } = Canopy.controls;
      if (stage) stage.halt();
    },
  };
})(window.Canopy = window.Canopy || {});
