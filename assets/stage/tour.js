// The tour: a card beside the part it speaks of. It can be left at any step; where it was left is remembered.
(function (Canopy) {
  "use strict";

  const STORE = "canopy-tour";
  const GAP = 12;

  class Tour {
    constructor(parts) {
      const { html, button } = Canopy.ink;
      this.parts = parts;
      this.steps = Canopy.tourSteps;
      this.box = html("div", "cs-tour", document.body);
      this.box.hidden = true;
      this.box.setAttribute("role", "dialog");
      this.box.setAttribute("aria-label", "Tour");
      this.title = html("h2", "", this.box);
      this.text = html("p", "", this.box);
      this.exercise = html("p", "cs-exercise", this.box);
      const foot = html("footer", "", this.box);
      this.place = html("span", "", foot);
      button(foot, "Leave", "Leave the tour (Esc)", () => this.stop());
      this.back = button(foot, "Back", "Previous step", () => this.go(this.step - 1));
      this.next = button(foot, "Next", "Next step", () => this.go(this.step + 1));
      window.addEventListener("resize", () => this.settle());
    }

    // From where it was left; a tour that was finished starts over.
    async start() {
      const left = Number(localStorage.getItem(STORE)) || 0;
      this.parts.player.go(0, {});
      await this.go(left < this.steps.length ? left : 0);
      this.next.focus();
    }

    // Over the recording that the page opens with, which its texts speak of: a person's run, which an exercise asks for,
    // is over with the next step.
    async welcome() {
      const { stage, lessons, player } = this.parts;
      if (!lessons.first || (stage.value.run === lessons.first && !stage.coming)) return;
      if (stage.busy) document.querySelector("#canopy-stop").click();
      await lessons.open(lessons.first, { still: true });
      player.go(0, {});
    }

    async go(step) {
      localStorage.setItem(STORE, String(step));
      if (step < this.steps.length) await this.welcome();
      this.unmark();
      if (step >= this.steps.length) {
        this.box.hidden = true;
        return;
      }
      const { mode, at, title, text, exercise } = this.steps[step];
      this.step = step;
      this.parts.player.pause();
      this.parts.stage.setMode(mode);
      this.title.textContent = title;
      this.text.textContent = text;
      this.exercise.textContent = `Try it: ${exercise}`;
      this.place.textContent = `${step + 1} of ${this.steps.length}`;
      this.back.hidden = step === 0;
      this.next.textContent = step === this.steps.length - 1 ? "Done" : "Next";
      this.box.hidden = false;
      this.target = document.querySelector(at);
      if (this.target) this.target.classList.add("cs-toured");
      requestAnimationFrame(() => this.settle());
    }

    // Beside its part where there is room, else over its lower end; never outside the window.
    settle() {
      if (this.box.hidden || !this.target) return;
      this.target.scrollIntoView({ block: "nearest" });
      const part = this.target.getBoundingClientRect();
      const { offsetWidth: width, offsetHeight: height } = this.box;
      const right = part.right + GAP + width < window.innerWidth;
      const left = part.left - GAP - width > 0;
      const x = right ? part.right + GAP : left ? part.left - GAP - width : part.right - width - GAP;
      const below = part.bottom + GAP + height < window.innerHeight;
      const y = right || left ? part.top : below ? part.bottom + GAP : part.top - height - GAP;
      const inside = (value, most) => Math.max(GAP, Math.min(value, most - GAP));
      this.box.style.left = `${inside(x, window.innerWidth - width)}px`;
      this.box.style.top = `${inside(y, window.innerHeight - height)}px`;
    }

    unmark() {
      if (this.target) this.target.classList.remove("cs-toured");
      this.target = null;
    }

    // True where there was a tour to leave.
    stop() {
      const open = !this.box.hidden;
      this.box.hidden = true;
      this.unmark();
      return open;
    }
  }

  Canopy.Tour = Tour;
})(window.Canopy = window.Canopy || {});
