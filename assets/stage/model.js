// The caveat beside every text of the embedded model, and prompts that it answers right, one click away. For a prompt
// unlike those that it was trained on, another rig is offered.
(function (Canopy) {
  "use strict";

  const EMBEDDED = "demo"; // what the rig is opened by
  const LARGER = "smollm2";

  class ModelLine {
    // `right`: {label, prompt, method, budget, temperature} each; `ask` runs one.
    constructor(stage, frame, right, ask) {
      const { html, button } = Canopy.ink;
      this.stage = stage;
      this.box = html("p", "cs-model");
      frame.querySelector(".cs-body").after(this.box);
      this.words = html("span", "", this.box);
      this.tries = html("span", "cs-tries", this.box, "It gets these right: ");
      for (const { label, ...asked } of right) {
        button(this.tries, label, `Run: ${asked.prompt}`, () => ask({ ...asked, pace: "auto" }));
      }
      this.right = right;
      for (const event of ["value", "begin", "rig", "rigs"]) stage.on(event, () => this.draw());
      this.draw();
    }

    draw() {
      const { header } = this.stage;
      const said = (header && header.model) || "";
      this.box.hidden = !said;
      Canopy.ink.write(this.words, said);
      const { rigs } = Canopy.parts || {};
      this.tries.hidden = !this.right.length || !rigs || !rigs.state || rigs.state.opened !== EMBEDDED;
    }
  }

  // The way out of a prompt that the embedded rig was not trained for: the same prompt, answered by a larger rig.
  class WayOut {
    constructor(stage, notices, rigs) {
      this.stage = stage;
      this.notices = notices;
      this.rigs = rigs;
      for (const event of ["value", "begin", "rigs"]) stage.on(event, () => this.draw());
    }

    draw() {
      const { header, recorded } = this.stage;
      const outside = header && header.outside && !recorded;
      const { state } = this.rigs || {};
      const open = outside && state && !state.closed && state.opened === EMBEDDED && state.named.some(({ name }) => name === LARGER);
      this.notices.outside(outside ? {
        message: header.note, label: open ? `Answer it with ${LARGER}` : "", act: () => this.leave(header.prompt),
      } : null);
    }

    // The page reloads once that rig answers, and runs the prompt by itself.
    leave(prompt) {
      Canopy.controls.askAfterReload(prompt);
      this.rigs.mine = true;
      this.rigs.ask("rig_choose", { rig: LARGER });
      this.notices.brief(`${LARGER} is being loaded; this prompt runs again as soon as it is ready.`);
    }
  }

  Object.assign(Canopy, { ModelLine, WayOut });
})(window.Canopy = window.Canopy || {});
