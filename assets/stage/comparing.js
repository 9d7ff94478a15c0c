// What a live run is compared with: after the run, the server measures it in turns with plain decoding of the same prompt,
// only if the queue is empty. A run that shared rounds with others is not compared. Where the run was slower, a notice
// says so and offers the settings that were faster.
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
    }

    look() {
      const { stage } = this;
      const { run, state } = stage.value;
      const ended = ["done", "stopped"].includes(state) && stage.header && stage.rounds.length > 1;
      if (!ended || stage.recorded || stage.value.followed || !stage.header.heads.length || !stage.server || this.asked.has(run)) return;
      this.asked.add(run);
      if (!stage.comparison && !Canopy.figures(stage.rounds).shared) this.ask(run, stage.header);
    }

    async ask(run, header) {
      const { stage } = this;
      this.say(run, "being measured …");
      const why = await this.measured(run);
      this.say(run, why);
      if (stage.value.run === run && !why) this.advise(header);
    }

    // Shows what is found as it grows; "" or why nothing was found.
    async measured(run) {
      const { server } = this.stage;
      try {
        const begun = await server.compare({ run });
        if (begun.error) return begun.error;
        for (;;) {
          const job = await server.compared({ job: begun.job });
          if (job.result) this.stage.compared(run, job.result);
          if (job.error || job.state === "error") return job.error || job.message;
          if (["done", "stopped"].includes(job.state)) return job.result ? "" : "Another run came before it was measured.";
          await new Promise((done) => setTimeout(done, BETWEEN_LOOKS_MS));
        }
      } catch {
        return "The server cannot be reached, so it was not measured.";
      }
    }

    say(run, words) {
      if (this.stage.value.run !== run) return;
      this.stage.comparing = words;
      this.stage.tell("compared");
    }

    // For a run slower than plain decoding: the other settings that were measured, the fastest first, one click away.
    advise(header) {
      const { against, comparison } = this.stage;
      if (!against || against.standing !== "slower") return;
      const better = comparison.others.filter((other) => other.ratio > against.ratio && !Canopy.wouldBePlain(other));
      const setting = (other) => (other.pace === "auto" ? `auto up to ${other.budget} nodes` : `${other.budget} nodes`);
      const named = (other) => (other.dtype ? `${other.dtype} (start with --dtype ${other.dtype})` : setting(other));
      const measured = better.length
        ? `Measured just now on this prompt, in turns with plain decoding: ${better.map((other) => `${named(other)} ${other.times}`).join("; ")}.`
        : "No other setting that was tried was faster.";
      const plain = { method: "autoregressive", budget: 0, pace: "fixed", label: "plain decoding" };
      const [usable] = better.filter((other) => !other.dtype);
      const first = usable && usable.ratio > 1 ? { ...usable, label: setting(usable) } : plain;
      this.notices.slow({
        message: `This run was slower than plain decoding: ${against.times} its speed. ${measured}`,
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
