// Plots of the lab: plotly.js once, figures from Python, the page's colours at the moment of drawing.

import { CONFIG, dressed } from "./dressing.js";
import { button, bytesOf, html } from "../shared/ink.js";
import { Empty } from "../panels/panel.js";
import { onTheme } from "../shared/pen.js";
import { Menu } from "../shared/overlays.js";
import { modes } from "../stage/stage.js";

/** @type {Record<string, string>} */
export const WORDS = {
  "τ": "Tokens that a round adds to the text, on average; the root counts, so plain decoding has τ = 1.",
  "tokens/s": "Tokens divided by engine time: the sum of all rounds, without reading the prompt, the network or this page.",
  "node budget": "How many guesses a round may draft; the target verifies one row more, the root's.",
  auto: "The adaptive budget: each round verifies as many nodes as pay on this machine, 256 at most.",
  "95 %": "An interval that contains the true median in 95 of 100 such measurements (order statistics over prompts).",
  "spread": "From the slowest to the fastest of the runs.",
  "plain decoding": "The method autoregressive: no drafter, one token a pass, measured on the same machine.",
  "Σq": "The drafter's probabilities summed over the tree: how many drafted tokens it expects to be accepted.",
  "rank": "The place of a token in the drafter's list for its position; 1 is the likeliest.",
  "depth": "How many tokens after the root.",
  "pays from": "The τ from which the setting is faster than plain decoding: the time of its rounds in rounds of plain decoding, as measured; modelled: by the cost of a pass, once Predict all budgets has measured that.",
  "predicted": "Calculated from one text and the measured cost of a pass; not a measurement of that setting.",
  "pass": "One run of the target over one or more rows.",
  "round": "One draft and one pass of the target over it.",
};

/** Text in which {word} is a word with its definition on hover. @template {Element} E @param {E} parent @param {string} text */
export function prose(parent, text) {
  for (const part of text.split(/(\{[^}]+\})/)) {
    const word = part.startsWith("{") ? part.slice(1, -1) : "";
    if (!word) parent.append(part);
    else html("abbr", "lab-word", parent, word).title = WORDS[word] || "";
  }
  return parent;
}

async function unpacked(/** @type {string} */ data) {
  return new Response(new Blob([bytesOf(data)]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// plotly.js, fetched from the page's own server when the lab is first looked at. Our own reference to it is kept:
// other components may bring another version along under the same name.
export class Library {
  plotly = /** @type {any} */ (null);
  loading = /** @type {Promise<any> | null} */ (null);

  constructor(/** @type {LabServer} */ server) {
    this.server = server;
  }

  load() {
    return this.loading ??= this.fetch();
  }

  async fetch() {
    const script = document.createElement("script");
    script.text = await unpacked(/** @type {string} */ (await this.server.lab_plotly({})));
    const before = window.Plotly;
    document.head.append(script);
    this.plotly = window.Plotly;
    if (before) window.Plotly = before;
    return this.plotly;
  }
}

export class Plot {
  onPoint = /** @type {((point: any) => unknown) | null} */ (null); // called for a click on a point, with Plotly's description of it
  figure = /** @type {Figure | null} */ (null);
  stale = false; // the figure is not drawn yet
  held = false; // in the middle of a drag
  drawn = ""; // the size that it was drawn in
  fits = 0; // how often a zoom was undone
  listening = false;

  /** The caption is one sentence, its {words} explained on hover.
   *  @param {Library} library @param {Element} parent @param {{ name: string, title: string, caption: string }} about */
  constructor(library, parent, about) {
    this.library = library;
    this.box = html("section", `lab-plot lab-plot-${about.name}`, parent);
    this.box.dataset.plot = about.name;
    this.box.setAttribute("aria-label", about.title);
    const head = html("header", "lab-plot-head", this.box);
    this.title = html("h3", "", head, about.title);
    prose(html("p", "lab-caption", head), about.caption);
    this.tools = html("div", "lab-plot-tools", head);
    button(this.tools, "fit", "Undo the zoom (double click)", () => this.fit());
    this.menu = new Menu(this.tools, "⤓", `Save “${about.title}” as an image`, () => ["svg", "png"].map((format) => (
      { label: format.toUpperCase(), act: () => this.save(format, about.name) })));
    this.body = html("div", "lab-plot-body", this.box);
    this.canvas = /** @type {PlotlyElement} */ (html("div", "lab-canvas", this.body));
    this.canvas.setAttribute("role", "figure"); // not an image: it contains plotly's own controls
    this.empty = new Empty(this.body);
    this.canvas.addEventListener("pointerdown", () => this.hold());
    new ResizeObserver(() => this.resize()).observe(this.body);
    onTheme(() => this.redraw());
  }

  /** Instead of a figure, why there is none and how to get one. @param {string} headline @param {string} more */
  say(headline, more) {
    this.figure = null;
    this.canvas.hidden = true;
    this.empty.say(headline, more);
  }

  draw(/** @type {Figure} */ figure) {
    this.figure = figure;
    this.stale = true; // drawn as soon as it is on the screen
    this.empty.hide();
    this.canvas.hidden = false;
    this.canvas.setAttribute("aria-label", figure.summary || "");
    return this.redraw();
  }

  get visible() {
    return this.body.clientWidth > 40 && this.body.clientHeight > 40;
  }

  async redraw() {
    if (!this.figure || !this.visible || this.held) return;
    const plotly = this.library.plotly || (await this.library.load());
    if (!this.figure) return;
    const { data, layout } = dressed(this.figure, this.canvas);
    const size = { width: this.body.clientWidth, height: this.body.clientHeight };
    const uirevision = this.fits ? `${layout.uirevision}, fitted ${this.fits}` : layout.uirevision; // a new one undoes the zoom
    await plotly.react(this.canvas, data, { ...layout, ...size, uirevision }, CONFIG);
    this.drawn = `${size.width} ${size.height}`;
    this.stale = false;
    if (!this.listening) this.listen();
  }

  fit() {
    this.fits++;
    this.stale = true; // during a drag nothing is drawn, but after it
    return this.redraw();
  }

  // A drawing in the middle of a drag would undo the zoom that the drag is about.
  hold() {
    this.held = true;
    const release = () => setTimeout(() => {
      this.held = false;
      if (this.stale) this.redraw();
    }, 80);
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, release, { once: true, capture: true });
  }

  listen() {
    this.listening = true;
    this.canvas.on("plotly_click", ({ points }) => {
      if (this.onPoint && points[0]) this.onPoint(points[0]);
    });
  }

  resize() {
    const moved = this.drawn !== `${this.body.clientWidth} ${this.body.clientHeight}`;
    if (this.visible && (this.stale || moved)) this.redraw();
  }

  /** @param {string} format @param {string} name */
  save(format, name) {
    if (!this.figure || !this.library.plotly) return;
    const { width, height } = this.canvas.getBoundingClientRect();
    this.library.plotly.downloadImage(this.canvas, { format, width, height, scale: 2, filename: `canopy-${name}` });
  }
}

/** Draws the figures that there are; the others say why not: `why` gives a headline and more for a plot's name.
 *  @template {string} Name @param {Record<Name, Plot>} plots @param {{ [name in NoInfer<Name>]?: Figure | null }} figures
 *  @param {(name: NoInfer<Name>) => [headline: string, more: string]} why */
export function drawAll(plots, figures, why) {
  for (const name in plots) {
    const figure = figures[name];
    if (figure) plots[name].draw(figure);
    else plots[name].say(...why(name));
  }
}

if (modes) modes.push("lab");
