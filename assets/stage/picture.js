// A still picture of a panel, for export: a standalone SVG string with every colour and font written out.

import { svg } from "../panels/ink.js";
import { colourOf } from "../panels/pen.js";

const INKED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "display", "visibility", "paint-order", "font-family", "font-size", "font-weight",
  "text-anchor", "dominant-baseline", "letter-spacing",
];
const SHAPES = new Set(["circle", "path", "rect", "line", "text", "tspan", "polyline", "polygon", "g"]);

function background(host) {
  return colourOf(host, "--panel");
}

function frame(width, height, host) {
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
  svg("rect", { width, height, fill: background(host) }, root);
  return root;
}

export function inline(from, to) {
  if (SHAPES.has(from.tagName)) {
    const style = getComputedStyle(from);
    for (const name of INKED) {
      const value = style.getPropertyValue(name);
      if (value) to.setAttribute(name, value);
    }
  }
  for (const name of ["class", "role", "tabindex", "aria-label", "aria-level", "aria-expanded", "style"]) {
    to.removeAttribute(name);
  }
  for (let place = 0; place < from.children.length; place++) inline(from.children[place], to.children[place]);
}

export function stillOfSvg(canvas) {
  const width = Number(canvas.getAttribute("width"));
  const height = Number(canvas.getAttribute("height"));
  const root = frame(width, height, canvas);
  const copy = canvas.cloneNode(true);
  inline(canvas, copy);
  for (const gone of copy.querySelectorAll('[display="none"], .cp-items')) gone.remove();
  root.append(...copy.childNodes);
  return new XMLSerializer().serializeToString(root);
}

function visible(colour) {
  return Boolean(colour) && colour !== "transparent" && !/^rgba\(.*,\s*0\)$/.test(colour);
}

function drawBox(element, origin, root) {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const edge = parseFloat(style.borderTopWidth) || 0;
  const filled = visible(style.backgroundColor);
  if (!box.width || (!filled && !(edge && visible(style.borderTopColor)))) return;
  svg("rect", {
    x: box.left - origin.left + edge / 2, y: box.top - origin.top + edge / 2,
    width: Math.max(0, box.width - edge), height: Math.max(0, box.height - edge),
    rx: parseFloat(style.borderTopLeftRadius) || 0, opacity: style.opacity,
    fill: filled ? style.backgroundColor : "none", stroke: edge ? style.borderTopColor : "none",
    "stroke-width": edge, "stroke-dasharray": style.borderTopStyle === "dashed" ? "3 2" : "none",
  }, root);
}

function drawText(node, origin, root) {
  const text = node.textContent;
  if (!text.trim()) return;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getClientRects()[0];
  if (!box) return;
  const style = getComputedStyle(node.parentElement);
  const mark = svg("text", {
    x: box.left - origin.left, y: box.top - origin.top + box.height / 2, "dominant-baseline": "central",
    fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize,
    "font-weight": style.fontWeight, "xml:space": "preserve",
  }, root);
  mark.textContent = text;
}

// A panel made of HTML, as boxes and lines of text where they stand on the screen. `content` may be scrolled:
// the still shows the whole of it.
export function stillOfHtml(content) {
  const origin = content.getBoundingClientRect();
  const root = frame(Math.ceil(content.scrollWidth), Math.ceil(content.scrollHeight), content);
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.nodeType === Node.TEXT_NODE) drawText(node, origin, root);
    else drawBox(node, origin, root);
  }
  return new XMLSerializer().serializeToString(root);
}

// A picture of a part of the page as it is on the screen, as one SVG: boxes, lines of text, drawings; scrolled content is
// cut off at its edge. Panels have stills of their own (panels/still.js); this is for the text and for the whole view.
const SIDES = ["Top", "Right", "Bottom", "Left"];
const UNSEEN = new Set(["SCRIPT", "STYLE", "TEMPLATE"]);
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

function edge(style, side) {
  const wide = style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]) || 0;
  return { wide, colour: style[`border${side}Color`], dashed: style[`border${side}Style`] === "dashed" };
}

function seen(colour) {
  return Boolean(colour) && colour !== "transparent" && !/^(rgba\(.*,|color\(.*\/) ?0\)$/.test(colour);
}

function ground(element, style, into) {
  // what stands in lines of text has a box in each of them
  for (const box of style.display === "inline" ? element.getClientRects() : [element.getBoundingClientRect()]) filled(box, style, into);
}

function filled(box, style, into) {
  const edges = SIDES.map((side) => edge(style, side));
  const [first] = edges;
  const even = edges.every(({ wide, colour }) => wide === first.wide && colour === first.colour) && seen(first.colour);
  const line = even ? first.wide : 0;
  const fill = seen(style.backgroundColor) ? style.backgroundColor : "none";
  if (box.width && box.height && (fill !== "none" || line)) {
    svg("rect", {
      x: box.left + line / 2, y: box.top + line / 2, width: Math.max(0, box.width - line), height: Math.max(0, box.height - line),
      rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2), fill, stroke: line ? first.colour : "none", "stroke-width": line,
    }, into);
  }
  if (!even) edges.forEach((each, place) => rule(each, SIDES[place], box, into));
}

// One side of a border.
function rule({ wide, colour, dashed }, side, { left, right, top, bottom }, into) {
  if (!wide || !seen(colour) || right <= left) return;
  const half = wide / 2;
  const [x1, y1, x2, y2] = { Top: [left, top + half, right, top + half], Right: [right - half, top, right - half, bottom],
    Bottom: [left, bottom - half, right, bottom - half], Left: [left + half, top, left + half, bottom] }[side];
  svg("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": wide, "stroke-dasharray": dashed ? "3 2" : null }, into);
}

// A text node as the lines that it takes on the screen: {text, box}.
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = range.getClientRects();
  if (boxes.length < 2) return boxes.length ? [{ text: node.data, box: boxes[0] }] : [];
  const found = [];
  for (const { segment, index } of graphemes.segment(node.data)) {
    range.setStart(node, index);
    range.setEnd(node, index + segment.length);
    const box = range.getClientRects()[0];
    if (!box || segment === "\n") continue;
    const last = found.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 2) last.text += segment;
    else found.push({ text: segment, box });
  }
  return found;
}

function words(node, style, into) {
  for (const { text, box } of linesOf(node)) {
    if (!text.trim()) continue;
    svg("text", {
      x: box.left, y: box.top + box.height / 2, "dominant-baseline": "central", fill: style.color, "font-family": style.fontFamily,
      "font-size": style.fontSize, "font-weight": style.fontWeight, "xml:space": "preserve",
    }, into).textContent = text.replace(/\n/g, "");
  }
}

function drawing(element, into) {
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  const copy = element.cloneNode(true);
  inline(element, copy);
  for (const gone of copy.querySelectorAll('[display="none"], .cp-items')) gone.remove();
  const viewBox = element.getAttribute("viewBox") || `0 0 ${width} ${height}`;
  const part = svg("svg", { x, y, width, height, viewBox, overflow: "hidden", color: getComputedStyle(element).color }, into);
  part.append(...copy.childNodes);
}

function painted(element, into) {
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  if (element.width && element.height) svg("image", { x, y, width, height, href: element.toDataURL() }, into);
}

// What hides its overflow is a window of its own, in the coordinates of the screen.
function windowOf(element, style, into) {
  if (style.overflowX === "visible" && style.overflowY === "visible") return into;
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  return svg("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}`, overflow: "hidden" }, into);
}

function isLeftOut(element, style, whole) {
  if (UNSEEN.has(element.tagName) || style.display === "none" || style.opacity === "0") return true;
  const { width, height } = element.getBoundingClientRect();
  return style.overflowX !== "visible" && !whole && (width <= 1 || height <= 1); // for screen readers alone
}

function add(element, into, whole) {
  const style = getComputedStyle(element);
  if (isLeftOut(element, style, whole)) return;
  if (style.visibility === "visible") ground(element, style, into);
  if (element.tagName === "CANVAS") painted(element, into);
  else if (element.tagName === "svg") drawing(element, into);
  else addChildren(element, style, whole ? into : windowOf(element, style, into));
}

function addChildren(element, style, inside) {
  for (const child of element.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) add(child, inside, false);
    else if (child.nodeType === Node.TEXT_NODE && style.visibility === "visible") words(child, style, inside);
  }
}

// The element as a standalone SVG: what it scrolls is shown whole, what its parts scroll only as far as it is in view.
export function picture(element) {
  const { left, top } = element.getBoundingClientRect();
  const [width, height] = [Math.ceil(element.scrollWidth), Math.ceil(element.scrollHeight)];
  const [x, y] = [left - element.scrollLeft, top - element.scrollTop];
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `${x} ${y} ${width} ${height}` });
  svg("rect", { x, y, width, height, fill: colourOf(element, "--surface") }, root);
  add(element, root, true);
  return new XMLSerializer().serializeToString(root);
}
