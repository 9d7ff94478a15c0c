// Recordings: those that ship, files that are opened or dropped, and runs that a link names.
(function (Canopy) {
  "use strict";

  const MIB = 2 ** 20;
  const LARGEST = 32 * MIB; // of a trace file, as on the server

  // All of a run: a long one comes in pieces. {error} where one of them is refused.
  Canopy.wholeRun = async function wholeRun(server, run) {
    const whole = await server.replay({ run, from: 0 });
    while (!whole.error && whole.rounds.length < whole.total) {
      const { error, rounds, state, end, total } = await server.replay({ run, from: whole.rounds.length });
      if (error || !rounds.length) return error ? { error } : { ...whole, total: whole.rounds.length };
      for (const made of rounds) whole.rounds.push(made);
      Object.assign(whole, { state, end, total });
    }
    return whole;
  };

  class Lessons {
    constructor(stage, player, notices, listed) {
      this.stage = stage;
      this.player = player;
      this.notices = notices;
      this.listed = listed || [];
      this.first = ""; // the recording that the page opens with
      this.input = Canopy.ink.html("input", "cs-file", document.body);
      this.input.type = "file";
      this.input.hidden = true;
      this.input.setAttribute("aria-label", "Trace file to open");
      this.input.addEventListener("change", () => this.read(this.input.files[0]));
      this.drop();
      this.followed = new Canopy.Followed(stage, this, notices);
    }


    entries() {
      const made = this.listed.map((lesson) => ({
        label: lesson.title,
        note: `${Canopy.asked(lesson)}, τ ${lesson.tau === null ? "–" : lesson.tau.toFixed(1)}`,
        act: () => this.open(lesson.name, { push: true }),
      }));
      return [
        ...this.followed.entries(),
        { heading: made.length ? "Recorded runs" : "No recorded runs are here yet" }, ...made,
        { heading: "Your own" },
        { label: "Open a trace file …", note: "or drop one anywhere", act: () => this.input.click() },
      ];
    }

    // Returns whether it could be shown.
    async open(name, how) {
      if (!this.stage.server) return false;
      const value = await this.answer(() => Canopy.wholeRun(this.stage.server, name));
      if (value) this.take({ ...value, run: name }, how);
      return Boolean(value);
    }

    take(value, how) {
      this.stage.show({ ...value, state: value.state === "running" ? "stopped" : value.state });
      this.stage.tell("opened", how || {});
      if (!(how && how.still)) this.start();
    }

    // A recording plays by itself, unless the system asks for reduced motion.
    start() {
      if (!this.stage.reducedMotion && this.stage.rounds.length > 1) this.player.play();
    }

    async answer(ask) {
      try {
        const value = await ask();
        if (value && !value.error) return value;
        this.notices.fail(value ? value.error : "The server gave no answer; try again.");
      } catch {
        this.notices.fail("The server cannot be reached; check that it is still running, then try again.");
      }
      return null;
    }

    async read(file) {
      this.input.value = "";
      if (!file) return;
      await this.give(file);
      this.opened = file.name; // shown, or refused
    }

    async give(file) {
      if (file.size > LARGEST) {
        this.notices.fail(`${file.name} has ${Math.round(file.size / MIB)} MiB; a trace file may have ${LARGEST / MIB} MiB at most.`);
        return;
      }
      const { server } = this.stage;
      const value = await this.answer(async () => {
        const sent = await Canopy.save.send((piece) => server.upload(piece), file);
        const first = sent.error ? sent : await server.open_trace({ name: file.name, upload: sent.upload });
        return first.error || first.rounds.length >= first.total ? first : Canopy.wholeRun(server, first.run);
      });
      if (value) this.take(value, { push: true });
    }

    drop() {
      document.addEventListener("dragover", (event) => {
        if (event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files")) {
          event.preventDefault();
          document.body.classList.add("cs-dropping");
        }
      });
      document.addEventListener("dragleave", (event) => {
        if (!event.relatedTarget) document.body.classList.remove("cs-dropping");
      });
      document.addEventListener("drop", (event) => {
        document.body.classList.remove("cs-dropping");
        if (!event.dataTransfer || !event.dataTransfer.files.length || !this.stage.server) return;
        event.preventDefault();
        this.read(event.dataTransfer.files[0]);
      });
    }
  }

  Canopy.Lessons = Lessons;
})(window.Canopy = window.Canopy || {});
