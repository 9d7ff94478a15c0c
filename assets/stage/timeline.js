// Playing: one round after the other at a pace for the eye. The engine's own times are in the figures, not in the pace.

import { button, html, put, sparing, svg, write } from "../panels/ink.js";
import { freshPen, onTheme } from "../panels/pen.js";
import { missingWords } from "./round.js";

const PACE_MS = 1000; // a round at speed 1
const READ_MS = 320; // a round of a live run, where the eye keeps up with it
const CATCH_UP_MS = 3000; // in which all rounds that wait are shown
const SEEN_MS = 200; // a round that is shown for less does not grow
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];

export class Player {
  constructor(stage) {
    this.stage = stage;
    this.playing = false;
    this.speed = 1;
    for (const event of ["asked", "begin"]) stage.on(event, () => this.pause());
    stage.on("arrived", () => this.follow());
    stage.on("mode", ({ moved }) => moved && this.playing && stage.following && this.skip());
  }

  toggle() {
    const { playing } = this;
    this.go(this.stage.current, {});
    if (!playing) this.play();
  }

  play() {
    const { stage } = this;
    if (stage.rounds.length < 2) return;
    if (stage.current >= stage.rounds.length - 1) stage.go(0, { animate: true });
    this.playing = true;
    this.stage.tell("play", this);
    this.wait();
  }

  pause() {
    clearTimeout(this.timer);
    if (!this.playing) return;
    this.playing = false;
    this.stage.tell("play", this);
  }

  // The rounds of a live run at the speed of reading; the more of them wait, the faster.
  follow() {
    if (this.playing) return;
    this.playing = true;
    this.rush = READ_MS;
    this.stage.tell("play", this);
    this.tick();
  }

  // To the newest round of a live run, and to its end where it has ended.
  skip() {
    const { stage } = this;
    stage.go(stage.rounds.length - 1, { follow: true });
    if (!stage.live) this.finish();
  }

  wait() {
    clearTimeout(this.timer);
    const { current, following, rounds } = this.stage;
    if (following) this.rush = Math.min(this.rush, CATCH_UP_MS / Math.max(1, rounds.length - 1 - current));
    this.timer = setTimeout(() => this.tick(), following ? this.rush : PACE_MS / this.speed);
  }

  tick() {
    const { stage } = this;
    const { following } = stage;
    const last = stage.current >= stage.rounds.length - 1;
    if (last && !stage.live) {
      this.finish();
      return;
    }
    if (!last) stage.go(stage.current + 1, { animate: following ? this.rush > SEEN_MS : this.speed <= 2, follow: following });
    this.wait();
  }

  finish() {
    this.pause();
    this.stage.tell("finale");
  }

  // A step by hand ends playback.
  step(by) {
    this.go(this.stage.current + by, { animate: true });
  }

  go(index, how) {
    this.pause();
    this.stage.tell("hand");
    this.stage.go(index, how);
  }

  faster(by) {
    const place = SPEEDS.indexOf(this.speed) + by;
    this.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))];
    this.stage.tell("play", this);
    if (this.playing) this.wait();
  }
}

// A bar per round: as high as the tokens it kept, divided by where its time went. Click, drag, or the arrow keys.
const STAGES = ["draft", "build", "pack", "verify", "accept", "keep", "other", "loop", "wait"];
const ICONS = {
  first: "M2 2h2.4v12H2zM14 2v12L5.4 8z", back: "M12.5 2v12L3.5 8z", play: "M3.5 1.5v13L14 8z",
  pause: "M3 2h3.6v12H3zM9.4 2H13v12H9.4z", on: "M3.5 2v12l9-6z", last: "M11.6 2H14v12h-2.4zM2 2v12l8.6-6z",
};
const WIDEST = 64;
const TOP = 6;
const BOTTOM = 4;
const LEFT = 30;

export class Timeline {
  constructor(stage, player, parent) {
    this.stage = stage;
    this.player = player;
    this.plan = sparing(() => this.draw());
    this.box = html("section", { class: "cs-timeline", "aria-label": "Timeline" }, parent);
    this.chart = html("div", "cs-chart", this.box);
    this.canvas = html("canvas", { class: "cs-bars", tabIndex: 0, role: "slider", "aria-label": "Round" }, this.chart);
    this.tip = html("div", { class: "cs-bar-tip", hidden: true }, this.chart);
    this.transport();
    for (const event of ["value", "round", "begin"]) stage.on(event, this.plan);
    for (const event of ["play", "state", "round"]) stage.on(event, () => this.playing());
    new ResizeObserver(this.plan).observe(this.chart);
    onTheme(this.plan);
    this.hands();
  }

  transport() {
    const row = html("div", "cs-transport", this.box);
    const { player, stage } = this;
    const icon = (name, title, act, look) => {
      const made = button(row, "", title, act, look);
      draw(made, name);
      return made;
    };
    icon("first", "First round (Home)", () => player.go(0, {}));
    icon("back", "Previous round (←)", () => player.step(-1));
    this.toggle = icon("play", "Play (Space)", () => player.toggle(), "cs-play");
    icon("on", "Next round (→)", () => player.step(1));
    icon("last", "Last round (End)", () => player.go(stage.rounds.length - 1, {}));
    this.place = html("span", "cs-place", row);
    button(row, "−", "Slower ([)", () => player.faster(-1), "cs-slower");
    this.speed = html("span", { class: "cs-speed", title: "Playback speed; 1× is one round a second. Measured times do not depend on it." }, row);
    button(row, "+", "Faster (])", () => player.faster(1));
    this.newest = button(row, "● newest", "Follow the newest round", () => {
      player.pause();
      stage.go(stage.rounds.length - 1, { follow: true, animate: true });
    }, "cs-newest");
    this.key = html("div", {
      class: "cs-stage-key", title: "The parts of each bar: the share of the round's engine time that each stage took.",
    }, row);
    for (const name of STAGES.slice(0, -2)) {
      const item = html("span", "", this.key);
      html("i", "", item);
      item.append(name);
      item.style.setProperty("--key", `var(--stage-${name})`);
    }
    this.playing();
  }

  playing() {
    const { player, stage } = this;
    draw(this.toggle, player.playing ? "pause" : "play");
    this.toggle.title = player.playing ? "Pause (Space)" : "Play (Space)";
    this.toggle.setAttribute("aria-label", this.toggle.title);
    write(this.speed, `${player.speed}×`);
    write(this.place, stage.round ? whereabouts(stage) : "no round yet");
    this.newest.hidden = !stage.live || stage.following;
  }

  hands() {
    const { canvas, player, stage } = this;
    const seek = (event) => {
      const index = this.at(event);
      if (index !== null && index !== stage.current) player.go(index, { push: event.type === "pointerdown" });
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      player.pause();
      seek(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) seek(event);
      this.say(event);
    });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  geometry() {
    const count = this.stage.rounds.length;
    const room = Math.max(1, this.chart.clientWidth - LEFT - 4);
    return { count, step: Math.min(WIDEST, room / Math.max(1, count)) };
  }

  at(event) {
    const { count, step } = this.geometry();
    if (!count) return null;
    const x = event.clientX - this.canvas.getBoundingClientRect().left - LEFT;
    return Math.max(0, Math.min(count - 1, Math.floor(x / step)));
  }

  say(event) {
    const place = this.at(event);
    const made = this.stage.rounds[place];
    this.tip.hidden = !made;
    if (!made) return;
    const spent = (1000 * made.spent).toFixed(1);
    this.tip.textContent = made.chunked
      ? `chunk ${made.index + 1}: ${made.keep.length} tokens, ${spent} ms after the one before`
      : `round ${made.index + 1}: ${made.keep.length} tokens kept of ${made.n} rows verified, ${spent} ms, most of it ${largest(made.seconds)}`;
    const missing = this.stage.missing(place);
    if (missing) this.tip.append(`. Before it, ${missingWords(missing).toLowerCase()}`);
    const x = LEFT + (place + 0.5) * this.geometry().step;
    this.tip.style.left = `${Math.max(4, Math.min(x - 40, this.chart.clientWidth - this.tip.offsetWidth - 4))}px`;
  }

  draw() {
    const { canvas, stage } = this;
    const [width, height] = [this.chart.clientWidth, this.chart.clientHeight];
    if (!width || !height) return;
    const pen = freshPen(canvas, width, height);
    const style = getComputedStyle(canvas);
    const known = new Map(); // asked once a drawing: a thousand bars have seven colours
    const colour = (name) => {
      if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim());
      return known.get(name);
    };
    const { step } = this.geometry();
    const most = Math.max(4, ...stage.rounds.map((made) => made.keep.length));
    const high = height - TOP - BOTTOM;
    this.axis(pen, most, high, width, colour);
    stage.rounds.forEach((made, index) => {
      pen.globalAlpha = index > stage.current ? 0.4 : 1;
      if (stage.missing(index)) this.gap(pen, LEFT + index * step, high, colour);
      this.bar(pen, made, { x: LEFT + index * step, wide: Math.max(1, step - (step > 4 ? 2 : 0.5)), unit: high / most, high }, colour);
    });
    pen.globalAlpha = 1;
    if (stage.round) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(LEFT + stage.current * step - 1, TOP - 3, Math.max(3, step), high + 5);
    }
    this.announce();
  }

  axis(pen, most, high, width, colour) {
    pen.fillStyle = colour("--quiet");
    pen.strokeStyle = colour("--line");
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const tokens of [0, most]) {
      const y = Math.round(TOP + high * (1 - tokens / most)) + 0.5;
      pen.fillText(String(tokens), LEFT - 8, Math.min(y, TOP + high - 3) + (tokens ? 4 : 0));
      pen.beginPath();
      pen.moveTo(LEFT - 4, y);
      pen.lineTo(width, y);
      pen.stroke();
    }
  }

  bar(pen, made, { x, wide, unit, high }, colour) {
    const spent = STAGES.reduce((sum, name) => sum + (made.seconds[name] || 0), 0);
    const share = (name) => (spent ? (made.seconds[name] || 0) / spent : Number(name === "loop"));
    let bottom = TOP + high;
    for (const name of STAGES) {
      const tall = unit * made.keep.length * share(name);
      pen.fillStyle = colour(`--stage-${name}`);
      pen.fillRect(x, bottom - tall, wide, tall);
      bottom -= tall;
    }
  }

  // Before a round whose predecessor was not recorded.
  gap(pen, x, high, colour) {
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1;
    pen.setLineDash([2, 2]);
    pen.beginPath();
    pen.moveTo(x - 1.5, TOP - 4);
    pen.lineTo(x - 1.5, TOP + high + 3);
    pen.stroke();
    pen.setLineDash([]);
  }

  announce() {
    const { canvas, stage } = this;
    put(canvas, {
      "aria-valuemin": 1, "aria-valuemax": Math.max(1, stage.rounds.length), "aria-valuenow": Math.max(1, stage.current + 1),
      "aria-valuetext": this.place.textContent,
    });
  }
}

// Which round is shown; of a recording with gaps also which of those that it has.
function whereabouts({ round, current, rounds }) {
  const what = round.chunked ? "chunk" : "round";
  const whole = round.index === current && rounds.at(-1).index === rounds.length - 1;
  return whole ? `${what} ${current + 1} of ${rounds.length}` : `${what} ${round.index + 1}, ${current + 1} of ${rounds.length} recorded`;
}

// Icons are drawn because not every system has them in its fonts.
function draw(button, name) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  const picture = svg("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": "true" });
  svg("path", { d: ICONS[name], fill: "currentColor" }, picture);
  button.replaceChildren(picture);
}

function largest(seconds) {
  return Object.entries(seconds).reduce((best, entry) => (entry[1] > best[1] ? entry : best), ["nothing", 0])[0];
}
