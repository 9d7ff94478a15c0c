// The run that streams, as curves over its rounds: the figure comes from Python, its numbers from the stage.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const RECENT = 8;
  const BETWEEN_DRAWS_MS = 120;

  // The curves of a run's rounds: cumulative τ and tokens per second, and both over the latest rounds.
  function curvesOf(rounds) {
    const curves = { x: [], "tau.all": [], "tau.recent": [], "speed.all": [], "speed.recent": [] };
    const tokens = [0];
    const timed = [0]; // the tokens of rounds whose time is known
    const seconds = [0];
    rounds.forEach((made, place) => {
      tokens.push(tokens[place] + made.keep.length);
      const parts = Object.values(made.seconds);
      timed.push(timed[place] + (parts.length ? made.keep.length : 0));
      seconds.push(seconds[place] + parts.reduce((sum, spent) => sum + spent, 0));
      const from = Math.max(0, place + 1 - RECENT);
      const rate = (first) => {
        const spent = seconds[place + 1] - seconds[first];
        return spent > 0 ? (timed[place + 1] - timed[first]) / spent : null;
      };
      curves.x.push(place + 1);
      curves["tau.all"].push(Canopy.meanLength(tokens[place + 1], place + 1));
      curves["tau.recent"].push(Canopy.meanLength(tokens[place + 1] - tokens[from], place + 1 - from));
      curves["speed.all"].push(rate(0));
      curves["speed.recent"].push(rate(from));
    });
    return curves;
  }

  class Live {
    constructor(lab, parent) {
      this.lab = lab;
      this.stage = lab.stage;
      this.plot = new Lab.Plot(lab.library, parent, {
        name: "live", title: "This run",
        caption: "{τ} and {tokens/s} by round, drawn while the text is written.",
      });
      this.headline = Canopy.ink.html("p", "lab-live-headline");
      this.plot.body.before(this.headline);
      this.notice = Canopy.ink.html("p", "lab-notice");
      this.notice.setAttribute("role", "status");
      this.headline.before(this.notice);
      for (const event of ["value", "state", "begin"]) this.stage.on(event, () => this.plan());
      lab.on("shown", () => this.draw());
    }

    // A run reports every update; a plot is drawn a few times a second, and only while it is on the screen.
    plan() {
      if (this.timer || !this.lab.shown) return;
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.draw();
      }, BETWEEN_DRAWS_MS);
    }

    draw() {
      const { rounds, header, value, coming, refusal } = this.stage;
      const told = coming ? coming.message : refusal || (value.state === "error" ? value.message : "");
      Canopy.ink.write(this.notice, told);
      this.notice.hidden = !told;
      this.notice.classList.toggle("lab-error", !coming);
      const otherRig = this.lab.runRig;
      this.plot.box.classList.toggle("is-other-rig", Boolean(otherRig));
      if (!header || !rounds.length || !this.lab.live || this.lab.unasked) {
        Canopy.ink.write(this.headline, "");
        this.plot.say(otherRig ? `No run of ${this.lab.given.rig} yet` : "No run yet", "Press Run: the curves grow with the text.");
        return;
      }
      Canopy.ink.write(this.headline, this.words(otherRig));
      this.plot.draw(this.filled(curvesOf(rounds), header));
    }

    // The run in words, with its rig where that is another one than the rig that answers.
    words(otherRig) {
      const { rounds, header, recorded, value } = this.stage;
      const run = Canopy.figures(rounds);
      const name = header.pace === "auto" ? `${header.method}, auto up to ${header.budget} nodes` : Canopy.asked(header);
      const how = recorded ? "a recording" : { running: "running", done: "done", stopped: "stopped", error: "ended by an error" }[value.state] || "";
      const speed = run.tokensPerSecond ? `${Math.round(run.tokensPerSecond).toLocaleString("en")} tokens/s, ` : "";
      return `${otherRig && `${otherRig}, `}${name}: τ ${run.tau.toFixed(2)}, ${speed}${rounds.length} rounds, ${how}`;
    }

    filled(curves, header) {
      const { stage, lab } = this;
      const look = lab.look(header.method);
      const plain = stage.against ? Number(stage.against.plain_speed) : null;
      const data = lab.live.data.map((trace) => {
        if (trace.meta === "speed.plain") {
          const ends = plain ? [1, curves.x.length] : [];
          return { ...trace, x: ends, y: ends.map(() => plain), showlegend: Boolean(plain) };
        }
        return { ...trace, x: curves.x, y: curves[trace.meta], line: { ...trace.line, color: look.color } };
      });
      const summary = `${Canopy.asked(header)} after ${curves.x.length} rounds: `
        + `τ ${curves["tau.all"].at(-1).toFixed(2)}.`;
      return { data, layout: { ...lab.live.layout, uirevision: stage.value.run }, summary };
    }
  }

  Object.assign(Lab, { Live, curvesOf });
})(window.Canopy = window.Canopy || {});
