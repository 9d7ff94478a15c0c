// Two runs side by side: their figures, their texts, and the trees that wrote the chosen token of each text.

import { fillSelect, selectField } from "./forms.js";
import { action, html, write } from "../shared/ink.js";
import { controls } from "../stage/controls.js";
import { wholeRun } from "../stage/lessons.js";
import { panels } from "../shared/define.js";
import { settingOf } from "../shared/round.js";
import { Stage } from "../stage/stage.js";
import { TextPanel } from "../stage/text.js";

const SIDES = ["first", "second"];
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

// One of the two: a stage of its own, with the page's own text and tree on it.
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
    const value = run ? await wholeRun(this.lab.stage.server, run) : { error: "Choose a run." };
    if (run !== this.run) return;
    write(this.title, value.error || "");
    if (!value.error) {
      this.stage.show({ ...value, run, state: "done" });
      this.ends = [];
      for (const { keep } of this.stage.rounds) this.ends.push((this.ends.at(-1) || 0) + keep.length);
      const { header } = this.stage;
      write(this.title, [header.title, settingOf(header), header.rig, header.hardware, header.dtype].filter(Boolean).join(" · "));
    }
    changed();
  }

  get shown() {
    return this.stage.rounds.length > 0;
  }

  // Its figures beside the other run's. Beside a run that was measured in turns with plain decoding, that is printed with
  // the speed that it had then.
  values(other) {
    const { stage } = this;
    const beside = other && isPlainOf(stage, other.stage) ? { speed: other.stage.against.plain_speed, ratio: 1, times: "1×" } : null;
    const { measured, figures, rounds, header, withheld } = stage;
    const fair = other && comparable(stage.header, other.stage.header);
    const shown = { measured, figures, rounds, header, withheld, fair, against: beside || stage.against, speed: beside ? { text: beside.speed } : stage.speed };
    return FIGURES.map(({ name, value, text }) => ({ name, value: value(shown), text: text(shown) }));
  }

  // The figures, the better of the two marked.
  tell(values, other) {
    this.figures.replaceChildren(...values.map(({ name, value, text }, place) => {
      const item = html("div", "");
      const known = other && other[place].value !== null && value !== null;
      const better = known && value > other[place].value;
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
    this.part = action(bar, "Go to where the texts differ", "", () => {
      this.slider.value = String(this.held.texts_part[0]);
      this.go(Number(this.slider.value));
    });
    this.part.hidden = true;
    this.slider = html("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Place in the text" }, bar);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.place = html("span", "lab-clock", bar);
    const grid = html("div", "lab-grid lab-two", parent);
    this.sides = SIDES.map((_, place) => new Side(lab, grid, place, () => this.changed()));
    this.depths = html("div", { class: "lab-pair-depths", role: "img" }, parent);
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
    const [first] = pins[0] || recording || entries[0] || [""];
    const [second] = pins[1] || entries.find(([name]) => name !== first) || [first];
    this.sides.forEach((side, place) => {
      const value = [first, second][place];
      side.offer(entries, value);
      if (!side.shown && value) side.open(() => this.changed());
    });
  }

  changed() {
    const shown = this.sides.filter((side) => side.shown);
    const values = this.sides.map((side, place) => (side.shown ? side.values(this.sides[1 - place].shown ? this.sides[1 - place] : null) : null));
    this.sides.forEach((side, place) => side.shown && side.tell(values[place], values[1 - place]));
    this.slider.max = String(Math.max(0, ...shown.map((side) => side.ends.at(-1) - 1)));
    write(this.status, shown.length === 2 ? this.relation(...shown) : "Choose two runs.");
    this.go(Math.min(Number(this.slider.value), Number(this.slider.max)));
    this.hold(shown);
  }

  // Where texts and rounds differ, and how deep each run accepted: the server compares the two.
  async hold(shown) {
    const runs = shown.map((side) => side.run);
    const { server } = this.lab.stage;
    const answer = shown.length === 2 ? await server.two_runs({ first: { run: runs[0] }, second: { run: runs[1] } }) : { sides: [] };
    if (this.sides.some((side, place) => shown.length === 2 && side.run !== runs[place])) return;
    this.held = answer;
    this.part.hidden = !(answer.same_prompt && answer.texts_part);
    const { error, said = error, rule = "", sides = [] } = answer;
    if (said) write(this.status, [said, rule, this.relation(...shown)].join(" "));
    this.drawDepths(sides);
  }

  // For each depth a bar of either run: of its rounds that drafted to that depth, the share that accepted to it.
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
    for (const side of SIDES) {
      html("i", `lab-pair-key is-${side}`, title);
      title.append(side);
    }
    const row = html("div", "lab-pair-columns", null);
    row.append(...columns);
    this.depths.replaceChildren(title, row);
  }

  // Which figures of the two may be compared, in a sentence.
  relation({ stage: one }, { stage: other }) {
    const [first, second] = [one.header, other.header];
    const prompt = first.prompt === second.prompt;
    const machine = sameMachine(first, second);
    const told = [one, other].map(({ repetition }, place) => (repetition ? `The ${SIDES[place]} text repeats itself from token ${repetition.token + 1} on; its τ and speed are those of the part before.` : ""));
    return [this.comparable(one, other, prompt, machine), ...told].filter(Boolean).join(" ");
  }

  comparable(one, other, prompt, machine) {
    const known = (run, beside) => Boolean(run.against) || isPlainOf(run, beside);
    if (prompt && machine && known(one, other) && known(other, one)) return "The same prompt on the same machine: speeds can be compared.";
    if (prompt && machine) return "The same prompt on the same machine, but not both speeds were measured beside plain decoding: they are not compared.";
    if (machine) return "Different prompts on the same machine: τ depends on the text.";
    return `${prompt ? "The same prompt" : "Different prompts"} on different machines or precisions: do not compare tokens/s.`;
  }

  go(token) {
    for (const side of this.sides) if (side.shown) side.go(token);
    write(this.place, `token ${token + 1} of ${Number(this.slider.max) + 1}`);
  }
}
