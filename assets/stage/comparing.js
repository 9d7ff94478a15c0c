// What a live run's speed is compared with: after the run, the server measures plain decoding of the same prompt,
// briefly and only if the queue is empty. A run that shared rounds with others is not compared. Where the run was slower,
// a notice says so and offers the settings that were faster.
(function (Canopy) {
  "use strict";

  const BETWEEN_LOOKS_MS = 400;

  class Comparing {
    constructor(stage, notices, adopt) {
      this.stage = stage;
      this.notices = notices;
      this.adopt = adopt;
      this.asked = new Set(); // runs: each is compared with plain decoding once
      stage.on("value", () => this.look());
      stage.on("state", () => this.look());
      stage.on("begin", () => this.notices.slow(null));
      stage.comparing = "";
    }

    look() {
      const { stage } = this;
      const { run, state } = stage.value;
      const ended = ["done", "stopped"].includes(state) && stage.header && stage.rounds.length > 1;
      if (!ended || stage.recorded || stage.value.followed || !stage.header.heads.length || !stage.server || this.asked.has(run)) return;
      this.asked.add(run);
      const figures = Canopy.figures(stage.rounds);
      if (!figures.shared) this.ask(run, stage.header, figures);
    }

    async ask(run, header, figures) {
      const { stage } = this;
      const known = stage.baselines.get(stage.matter(header));
      const slower = known && figures.tokensPerSecond < known.tokens_per_second;
      if (known && !slower) return;
      this.say("being measured …");
      const found = await this.measured(run);
      this.say("");
      if (!found) return;
      stage.baselines.set(stage.matter(header), found);
      stage.tell("compared");
      if (stage.value.run === run) this.advise(header, figures, found);
    }

    async measured(run) {
      const { server } = this.stage;
      try {
        const begun = await server.compare({ run });
        if (begun.error) return null;
        for (;;) {
          const job = await server.compared({ job: begun.job });
          if (job.error || ["error", "stopped"].includes(job.state)) return null;
          if (job.state === "done") return job.result;
          await new Promise((done) => setTimeout(done, BETWEEN_LOOKS_MS));
        }
      } catch {
        return null; // the server cannot be reached: nothing was measured
      }
    }

    say(words) {
      this.stage.comparing = words;
      this.stage.tell("compared");
    }

    // For a run slower than plain decoding: the other settings that were measured, the fastest first, one click away.
    advise(header, figures, found) {
      const times = (speed) => `${(speed / found.tokens_per_second).toFixed(2)}×`;
      if (figures.tokensPerSecond >= found.tokens_per_second) return;
      const better = found.others.filter((other) => other.tokens_per_second > figures.tokensPerSecond && !Canopy.wouldBePlain(other));
      const setting = (other) => (other.pace === "auto" ? `auto up to ${other.budget} nodes` : `${other.budget} nodes`);
      const named = (other) => (other.dtype ? `${other.dtype} (start with --dtype ${other.dtype})` : setting(other));
      const measured = better.length
        ? `Measured just now on this prompt, against plain decoding: ${better.map((other) => `${named(other)} ${times(other.tokens_per_second)}`).join("; ")}.`
        : "No other setting that was tried was faster.";
      const busy = found.unsteady ? " Other programs were using this machine, so these figures are rough." : "";
      const plain = { method: "autoregressive", budget: 0, pace: "fixed", label: "plain decoding" };
      const [usable] = better.filter((other) => !other.dtype);
      const first = usable && usable.tokens_per_second > found.tokens_per_second ? { ...usable, label: setting(usable) } : plain;
      this.notices.slow({
        message: `This run was slower than plain decoding: ${times(figures.tokensPerSecond)} its speed. ${measured}${busy}`,
        label: `Use ${first.label}`, act: () => this.use(header, first),
      });
    }

    use(header, { method, budget, pace }) {
      const { prompt, temperature, split, top_k, top_p, seed, max_tokens, heads } = header;
      this.adopt({ prompt, temperature, split, top_k, top_p, seed, max_tokens, heads, method, budget, pace });
      this.notices.slow(null);
      this.notices.brief("The setting is in the bar: press Run.");
    }
  }

  Canopy.Comparing = Comparing;
})(window.Canopy = window.Canopy || {});
