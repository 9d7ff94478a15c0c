// The latest runs of this tab, each as a point: what was asked, and what it came to.

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
