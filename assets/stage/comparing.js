// What a live run's speed is held against: once it has ended, the server measures plain decoding of the same question,
// briefly and where nobody waits; where the run shared its rounds with others, nothing is compared. A run that was slower
// than that is said to be, with what was faster beside it.
(function (Canopy) {
  "use strict";

  const BETWEEN_LOOKS_MS = 400;

  class Comparing {
    constructor(stage, notices, adopt) {
      this.stage = stage;
      this.notices = notices;
      this.adopt = adopt;
      this.asked = new Set(); // runs, each of which is held against plain decoding once
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
        return null; // the server is away: nothing was measured
      }
    }

    say(words) {
      this.stage.comparing = words;
      this.stage.tell("compared");
    }

    // Slower than plain decoding: what was measured beside it, the fastest first, each one click away.
    advise(header, figures, found) {
      const times = (speed) => `${(speed / found.tokens_per_second).toFixed(2)}×`;
      if (figures.tokensPerSecond >= found.tokens_per_second) return;
      const better = found.others.filter((other) => other.tokens_per_second > figures.tokensPerSecond);
      const setting = (other) => (other.pace === "auto" ? `auto up to ${other.budget}` : `${other.budget} nodes`);
      const named = (other) => (other.dtype ? `${other.dtype} (start with --dtype ${other.dtype})` : setting(other));
      const fallen = (other) => (Canopy.wouldBePlain(other) ? ", decoding plainly" : "");
      const measured = better.length
        ? `Measured just now on this prompt, in plain decoding's speed: ${better.map((other) => `${named(other)} ${times(other.tokens_per_second)}${fallen(other)}`).join("; ")}.`
        : "Nothing that was tried beside it was faster.";
      const busy = found.unsteady ? " Something else was at work on this machine, so these figures are rough." : "";
      const plain = { method: "autoregressive", budget: 0, pace: "fixed", label: "plain decoding" };
      const [usable] = better.filter((other) => !other.dtype);
      const first = usable && usable.tokens_per_second > found.tokens_per_second ? { ...usable, label: setting(usable) } : plain;
      this.notices.slow({
        message: `${times(figures.tokensPerSecond)}: slower than plain decoding. ${measured}${busy}`,
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
