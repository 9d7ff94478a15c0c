// What becomes of the latest run before and beside its rounds: asked for, waited for, refused, stopped, lost. Part of the
// stage, which shows the rounds.
(function (Canopy) {
  "use strict";

  const BUSY = ["queued", "running"];
  const BLANK = { run: "", state: "empty", message: "", header: null, from: 0, rounds: [], end: null };
  const NOTHING = "The text ended before its first token; ask something else, or change the temperature or the seed.";

  // Whether a stage value is that of a run in progress.
  Canopy.goesOn = ({ state }) => BUSY.includes(state);

  class Latest {
    constructor() {
      this.listeners = new Map();
      this.value = BLANK; // of the run that is shown
      this.rounds = [];
      this.views = []; // the rounds of a live run as they were sent
      this.elsewhere = false; // whether a run is shown that is not the followed one
      this.coming = null; // {run, prompt, turns, state, message} of a run that was asked for and has no round yet
      this.refusal = ""; // why the latest run did not come or did not go on
      this.halted = null; // the run that Stop was pressed for
    }

    on(event, listener) {
      if (!this.listeners.has(event)) this.listeners.set(event, []);
      this.listeners.get(event).push(listener);
      return () => this.listeners.set(event, this.listeners.get(event).filter((other) => other !== listener));
    }

    tell(event, detail) {
      for (const listener of this.listeners.get(event) || []) listener(detail);
    }

    // Whether the run that is shown goes on.
    get live() {
      return Canopy.goesOn(this.value);
    }

    // Whether a run goes on or is waited for.
    get busy() {
      return Boolean(this.coming) || this.live;
    }

    // Of the latest run: the one that is waited for, where there is one, else the one that is shown.
    get state() {
      return (this.coming || this.value).state;
    }

    // A run was asked for: from now on its prompt stands for it, and the run that is shown is the earlier one.
    ask(prompt, turns) {
      this.refusal = "";
      this.halted = null;
      this.coming = { run: "", prompt, turns, state: "running", message: "Waiting for the server …" };
      this.tell("asked");
      this.tell("state");
    }

    // A run without a round is waited for, or has ended so.
    expect({ run, state, message, header, end }) {
      if (!BUSY.includes(state)) {
        this.refuse(end ? NOTHING : message);
        return;
      }
      const { prompt, turns } = header || this.coming || { prompt: "", turns: [] };
      this.coming = { run, prompt, turns, state, message: message || "Reading the prompt …" };
      this.tell("state");
    }

    // The run that was waited for will not come.
    refuse(message) {
      this.coming = null;
      this.refusal = message;
      this.tell("refused", message);
      this.tell("state");
    }

    // Whether to skip an update: of a followed run while another one is shown, or a late one of a run that was halted,
    // whose name may not have been known then.
    passesBy(value) {
      if (value.followed) this.tell("followed", value);
      if (this.halted === "" && Canopy.goesOn(value)) this.halted = value.run;
      return (value.followed && this.elsewhere) || (value.run === this.halted && Canopy.goesOn(value));
    }

    // The server is gone. What it wrote stays, as a run that broke off there.
    lose(message) {
      this.coming = null;
      this.refusal = message;
      if (this.live) this.say("lost", "");
      else this.tell("state");
    }

    // The run that is shown, whole, as the server would send it.
    whole() {
      return { ...this.value, from: 0, rounds: this.views };
    }

    // Sets the state and the message of the run that is shown, without an update of the server.
    say(state, message) {
      this.value = { ...this.value, state, message };
      this.tell("state");
    }
  }

  Canopy.Latest = Latest;
})(window.Canopy = window.Canopy || {});
