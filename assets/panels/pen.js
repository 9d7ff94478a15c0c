// The page's colours as values, for canvases and exports: read from the CSS variables, so both themes come along.

import { ORIGIN, svg } from "./ink.js";

const NAMES = ["--drafter1", "--drafter2", "--both", "--target", "--ink", "--quiet", "--line", "--panel", "--accent"];

export function colourOf(host, name) {
  return getComputedStyle(host).getPropertyValue(name).trim();
}

export function palette(host) {
  const style = getComputedStyle(host);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(name).trim()]));
}

// Red, green and blue of any CSS colour: a canvas turns it into #rrggbb.
function channels(value, pen) {
  pen.fillStyle = "#000000";
  pen.fillStyle = value;
  const hex = /^#(..)(..)(..)$/.exec(String(pen.fillStyle));
  return hex ? hex.slice(1).map((part) => parseInt(part, 16)) : [0, 0, 0];
}

function luminance(rgb) {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Whether text on a tint of an origin's colour reads better in the panel's colour than in ink.
export class Shade {
  constructor(host) {
    const colours = palette(host);
    const pen = document.createElement("canvas").getContext("2d");
    this.colour = {};
    for (const [name, variable] of Object.entries(ORIGIN)) this.colour[name] = channels(colours[variable], pen);
    this.panel = channels(colours["--panel"], pen);
    this.ink = luminance(channels(colours["--ink"], pen));
  }

  inverts(origin, alpha) {
    const mixed = this.colour[origin].map((part, place) => part * alpha + this.panel[place] * (1 - alpha));
    const contrast = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const ground = luminance(mixed);
    return contrast(luminance(this.panel), ground) > contrast(this.ink, ground);
  }
}

// Calls back when light turns to dark or back: by the system, or by a class or attribute of the page.
export function onTheme(callback) {
  const later = () => requestAnimationFrame(callback);
  const watch = new MutationObserver(later);
  for (const element of [document.documentElement, document.body]) {
    watch.observe(element, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
}

// An SVG that is drawn like a canvas: the part of the 2D context that the canvas panels use. What a panel paints
// on the screen with one it paints for export with the other, so the two cannot differ.
const ANCHORS = { left: "start", start: "start", center: "middle", right: "end", end: "end" };
const BASELINES = { alphabetic: "alphabetic", middle: "central" };
const STATE = [
  "fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "font", "textAlign", "textBaseline", "dash", "turn",
];

const FONT = /^(?:(\d+) )?([\d.]+px) (.*)$/; // the form in which the panels write fonts: [weight ]size family

function cut(value) {
  return Math.round(value * 100) / 100;
}

export class SvgPen {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "10px sans-serif";
  textAlign = "start";
  textBaseline = "alphabetic";
  dash = "none";
  turn = "";
  path = "";
  kept = [];

  constructor(width, height, ground) {
    this.root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    svg("rect", { width, height, fill: ground }, this.root);
  }

  add(tag, attributes) {
    const place = this.turn ? { transform: this.turn.trim() } : {};
    return svg(tag, { ...attributes, ...place, opacity: this.globalAlpha }, this.root);
  }

  fillRect(x, y, width, height) {
    this.add("rect", { x: cut(x), y: cut(y), width: cut(width), height: cut(height), fill: this.fillStyle });
  }

  outline() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash };
  }

  strokeRect(x, y, width, height) {
    this.add("rect", { x: cut(x), y: cut(y), width: cut(width), height: cut(height), ...this.outline() });
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${cut(x)},${cut(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${cut(x)},${cut(y)}`;
  }

  stroke() {
    this.add("path", { d: this.path, ...this.outline() });
  }

  fillText(text, x, y) {
    const [, weight, size, family] = FONT.exec(this.font);
    this.add("text", {
      x: cut(x), y: cut(y), fill: this.fillStyle, "font-size": size, "font-family": family,
      "font-weight": weight || 400, "text-anchor": ANCHORS[this.textAlign],
      "dominant-baseline": BASELINES[this.textBaseline], "xml:space": "preserve",
    }).textContent = text;
  }

  setLineDash(dashes) {
    this.dash = dashes.length ? dashes.join(" ") : "none";
  }

  save() {
    this.kept.push(Object.fromEntries(STATE.map((name) => [name, this[name]])));
  }

  restore() {
    Object.assign(this, this.kept.pop());
  }

  translate(x, y) {
    this.turn += ` translate(${cut(x)},${cut(y)})`;
  }

  rotate(radians) {
    this.turn += ` rotate(${cut((radians * 180) / Math.PI)})`;
  }

  text() {
    return new XMLSerializer().serializeToString(this.root);
  }
}

// What `draw` draws on such a pen, as text.
export function drawnAsSvg(width, height, ground, draw) {
  const pen = new SvgPen(width, height, ground);
  draw(pen);
  return pen.text();
}

// A canvas of the size of its host in device pixels, its 2D context scaled to CSS pixels.
export function freshPen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}
