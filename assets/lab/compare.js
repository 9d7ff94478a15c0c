// Two to four runs side by side: their figures, their texts, and the trees that wrote the chosen token of each text.

import { Race } from "./race.js";
import { action, html, methodColour, methodMark, write } from "../shared/ink.js";
import { controls } from "../stage/controls.js";
import { knownRun } from "../shared/lines.js";
import { panels } from "../shared/define.js";
import { machineOf, settingOf } from "../shared/round.js";
import { ICICLE_NODES } from "../panels/tree.js";
import { PLAIN, ratioOf, ratioText } from "../panels/fastest.js";
import { bestRound } from "../stage/film.js";
import { Stage } from "../stage/stage.js";
import { TextPanel } from "../stage/text.js";

/** `low` and `high`: its range, if it can be compared; `doubt`: why it cannot.
 *  @typedef {{ name: string, text: string, low?: number, high?: number, doubt?: string, range?: string }} ComparedFigure */

const SIDES = ["first", "second", "third", "fourth"];

/** The prompt and machine of all these runs, "" if they differ. @param {Stage[]} stages */
function common(stages) {
  const headers = stages.flatMap(({ header }) => header ?? []);
  const shared = (/** @type {string[]} */ values) => (values.length > 1 && new Set(values).size === 1 ? values[0] : "");
  return { prompt: shared(headers.map(({ prompt }) => prompt)), machine: shared(headers.map(machineOf)) };
}

/** Whether one run is the plain decoding that the other was measured against. @param {Stage} plain @param {Stage} other */
function isPlainOf(plain, other) {
  const { prompt, machine } = common([plain, other]);
  return Boolean(other.speedup && prompt && machine) && plain.header?.drafters.length === 0;
}

// One of the runs: a stage of its own, with the page's text and tree panels.
class Side {
  ends = /** @type {number[] | null} */ (null); // where each round's tokens end in the text, once the run is loaded
  run = "";

  constructor(/** @type {Element} */ parent, /** @type {number} */ place) {
    this.name = SIDES[place];
    this.box = html("section", { class: "lab-plot lab-side-run", "aria-label": `The ${this.name} run` }, parent);
    const head = html("header", "", this.box);
    this.setting = action(head, "", "Open this run", () => controls.parts?.runs?.open({ run: this.run }), "lab-open");
    this.title = html("span", "lab-caption", head);
    this.figures = html("dl", "lab-pair-figures", this.box);
    this.stage = new Stage();
    this.stage.mode = "workbench";
    const host = html("div", "lab-pair-tree", this.box);
    this.tree = /** @type {PanelDefinition} */ (panels.get("tree")).create(host, this.stage);
    head.append(...host.querySelectorAll(".cp-tools")); // off the drawing
    this.text = html("div", "lab-pair-text", this.box);
    new TextPanel(this.stage, this.text);
    this.stage.on("round", () => this.tree.draw(this.stage.round));
    this.stage.on("select", (selection) => this.tree.select(selection));
    new ResizeObserver(() => {
      this.tree.hostSize = null;
      if (host.clientWidth > 40) this.tree.resize?.();
    }).observe(host);
  }

  /** Loads a run, unless it is shown already. @param {string} run @param {() => unknown} onLoad */
  async open(run, onLoad) {
    if (run === this.run) return;
    this.run = run;
    this.ends = null;
    const arrived = await this.stage.follow(knownRun(run));
    if (run !== this.run) return;
    write(this.title, this.stage.refusal);
    this.setting.replaceChildren();
    const { header } = this.stage;
    if (arrived && header) {
      let end = 0;
      this.ends = this.stage.rounds.map(({ keep }) => (end += keep.length));
      methodMark(header.method, this.setting);
      this.setting.append(settingOf(header));
    }
    onLoad();
  }

  // What was measured beside plain decoding: 1 for that itself.
  ratioAmong(/** @type {Side[]} */ sides) {
    return sides.some((other) => isPlainOf(this.stage, other.stage)) ? PLAIN : ratioOf({ budget: 0, ...this.stage.speedup })[0];
  }

  /** The figures; of a text that repeats itself, τ and speed are those of the part before. Plain decoding has the speed that was
   *  measured when another run was compared with it. @param {Side[]} sides @returns {ComparedFigure[]} */
  figuresAmong(sides) {
    const { stage, stage: { figuresBeforeRepetition: { tau }, figures, rounds, speedup, header } } = this;
    const plainSpeed = sides.find((other) => isPlainOf(stage, other.stage))?.stage.speedup?.plain_speed;
    const { speed = plainSpeed, times = header?.drafters.length ? "" : "1×", outcome, range } = speedup ?? {};
    const { low, high } = this.ratioAmong(sides) ?? {};
    const isUnclear = outcome === "similar";
    const doubt = isUnclear ? "no clear difference" : times ? "" : stage.speed.doubt || "not measured";
    return [
      { name: "tokens per round", text: tau.toFixed(2) },
      { name: "tokens/s", text: speed ?? (stage.speed.text || "–"), low, high, doubt: speed ? "" : stage.speed.doubt },
      { name: "plain decoding", text: (isUnclear ? range : times) || "–", low, high, doubt, range },
      { name: "rounds", text: String(rounds.length) },
      { name: "tokens", text: String(figures.tokens) },
    ];
  }

  /** Marks the figures that are best of all runs, unless ranges overlap; speeds by their ratio to plain decoding.
   *  @param {ComparedFigure[]} figures @param {ComparedFigure[][]} others */
  drawFigures(figures, others) {
    this.figures.replaceChildren(...figures.map(({ name, low = NaN, text, doubt, range }, place) => {
      const item = html("div", "");
      const best = !doubt && others.length > 0 && others.every((other) => low > (other[place].high ?? NaN));
      html("dd", best ? "is-better" : doubt && "is-doubtful", item, best ? `${text} ▲` : text);
      html("dt", "", item, [name, doubt || range].filter(Boolean).join(", "));
      return item;
    }));
  }
}

export class Compare {
  sides = /** @type {Side[]} */ ([]);
  compared = ""; // the names of the runs that are shown, from their best round on
  firstDifference = 0; // the first token at which the texts differ

  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ parent) {
    this.lab = lab;
    const bar = html("div", "lab-race-bar lab-pair-bar", parent);
    this.status = html("p", "lab-note", bar);
    this.differenceButton = action(bar, "Go to the first difference", "", () => this.goToToken(this.firstDifference));
    this.differenceButton.hidden = true;
    this.slider = html("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Place in the text" }, bar);
    this.slider.addEventListener("input", () => this.goToToken(Number(this.slider.value)));
    this.position = html("span", "lab-clock", bar);
    action(bar, "Choose runs", "Tick two to four in the list of runs", () => controls.parts?.runs?.toggle(true));
    this.common = html("p", "lab-caption lab-common", parent); // the machine and prompt that all runs share
    this.grid = html("div", "lab-grid lab-runs", parent);
    this.depths = html("div", { class: "lab-pair-depths", role: "img" }, parent);
    this.race = new Race(lab, html("div", "lab-pane-race", parent));
    lab.stage.on("ticked", () => lab.stage.mode === "lab" && this.draw());
  }

  // Shows at most four runs: those of a link, or the ticked ones; if fewer than two, also the shown run and one to compare with
  // it: of a recording, another one; of an own run, the latest of the same prompt, or else the latest.
  draw() {
    const { stage } = this.lab;
    const shown = stage.header && stage.rounds.length && !stage.busy ? [stage.value.run] : [];
    const recorded = (controls.parts?.recordings.listed ?? []).map(({ name }) => name);
    const samePrompt = (/** @type {RunPoint} */ { prompt }) => Number(prompt === stage.header?.prompt);
    const own = stage.ownRuns.toSorted((one, other) => samePrompt(other) - samePrompt(one)).map(({ run }) => run);
    const others = stage.recorded ? [...recorded, ...own] : [...own, ...recorded];
    const chosen = stage.linkedRuns.length ? stage.linkedRuns : stage.overlaidRuns.map(({ run }) => run);
    const runs = [...new Set([...chosen, ...shown, ...others])].slice(0, Math.max(2, Math.min(SIDES.length, chosen.length)));
    controls.parts?.address.write(false);
    while (this.sides.length > runs.length) this.sides.pop()?.box.remove();
    while (this.sides.length < runs.length) this.sides.push(new Side(this.grid, this.sides.length));
    this.sides.forEach((side, place) => side.open(runs[place], () => this.update()));
    this.update();
  }

  update() {
    const shown = this.sides.filter((side) => side.ends);
    const { prompt, machine } = common(shown.map(({ stage }) => stage));
    const runs = String(shown.map(({ run }) => run));
    const figures = shown.map((side) => side.figuresAmong(shown));
    shown.forEach((side, place) => side.drawFigures(figures[place], prompt && machine ? figures.filter((other) => other !== figures[place]) : []));
    for (const { title, stage: { header } } of shown) {
      if (header) title.title = write(title, header.title).textContent ?? "";
    }
    const machines = shown.flatMap(({ name, stage: { header } }) => (header ? `${name}: ${machineOf(header)}` : []));
    write(this.common, [machine || machines.join(" · "), prompt].filter(Boolean).join(" · ")).title = prompt;
    this.grid.classList.toggle("lab-one-prompt", Boolean(prompt));
    this.slider.max = String(Math.max(0, ...shown.map(({ ends }) => (ends?.at(-1) ?? 1) - 1)));
    write(this.status, shown.length > 1 ? this.comparability(shown) : "Choose two runs that the server still has.");
    const isLarge = shown.some(({ stage: { rounds } }) => rounds.some(({ n }) => n > ICICLE_NODES));
    if (shown.length && runs !== this.compared) {
      this.compared = runs;
      for (const { tree } of shown) tree.asIcicle = isLarge || null; // both alike
      this.slider.value = String(shown[0].ends?.[bestRound(shown[0].stage.rounds) - 1] ?? 0);
    }
    this.goToToken(Math.min(Number(this.slider.value), Number(this.slider.max)));
    this.compareTexts(shown);
  }

  // Asks the server where texts and rounds of the first run and each other differ, and how deep each run accepted.
  async compareTexts(/** @type {Side[]} */ shown) {
    const runs = shown.map((side) => side.run);
    const [first, ...others] = runs;
    const { server } = this.lab.stage;
    if (!server) return;
    const answers = await Promise.all(others.map((run) => server.two_runs({ first: { run: first }, second: { run } })));
    if (shown.some((side, place) => side.run !== runs[place])) return;
    const compared = answers.flatMap((answer) => ("error" in answer ? [] : [answer]));
    const differences = compared.flatMap(({ same_prompt: same, first_difference: tokens }) => (same && tokens ? [tokens[0]] : []));
    this.firstDifference = Math.min(...differences);
    this.differenceButton.hidden = !differences.length;
    const sentences = answers.map((answer, place) => {
      const sentence = "error" in answer ? answer.error : `${answer.summary} ${answer.rule}`.trim();
      return others.length > 1 ? `The first and the ${SIDES[place + 1]}: ${sentence}` : sentence;
    });
    if (sentences.length) write(this.status, [...sentences, this.comparability(shown)].join(" "));
    const complete = compared.length > 0 && compared.length === answers.length;
    this.drawDepths(complete ? [compared[0].sides[0], ...compared.map(({ sides }) => sides[1])] : [], shown);
  }

  // Draws a bar for each depth and run: the share that accepted to this depth, of the rounds that drafted to it.
  drawDepths(/** @type {import("../types.d.ts").Side[]} */ sides, /** @type {Side[]} */ shown) {
    const methods = shown.map(({ stage }) => stage.header?.method ?? "");
    const colour = (/** @type {HTMLElement} */ bar, /** @type {number} */ place) => {
      bar.style.setProperty("--o", methodColour(methods[place]));
      bar.classList.toggle("is-again", methods.indexOf(methods[place]) < place); // another run of the same method
    };
    const maxDepth = Math.max(0, ...sides.map(({ depths }) => depths.length));
    this.depths.hidden = maxDepth === 0;
    const words = sides.map(({ depths, rows }, place) => (
      `${SIDES[place]}: ${rows.toFixed(1)} rows a round, ${depths.map((share) => `${Math.round(share * 100)} %`).join(", ")}`));
    this.depths.setAttribute("aria-label", `Accepted by depth, from 1. ${words.join("; ")}.`);
    this.depths.replaceChildren();
    const title = html("p", "lab-caption", this.depths, "Accepted by depth: the share of the rounds that drafted to this depth");
    methods.forEach((method, place) => {
      const key = html("span", "lab-pair-key", title);
      colour(key, place);
      methodMark(method, key);
      key.append(SIDES[place]);
    });
    const row = html("div", "lab-pair-columns", this.depths);
    for (let depth = 0; depth < maxDepth; depth++) {
      const column = html("div", "lab-pair-depth", row);
      sides.forEach(({ depths }, place) => {
        const bar = html("i", "", column);
        colour(bar, place);
        bar.style.height = `${100 * (depths[depth] || 0)}%`;
        bar.title = depth < depths.length ? `Depth ${depth + 1}, ${SIDES[place]} run: ${Math.round(100 * depths[depth])} % accepted` : "";
      });
      html("span", "", column, String(depth + 1));
    }
  }

  // Returns which figures can be compared, in sentences.
  comparability(/** @type {Side[]} */ shown) {
    const repetitions = shown.map(({ name, stage: { repetition } }) => (
      repetition ? `The ${name} text repeats itself from token ${repetition.token + 1} on; its τ and speed cover the part before.` : ""));
    return [this.comparableSpeeds(shown), ...repetitions].filter(Boolean).join(" ");
  }

  comparableSpeeds(/** @type {Side[]} */ shown) {
    const { prompt, machine } = common(shown.map((side) => side.stage));
    const [first, ...others] = shown.map((side) => side.ratioAmong(shown));
    if (prompt && machine && [first, ...others].every(Boolean)) {
      return others.map(({ ratio, low, high }, place) => {
        const range = [low / first.high, high / first.low];
        const lead = `The ${shown[place + 1].name} run is ${ratioText(ratio / first.ratio)}× as fast as the ${shown[0].name} (${range.map(ratioText).join(" to ")})`;
        const plain = [shown[0], shown[place + 1]].flatMap(({ stage: { speedup } }) => speedup?.plain_speed ?? []);
        if (range[0] > 1 || range[1] < 1) return `${lead}.`;
        return `${lead}: no clear difference${plain.length > 1 ? `; plain decoding wrote ${plain.join(" and ")} tokens/s beside them` : ""}.`;
      }).join(" ");
    }
    if (prompt && machine) return "The same prompt and machine, but not all were timed beside plain decoding: do not compare their speeds.";
    if (machine) return "Different prompts on the same machine: compare settings on one prompt.";
    return `${prompt ? "The same prompt" : "Different prompts"} on different machines or precisions: do not compare tokens/s.`;
  }

  goToToken(/** @type {number} */ token) {
    this.slider.value = String(token);
    for (const { ends, stage } of this.sides) { // each shows the round that wrote its token there
      if (ends) stage.go(ends.findIndex((end, index) => token < end || index === ends.length - 1));
    }
    write(this.position, `token ${token + 1} of ${Number(this.slider.max) + 1}`);
  }
}
