// Two to four runs side by side: their figures, their texts, and the trees that wrote the chosen token of each text.

import { fillSelect, selectField } from "./forms.js";
import { action, html, write } from "../shared/ink.js";
import { controls } from "../stage/controls.js";
import { knownRun } from "../shared/lines.js";
import { panels } from "../shared/define.js";
import { settingOf } from "../shared/round.js";
import { Stage } from "../stage/stage.js";
import { TextPanel } from "../stage/text.js";

const SIDES = ["first", "second", "third", "fourth"];
// Each as {name, value: what is compared, null if it is not, text}. Of a text that repeats itself, τ and speed are those
// of the part before.
/** @type {{name: string, value: (shown: any) => number | null, text: (shown: any) => string}[]} */
const FIGURES = [
  { name: "tokens per round", value: ({ measured }) => measured.tau, text: ({ measured }) => measured.tau.toFixed(2) },
  { name: "tokens/s", value: ({ against, fair }) => (against && fair ? Number(against.speed) : null), text: ({ speed }) => speed.text || "–" },
  { name: "plain decoding's speed", value: ({ against }) => (against ? against.ratio : null), text: timesOf },
  { name: "rounds", value: ({ rounds }) => -rounds.length, text: ({ rounds }) => String(rounds.length) },
  { name: "tokens", value: () => null, text: ({ figures }) => String(figures.tokens) },
];

function timesOf({ against, header, withheld }) {
  if (against) return against.times;
  if (header && !header.drafters.length) return "1×";
  return withheld ? "withheld" : "not measured";
}

// Whether one run is what the other was measured beside: plain decoding of the same prompt.
const isPlainOf = (plain, { against, header }) => Boolean(against) && !plain.header.drafters.length && comparable(plain.header, header);

const comparable = (first, second) => sameMachine(first, second) && first.prompt === second.prompt;

const sameMachine = (first, second) => ["rig", "hardware", "dtype"].every((name) => first[name] === second[name]);

// One of the runs: a stage of its own, with the page's own text and tree on it.
class Side {
  constructor(lab, parent, place, changed) {
    this.lab = lab;
    this.box = html("section", { class: "lab-plot lab-side-run", "aria-label": `The ${SIDES[place]} run` }, parent);
    this.choice = selectField(html("div", "lab-toolbar", this.box), `The ${SIDES[place]} run`, "A recording, or the current run", () => this.open(changed));
    this.title = html("p", "lab-caption", this.box);
    this.figures = html("dl", "lab-pair-figures", this.box);
    this.stage = new Stage();
    this.stage.mode = "workbench";
    this.text = html("div", "lab-pair-text", this.box);
    new TextPanel(this.stage, this.text);
    const host = html("div", "lab-pair-tree", this.box);
    this.tree = panels.get("tree").create(host, this.stage);
    this.stage.on("round", () => this.tree.draw(this.stage.round));
    this.stage.on("select", (selection) => this.tree.select(selection));
    new ResizeObserver(() => host.clientWidth > 40 && this.tree.resize()).observe(host);
  }

  offer(entries, usual) {
    const key = JSON.stringify(entries);
    if (key === this.key) return;
    this.key = key;
    fillSelect(this.choice, entries, this.choice.value || usual);
  }

  get run() {
    return this.choice.value === "stage" ? this.lab.stage.value.run : this.choice.value;
  }

  async open(changed) {
    const { run } = this;
    if (!run) {
      write(this.title, "Choose a run.");
      return;
    }
    this.ends = null; // of each round's tokens in the text, once all are there
    const arrived = await this.stage.follow(knownRun(run));
    if (run !== this.run) return;
    write(this.title, this.stage.refusal);
    if (arrived) {
      this.ends = [];
      for (const { keep } of this.stage.rounds) this.ends.push((this.ends.at(-1) || 0) + keep.length);
      const { header } = this.stage;
      write(this.title, [header.title, settingOf(header), header.rig, header.hardware, header.dtype].filter(Boolean).join(" · "));
    }
    changed();
  }

  get shown() {
    return Boolean(this.ends);
  }

  // Its figures beside the other runs'. Beside a run that was measured in turns with plain decoding, that is printed with
  // the speed that it had then.
  values(others) {
    const { stage } = this;
    const drafted = others.find((other) => isPlainOf(stage, other.stage));
    const beside = drafted ? { speed: drafted.stage.against.plain_speed, ratio: 1, times: "1×" } : null;
    const { measured, figures, rounds, header, withheld } = stage;
    const fair = others.every((other) => comparable(stage.header, other.stage.header));
    const shown = { measured, figures, rounds, header, withheld, fair, against: beside || stage.against, speed: beside ? { text: beside.speed } : stage.speed };
    return FIGURES.map(({ name, value, text }) => ({ name, value: value(shown), text: text(shown) }));
  }

  // The figures, the best of all runs marked.
  tell(values, others) {
    this.figures.replaceChildren(...values.map(({ name, value, text }, place) => {
      const item = html("div", "");
      const known = others.length > 0 && [value, ...others.map((other) => other[place].value)].every((one) => one !== null);
      const better = known && others.every((other) => value > other[place].value);
      html("dd", better ? "is-better" : "", item, better ? `${text} ▲` : text);
      html("dt", "", item, name);
      return item;
    }));
  }

  // The round that wrote the token at this place of the text.
  go(token) {
    const index = this.ends.findIndex((end) => token < end);
    this.stage.go(index < 0 ? this.ends.length - 1 : index, {});
  }
}

export class Compare {
  constructor(lab, parent) {
    this.lab = lab;
    const bar = html("div", "lab-race-bar lab-pair-bar", parent);
    this.status = html("p", "lab-note", bar);
    this.part = action(bar, "Go to where the texts differ", "", () => this.go(this.parted));
    this.part.hidden = true;
    this.slider = html("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Place in the text" }, bar);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.place = html("span", "lab-clock", bar);
    this.more = action(bar, "Add a run", "Compare one run more", () => this.add());
    this.less = action(bar, "Remove the last", "Compare one run fewer", () => this.remove());
    this.grid = html("div", "lab-grid lab-runs", parent);
    this.sides = [];
    this.depths = html("div", { class: "lab-pair-depths", role: "img" }, parent);
    for (let place = 0; place < 2; place++) this.add(false);
  }

  add(open = true) {
    this.sides.push(new Side(this.lab, this.grid, this.sides.length, () => this.changed()));
    if (open) this.draw();
    this.count();
  }

  remove() {
    this.sides.pop().box.remove();
    this.count();
    this.changed();
  }

  count() {
    this.more.hidden = this.sides.length === SIDES.length;
    this.less.hidden = this.sides.length < 3;
  }

  // Everything that can be compared: the current run, your earlier ones, then the recordings.
  draw() {
    const { stage } = this.lab;
    const { run } = stage.value;
    const named = (known) => [known.run, `${known.title}: ${known.prompt.slice(0, 40)}`];
    const listed = controls.parts.lessons.listed.map(({ name, title }) => [name, title]);
    const current = stage.header && stage.rounds.length && !stage.busy && !listed.some(([name]) => name === run);
    const earlier = stage.kept.filter((kept) => !current || kept.run !== run).map(named);
    const entries = [...(current ? [["stage", "current run"]] : []), ...earlier, ...listed];
    const pins = Object.values(stage.pins).map((pin) => named(current && pin.run === run ? { ...pin, run: "stage" } : pin));
    entries.push(...pins.filter(([name]) => !entries.some(([other]) => other === name)));
    const recording = listed.find(([name]) => name === run);
    const usual = new Set([...pins, ...(recording ? [recording] : []), ...entries].map(([name]) => name));
    this.sides.forEach((side, place) => {
      const value = [...usual][place] || [...usual][0] || "";
      side.offer(entries, value);
      if (!side.shown && value) side.open(() => this.changed());
    });
  }

  changed() {
    const shown = this.sides.filter((side) => side.shown);
    const values = new Map(shown.map((side) => [side, side.values(shown.filter((other) => other !== side))]));
    for (const [side, own] of values) side.tell(own, shown.filter((other) => other !== side).map((other) => values.get(other)));
    this.slider.max = String(Math.max(0, ...shown.map((side) => side.ends.at(-1) - 1)));
    write(this.status, shown.length > 1 ? this.relation(shown) : "Choose two runs.");
    this.go(Math.min(Number(this.slider.value), Number(this.slider.max)));
    this.hold(shown);
  }

  // Where texts and rounds differ, and how deep each run accepted: the server compares the first with each other run.
  async hold(shown) {
    const runs = shown.map((side) => side.run);
    const [first, ...others] = runs;
    const { server } = this.lab.stage;
    const answers = await Promise.all(others.map((run) => server.two_runs({ first: { run: first }, second: { run } })));
    if (shown.some((side, place) => side.run !== runs[place])) return;
    const parted = answers.flatMap((answer) => (answer.same_prompt && answer.texts_part ? [answer.texts_part[0]] : []));
    this.parted = Math.min(...parted);
    this.part.hidden = !parted.length;
    const said = answers.map(({ error, said: sentence = error, rule = "" }, place) => `${others.length > 1 ? `Beside the ${SIDES[place + 1]}: ` : ""}${sentence} ${rule}`.trim());
    if (said.length) write(this.status, [...said, this.relation(shown)].join(" "));
    this.drawDepths(answers.every(({ sides }) => sides) && answers.length ? [answers[0].sides[0], ...answers.map(({ sides }) => sides[1])] : []);
  }

  // For each depth a bar of each run: of its rounds that drafted to that depth, the share that accepted to it.
  drawDepths(sides) {
    const deepest = Math.max(0, ...sides.map(({ depths }) => depths.length));
    this.depths.hidden = deepest === 0;
    const words = sides.map(({ depths, rows }, place) => `${SIDES[place]}: ${rows.toFixed(1)} rows a round, ${depths.map((share) => `${Math.round(share * 100)} %`).join(", ")}`);
    this.depths.setAttribute("aria-label", `Accepted by depth, from 1. ${words.join("; ")}.`);
    const columns = Array.from({ length: deepest }, (_, depth) => {
      const column = html("div", "lab-pair-depth", null);
      sides.forEach(({ depths }, place) => {
        const bar = html("i", `is-${SIDES[place]}`, column);
        bar.style.height = `${100 * (depths[depth] || 0)}%`;
        bar.title = depth < depths.length ? `Depth ${depth + 1}, ${SIDES[place]} run: ${Math.round(100 * depths[depth])} % accepted` : "";
      });
      html("span", "", column, String(depth + 1));
      return column;
    });
    const title = html("p", "lab-caption", null, "Accepted by depth: of the rounds that drafted to that depth, the share that accepted to it");
    for (const side of SIDES.slice(0, sides.length)) {
      html("i", `lab-pair-key is-${side}`, title);
      title.append(side);
    }
    const row = html("div", "lab-pair-columns", null);
    row.append(...columns);
    this.depths.replaceChildren(title, row);
  }

  // Which figures may be compared, in sentences.
  relation(shown) {
    const stages = shown.map((side) => side.stage);
    const told = stages.map(({ repetition }, place) => (repetition ? `The ${SIDES[place]} text repeats itself from token ${repetition.token + 1} on; its τ and speed are those of the part before.` : ""));
    return [this.comparable(stages), ...told].filter(Boolean).join(" ");
  }

  comparable(stages) {
    const [first, ...others] = stages.map(({ header }) => header);
    const prompt = others.every((other) => other.prompt === first.prompt);
    const machine = others.every((other) => sameMachine(first, other));
    const known = stages.every((run) => Boolean(run.against) || stages.some((other) => isPlainOf(run, other)));
    if (prompt && machine && known) return "The same prompt on the same machine: speeds can be compared.";
    if (prompt && machine) return "The same prompt on the same machine, but not all speeds were measured beside plain decoding: they are not compared.";
    if (machine) return "Different prompts on the same machine: τ depends on the text.";
    return `${prompt ? "The same prompt" : "Different prompts"} on different machines or precisions: do not compare tokens/s.`;
  }

  go(token) {
    this.slider.value = String(token);
    for (const side of this.sides) if (side.shown) side.go(token);
    write(this.place, `token ${token + 1} of ${Number(this.slider.max) + 1}`);
  }
}
