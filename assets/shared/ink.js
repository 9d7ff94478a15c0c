// What every panel draws with: elements, marks, clipped token text, formatted numbers.
// Model text passes through `textContent` and `fillText` alone, so a token is always shown as typed.

import { METHODS } from "../methods.js";
import "./stores.js";

const SVG = "http://www.w3.org/2000/svg";
export const MONO = '"DejaVu Sans Mono", "Cascadia Mono", Menlo, Consolas, monospace';
export const ORIGIN = { root: "--target", drafter1: "--drafter1", drafter2: "--drafter2", both: "--both" };
const ORIGIN_NAME = { root: "target", drafter1: "drafter 1", drafter2: "drafter 2", both: "both drafters" };

/** The colour of a method's runs, the same in all plots. @param {string} method */
export const methodColour = (method) => METHODS[method]?.color ?? "var(--method-other)";

// A method's mark, around the origin, by the name of its symbol.
const CIRCLE = "M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0Z";
/** @type {Record<string, string>} */
const SYMBOLS = {
  x: "M-3.5,-3.5L3.5,3.5M-3.5,3.5L3.5,-3.5", square: "M-3.6,-3.6h7.2v7.2h-7.2Z", circle: CIRCLE,
  "triangle-up": "M0,-4.6L4.4,3.4H-4.4Z", "triangle-down": "M0,4.6L4.4,-3.4H-4.4Z", diamond: "M0,-5L5,0L0,5L-5,0Z",
  star: "M0,-5.4L1.4,-1.6L5.2,-1.6L2.2,0.8L3.2,4.6L0,2.3L-3.2,4.6L-2.2,0.8L-5.2,-1.6L-1.4,-1.6Z",
  hexagon: "M-2.3,-4h4.6L4.6,0L2.3,4h-4.6L-4.6,0Z",
};
export const methodStyle = (/** @type {string} */ method) => {
  const symbol = METHODS[method]?.symbol.replace("-open", "") ?? "";
  return { style: `--o: ${methodColour(method)}`, mark: SYMBOLS[symbol] ?? CIRCLE };
};

/** A method's mark in its colour, as it stands in plots. @param {string} method @param {Element} parent */
export function methodMark(method, parent) {
  const { style, mark } = methodStyle(method);
  svg("path", { d: mark }, svg("svg", { class: "cs-mark", viewBox: "-6 -6 12 12", style, "aria-hidden": "true" }, parent));
}

export const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const widths = /** @type {Map<string, number>} */ (new Map()); // of texts, by their fonts

// The attributes that `put` wrote last: reading them back from the document would be slower.
const written = /** @type {WeakMap<Element, Attributes>} */ (new WeakMap());

/** Sets attributes, null removes one; an attribute that already has the value is left alone.
 *  @template {Element} E @param {E} element @param {Attributes} attributes */
export function put(element, attributes) {
  let last = written.get(element);
  if (!last) written.set(element, (last = {}));
  for (const name in attributes) {
    const value = attributes[name];
    if (last[name] === value) continue;
    last[name] = value;
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, String(value));
  }
  return element;
}

/** @template {keyof SVGElementTagNameMap} Tag @param {Tag} tag @param {Attributes} attributes @param {Element | null} [parent] */
export function svg(tag, attributes, parent) {
  const element = put(document.createElementNS(SVG, tag), attributes);
  if (parent) parent.append(element);
  return element;
}

/** An element of the page. `classOrAttributes` is its class, or {class, and other attributes and properties}.
 *  @template {keyof HTMLElementTagNameMap} Tag
 *  @param {Tag} tag @param {string | Attributes} [classOrAttributes] @param {Element | null} [parent] @param {string} [text] */
export function html(tag, classOrAttributes = {}, parent, text) {
  const element = document.createElement(tag);
  const attributes = typeof classOrAttributes === "string" ? { class: classOrAttributes } : classOrAttributes;
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = String(value);
    else if (name in element) Object.assign(element, { [name]: value });
    else element.setAttribute(name, String(value));
  }
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

/** Another text in the text node that is there is cheaper than another node.
 *  @template {Node} N @param {N} element @param {string} text */
export function write(element, text) {
  const { firstChild } = element;
  const node = firstChild?.nodeName === "#text" && !firstChild.nextSibling ? firstChild : element;
  if (node.textContent !== text) node.textContent = text;
  return element;
}

/** Sets `--type` of an element to the largest size in pixels with which none of some boxes in it has to scroll, down or across.
 *  @param {HTMLElement} element @param {HTMLElement[]} boxes @param {number} min @param {number} max */
export function fitType(element, boxes, min, max) {
  for (let size = max; size >= min; size--) {
    element.style.setProperty("--type", `${size}px`);
    if (boxes.every((box) => box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth)) return;
  }
}

/** Makes an element of an SVG hold these marks and nothing else. An element that is there already is used again, and only
 *  what has changed is written; lists whose lengths change stand in a group of their own, so that no other mark moves to
 *  another element.
 *  @param {Element} parent @param {Mark[]} marks */
export function render(parent, marks) {
  let child = parent.firstElementChild;
  for (const [tag, attributes, inside] of marks) {
    if (!child || child.tagName !== tag) child = parent.insertBefore(document.createElementNS(SVG, tag), child);
    put(child, attributes);
    for (const name in written.get(child)) if (!(name in attributes)) put(child, { [name]: null });
    if (Array.isArray(inside)) render(child, inside);
    else if (inside !== undefined) write(child, inside);
    child = child.nextElementSibling;
  }
  while (child?.nextElementSibling) child.nextElementSibling.remove();
  child?.remove();
}

/** @param {string} className @param {string} d @param {Attributes} [more] @returns {Mark} */
export const path = (className, d, more) => ["path", { class: className, d, ...more }];
/** @param {Mark[]} marks @returns {Mark} */
export const group = (marks, className = "") => ["g", { class: className }, marks];
/** @param {string} className @param {string} words @param {number} x @param {number} y @param {Attributes} [more] @returns {Mark} */
export const text = (className, words, x, y, more) => ["text", { class: className, x: x.toFixed(1), y: y.toFixed(1), ...more }, words];

/** Paths, those that look the same as one: a thousand nodes are then some twenty paths.
 *  @param {Mark[]} marks @returns {Mark[]} */
export function joinPaths(marks) {
  const joined = /** @type {Map<string, Attributes>} */ (new Map());
  for (const [, attributes] of marks) {
    let key = "";
    for (const name in attributes) if (name !== "d") key += `${attributes[name]} `;
    const same = joined.get(key);
    if (same) same.d = `${same.d}${attributes.d}`;
    else joined.set(key, { ...attributes });
  }
  return Array.from(joined.values(), (attributes) => ["path", attributes]);
}

/** A rectangle as a part of a path.
 *  @param {number | string} x @param {number | string} y @param {number | string} width @param {number | string} height */
export const box = (x, y, width, height) => `M${x},${y}h${width}v${height}h-${width}z`;
/** The outline of a box as a mark, `by` pixels larger on each side. @param {string} className @param {Box} bounds */
export const outline = (className, { x, y, width, height }, by = 0) => path(className, box(x - by, y - by, width + 2 * by, height + 2 * by));

let ruler = /** @type {CanvasRenderingContext2D | null} */ (null); // made at first use; every browser has the 2D kind
export function textWidth(/** @type {string} */ text, /** @type {string} */ font) {
  const key = font + "|" + text;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    ruler ??= /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    ruler.font = font;
    width = ruler.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** The longest prefix of `text`, in graphemes, that fits into `maxWidth` pixels; empty if not even one does. If it is too long, the
 *  mark of a leading space goes first: the word matters more.
 *  @param {string} text @param {number} maxWidth @param {string} font */
export function clip(text, maxWidth, font) {
  if (textWidth(text, font) <= maxWidth) return text;
  const word = text.replace(/^␣(?=[^␣])/, "");
  if (textWidth(word, font) <= maxWidth) return word;
  const parts = Array.from(graphemes.segment(word.slice(0, 200)), (part) => part.segment);
  while (parts.length && textWidth(`${parts.join("")}…`, font) > maxWidth) parts.pop();
  return parts.length ? `${parts.join("")}…` : "";
}

export function probability(/** @type {number} */ value) {
  if (!Number.isFinite(value)) return "–";
  if (value > 0 && value < 0.001) return "<0.001";
  if (value > 0.999) return ">0.999";
  const near = value < 0.1 || value > 0.99; // an end of the scale
  return value.toFixed(near ? 3 : 2);
}

/** Round numbers from one to another, at most so many steps. @param {number} low @param {number} high @param {number} steps */
export function roundTicks(low, high, steps) {
  const rough = (high - low) / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, number) => (first + number) * step);
}

export function nats(/** @type {number} */ value) {
  return Number.isFinite(value) ? value.toFixed(2) : "–";
}

/** The opacity of a probability: its square root, because most nodes lie below 0.1; never invisible.
 *  @param {number} value @param {number} minimum */
export function opacityOf(value, minimum) {
  if (Number.isNaN(value)) return 1; // it was not recorded
  return minimum + (1 - minimum) * Math.sqrt(Math.min(1, Math.max(0, value)));
}

/** A token as a person reads it aloud: its own text, unless that is only white space or bytes.
 *  @param {Round} round @param {number} id */
export function spoken(round, id) {
  const raw = round.text(id);
  const plain = /\S/.test(raw) && !/[\u0000-\u001f\ufffd]/.test(raw);
  return plain ? raw : round.show(id);
}

export function describe(/** @type {Round} */ round, /** @type {number} */ node) {
  const chance = probability(Math.exp(round.logprobs[node]));
  const where = `'${spoken(round, round.tokens[node])}', depth ${round.depths[node]}`;
  if (node === 0) return `${where}, root, the target's own token`;
  return `${where}, probability ${chance}, ${round.fate[node]}, from ${originName(round, node)}`;
}

/** Who proposed a node, by the drafter's name if it is known. @param {Round} round @param {number} node */
export function originName(round, node) {
  const origin = round.origin(node);
  return round.drafterNames[["drafter1", "drafter2"].indexOf(origin)] ?? ORIGIN_NAME[origin];
}

/** A button named by its title. Its visible text is part of the name, so that voice control works with what is on the screen.
 *  @param {Element | null} parent @param {string} label @param {string} title @param {(button: HTMLButtonElement) => unknown} act */
export function button(parent, label, title, act, className = "") {
  const isMissing = /\p{L}/u.test(label) && !title.toLowerCase().includes(label.toLowerCase());
  const name = isMissing ? `${label}: ${title}` : title;
  const item = action(parent, label, title, act, `cp-button ${className}`);
  item.setAttribute("aria-label", name);
  return item;
}

/** A button whose name is its text.
 *  @param {Element | null} parent @param {string} label @param {string} title @param {(button: HTMLButtonElement) => unknown} act */
export function action(parent, label, title, act, className = "") {
  const item = html("button", { class: className, type: "button", title }, parent, label);
  item.addEventListener("click", (event) => {
    event.stopPropagation();
    act(item);
  });
  return item;
}

/** Calls `act` once, some milliseconds after the first of several requests; at the next frame if none are given.
 *  @param {() => unknown} act @param {number} [milliseconds] */
export function throttled(act, milliseconds) {
  let planned = false;
  const run = () => {
    planned = false;
    act();
  };
  return () => {
    if (planned) return;
    planned = true;
    if (milliseconds) setTimeout(run, milliseconds);
    else requestAnimationFrame(run);
  };
}

/** @param {number} milliseconds @returns {Promise<void>} */
export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export const bytesOf = (/** @type {string} */ base64) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

// Runs `act` one at a time, and once more if it was asked for meanwhile.
export function oneAtATime(/** @type {() => Promise<void>} */ act) {
  let running = false;
  let again = false;
  return async function run() {
    again = running;
    if (running) return;
    running = true;
    try {
      await act();
    } finally {
      running = false;
    }
    if (again) await run();
  };
}

// Whether the window is as narrow as a phone's.
export const onPhone = () => matchMedia("(max-width: 900px)").matches;
