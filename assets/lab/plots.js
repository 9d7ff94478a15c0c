// Plots of the lab: plotly.js once, figures from Python, the page's colours at the moment of drawing.

import { CONFIG, dressed } from "./dressing.js";
import { action, button, bytesOf, html } from "../shared/ink.js";
import { Empty } from "../panels/panel.js";
import { onTheme } from "../shared/pen.js";
import { Menu } from "../shared/overlays.js";
import { TERMS } from "../shared/terms.js";
import { modes } from "../stage/stage.js";

/** @type {Record<string, string>} */
export const WORDS = {
  ...Object.fromEntries(TERMS),
  "tokens/s": "Tokens divided by engine time: the time of all rounds, without prompt, network and page.",
  "95 %": "An interval that contains the true median in 95 of 100 such measurements (order statistics over prompts).",
  "spread": "From the slowest to the fastest run.",
  "Σq": "The drafter's probabilities summed over the tree: how many drafted tokens it expects to be accepted.",
  "rank": "The place of a token in the drafter's list for its position; 1 is the likeliest.",
  "depth": "How many tokens after the root.",
  "pays from": "The τ above which this setting beats plain decoding: its round time divided by plain decoding's. "
    + "“Modelled” uses the measured cost of a pass instead.",
  "predicted": "Calculated from one text and the measured cost of a pass; not a measurement of that setting.",
  "pass": "One run of the target over one or more rows.",
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

/** plotly.js, fetched from the page's own server when the lab is first looked at. @param {LabServer} server */
export async function loadPlotly(server) {
  const packed = new Blob([bytesOf(/** @type {string} */ (await server.lab_plotly({})))]);
  const script = document.createElement("script");
  script.text = await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
  return window.Plotly;
}

export class Plot {
  onPoint = /** @type {((point: any) => unknown) | null} */ (null); // called for a click on a point, with Plotly's description of it
  figure = /** @type {Figure | null} */ (null);
  dragging = false;
  drawnSize = ""; // width and height of the latest drawing; "" before it
  zoomResets = 0; // how often a zoom was undone

  /** The caption is one sentence, its {words} explained on hover.
   *  @param {Lab} lab @param {Element} parent @param {string} name @param {string} title @param {string} caption */
  constructor(lab, parent, name, title, caption) {
    this.lab = lab;
    this.box = html("section", { class: `lab-plot lab-plot-${name}`, "aria-label": title }, parent);
    this.box.dataset.plot = name;
    const tools = html("div", "lab-plot-tools", headed(this.box, title, caption));
    button(tools, "fit", "Undo the zoom (double click)", () => {
      this.zoomResets++;
      return this.redraw();
    });
    new Menu(tools, "⤓", `Save “${title}” as an image`, () => ["svg", "png"].map((format) => (
      { label: format.toUpperCase(), act: () => this.save(format, name) })));
    this.body = html("div", "lab-plot-body", this.box);
    // not an image, because it contains plotly's own controls
    this.canvas = /** @type {PlotlyElement} */ (html("div", { class: "lab-canvas", role: "figure" }, this.body));
    this.empty = new Empty(this.body, "cp-empty");
    this.canvas.addEventListener("pointerdown", () => {
      this.dragging = true;
      const release = () => setTimeout(() => {
        this.dragging = false;
        if (!this.drawnSize) this.redraw();
      }, 80);
      for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, release, { once: true, capture: true });
    });
    new ResizeObserver(() => this.drawnSize !== this.size && this.redraw()).observe(this.body);
    onTheme(() => this.redraw());
  }

  /** Says why there is no figure, with a button that leads to one.
   *  @param {string} headline @param {string} more @param {Remedy | null} [remedy] */
  say(headline, more, remedy) {
    this.figure = null;
    this.canvas.hidden = true;
    this.empty.say(headline, more);
    if (remedy) action(this.empty.box, remedy.label, remedy.title, remedy.act);
  }

  draw(/** @type {Figure} */ figure) {
    this.figure = figure;
    this.empty.hide();
    this.canvas.hidden = false;
    this.canvas.setAttribute("aria-label", figure.summary || "");
    return this.redraw();
  }

  get size() {
    return `${this.body.clientWidth} ${this.body.clientHeight}`;
  }

  // Draws once the plot is on the screen and not dragged: drawing during a drag would undo its zoom.
  async redraw() {
    this.drawnSize = "";
    const { clientWidth: width, clientHeight: height } = this.body;
    if (!this.figure || width <= 40 || height <= 40 || this.dragging) return;
    const plotly = await this.lab.plotly();
    if (!this.figure || !plotly) return;
    const { data, layout } = dressed(this.figure, this.canvas);
    const uirevision = this.zoomResets ? `${layout.uirevision}, fitted ${this.zoomResets}` : layout.uirevision; // a new one undoes the zoom
    const fresh = !this.canvas.on;
    await plotly.react(this.canvas, data, { ...layout, width, height, uirevision }, CONFIG);
    this.drawnSize = `${width} ${height}`;
    if (fresh) this.canvas.on("plotly_click", ({ points }) => points[0] && this.onPoint?.(points[0]));
  }

  async save(/** @type {string} */ format, /** @type {string} */ name) {
    if (!this.figure) return;
    const { width, height } = this.canvas.getBoundingClientRect();
    (await this.lab.plotly())?.downloadImage(this.canvas, { format, width, height, scale: 2, filename: `canopy-${name}` });
  }
}

/** A title with a caption, in which {words} are explained on hover.
 *  @param {Element} parent @param {string} title @param {string} caption */
export function headed(parent, title, caption) {
  const head = html("header", "lab-plot-head", parent);
  html("h3", "", head, title);
  prose(html("p", "lab-caption", head), caption);
  return head;
}

/** A button that makes the missing figure. @typedef {{ label: string, title: string, act: () => unknown }} Remedy */
/** @type {Remedy} */
export const RUN = { label: "▶ Run", title: "Answer the prompt in the bar above", act: () => document.querySelector("#canopy-run").click() };

/** Draws the figures that exist; `why` gives headline and text for the plots of the others.
 *  @template {string} Name @param {Record<Name, Plot>} plots @param {{ [name in NoInfer<Name>]?: Figure | null }} figures
 *  @param {(name: NoInfer<Name>) => [headline: string, more: string, remedy?: Remedy | null]} why */
export function drawAll(plots, figures, why) {
  for (const name in plots) {
    const figure = figures[name];
    if (figure) plots[name].draw(figure);
    else plots[name].say(...why(name));
  }
}

if (modes) modes.push("lab");
