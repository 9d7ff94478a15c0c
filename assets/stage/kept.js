// The latest runs of this tab, each as a point: what was asked, and what it came to. And whole runs that a person keeps in
// the browser, as trace files by name.

import { settingOf, usedOf } from "./round.js";

const MOST = 8;
const STORE = "canopy-runs"; // of the tab; the server has their rounds

export class KeptRuns {
  constructor(stage) {
    this.stage = stage;
    stage.kept = JSON.parse(sessionStorage.getItem(STORE)) || [];
    stage.on("state", () => this.keep());
  }

  keep() {
    const { stage } = this;
    const { value: { run, state }, header, rounds, figures } = stage;
    if (!["done", "stopped"].includes(state) || stage.recorded || rounds.length < 2 || stage.kept.some((one) => one.run === run)) return;
    const kept = { run, title: settingOf(header), prompt: header.prompt, budget: usedOf(header, rounds), tau: figures.tau, speed: figures.tokensPerSecond };
    stage.kept = [kept, ...stage.kept].slice(0, MOST);
    sessionStorage.setItem(STORE, JSON.stringify(stage.kept));
  }
}

const FILES = "canopy-named-runs";
const LARGEST = 3e6; // characters of all of them; browsers keep 5 million

// As {name, note, file, data: base64}, the newest first.
export class NamedRuns {
  get all() {
    return JSON.parse(localStorage.getItem(FILES)) || [];
  }

  // Why the run cannot be kept, or nothing. One of the same name is replaced.
  keep(one) {
    const all = [one, ...this.all.filter(({ name }) => name !== one.name)];
    const full = "The browser has no room for this run beside those that it keeps; forget one (Recordings), or save this one as a file.";
    const text = JSON.stringify(all);
    if (text.length > LARGEST) return full;
    try {
      localStorage.setItem(FILES, text);
    } catch {
      return full;
    }
    return "";
  }

  forget(name) {
    localStorage.setItem(FILES, JSON.stringify(this.all.filter((one) => one.name !== name)));
  }
}
