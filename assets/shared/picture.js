// Pictures for export: standalone SVG with every colour and font written out.

import { graphemes, put, svg, textWidth } from "./ink.js";
import { colourOf } from "./pen.js";

const INKED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "display", "visibility", "paint-order", "font-family", "font-size", "font-weight",
  "text-anchor", "dominant-baseline", "letter-spacing",
];
/** @typedef {{ top: number, bottom: number }} Bounds of what is in view */
const SHAPES = new Set(["circle", "path", "rect", "line", "text", "tspan", "polyline", "polygon", "g"]);

/** A drawing to be filled, as large as the part (x, y, width, height) of the page that it shows.
 *  @param {number} x @param {number} y @param {number} width @param {number} height @param {string} ground */
function newDrawing(x, y, width, height, ground) {
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `${x} ${y} ${width} ${height}` });
  svg("rect", { x, y, width, height, fill: ground }, root);
  return root;
}

/** Whether what scrolls cuts through a part that is small beside what it shows. @param {DOMRect} box @param {Bounds} [bounds] */
function isCut({ top, bottom, height }, bounds) {
  return bounds !== undefined && height < (bounds.bottom - bounds.top) / 2 && (top < bounds.top - 2 || bottom > bounds.bottom + 2);
}

/** @param {Element} from @param {Element} to @param {Bounds} [bounds] */
function writeStyles(from, to, bounds) {
  if (from.matches("text, rect") && isCut(from.getBoundingClientRect(), bounds)) return to.setAttribute("display", "none");
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
  for (let index = 0; index < from.children.length; index++) writeStyles(from.children[index], to.children[index], bounds);
}

/** What is drawn in an SVG of the page, with its style written out. @param {SVGElement} canvas @param {Bounds} [bounds] */
function marksOf(canvas, bounds) {
  const copy = /** @type {SVGElement} */ (canvas.cloneNode(true));
  writeStyles(canvas, copy, bounds);
  for (const gone of copy.querySelectorAll('[display="none"], .cp-items')) gone.remove();
  return copy.childNodes;
}

export function stillOfSvg(/** @type {SVGElement} */ canvas) {
  const root = newDrawing(0, 0, Number(canvas.getAttribute("width")), Number(canvas.getAttribute("height")), colourOf(canvas, "--panel"));
  root.append(...marksOf(canvas));
  return new XMLSerializer().serializeToString(root);
}

const SIDES = /** @type {const} */ (["Top", "Right", "Bottom", "Left"]);
const LEFT_OUT = "script, style, template, button, input, .cs-caption, .cs-speed"; // a picture has nothing to press

function isVisible(/** @type {string} */ colour) {
  return Boolean(colour) && colour !== "transparent" && !/^(rgba\(.*,|color\(.*\/) ?0\)$/.test(colour);
}

/** @param {DOMRect} box @param {CSSStyleDeclaration} style @param {SVGElement} into */
function drawBox(box, style, into) {
  const edges = SIDES.map((side) => ({ colour: style[`border${side}Color`], dashed: style[`border${side}Style`] === "dashed",
    width: style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]) || 0 }));
  const [first] = edges;
  const even = edges.every(({ width, colour }) => width === first.width && colour === first.colour) && isVisible(first.colour);
  const line = even ? first.width : 0;
  const fill = isVisible(style.backgroundColor) ? style.backgroundColor : "none";
  if (box.width && box.height && (fill !== "none" || line)) {
    svg("rect", {
      x: box.left + line / 2, y: box.top + line / 2, width: Math.max(0, box.width - line), height: Math.max(0, box.height - line),
      rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2), opacity: style.opacity,
      fill, stroke: line ? first.colour : "none", "stroke-width": line, "stroke-dasharray": first.dashed ? "3 2" : "none",
    }, into);
  }
  if (even) return;
  const { left, right, top, bottom } = box;
  edges.forEach(({ width, colour, dashed }, index) => {
    if (!width || !isVisible(colour) || right <= left) return;
    const halfWidth = width / 2;
    const ends = { Top: [left, top + halfWidth, right, top + halfWidth], Right: [right - halfWidth, top, right - halfWidth, bottom],
      Bottom: [left, bottom - halfWidth, right, bottom - halfWidth], Left: [left + halfWidth, top, left + halfWidth, bottom] };
    const [x1, y1, x2, y2] = ends[SIDES[index]];
    svg("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": width, "stroke-dasharray": dashed ? "3 2" : null }, into);
  });
}

// A text node as the lines that it takes on the screen.
function linesOf(/** @type {Text} */ node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = range.getClientRects();
  if (boxes.length < 2) return boxes.length ? [{ text: node.data, box: boxes[0] }] : [];
  const found = /** @type {{ text: string, box: DOMRect }[]} */ ([]);
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

/** @param {Text} node @param {CSSStyleDeclaration} style @param {SVGElement} into @param {Bounds} [bounds] */
function drawText(node, style, into, bounds) {
  const zoom = node.parentElement?.currentCSSZoom ?? 1;
  for (const { text, box } of linesOf(node)) {
    if (!text.trim() || isCut(box, bounds)) continue;
    svg("text", {
      x: box.left, y: box.top + box.height / 2, "dominant-baseline": "central", fill: style.color, "font-family": style.fontFamily,
      "font-size": zoom * parseFloat(style.fontSize), "font-weight": style.fontWeight, "letter-spacing": style.letterSpacing, "xml:space": "preserve",
    }, into).textContent = text.replace(/\n/g, "");
  }
}

/** What hides its overflow is clipped by a drawing inside the drawing, in the coordinates of the screen.
 *  @param {Element} element @param {CSSStyleDeclaration} style @param {SVGElement} into */
function clippedTo(element, style, into) {
  if (style.overflowX === "visible" && style.overflowY === "visible") return into;
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  return svg("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}`, overflow: "hidden" }, into);
}

/** @param {Element} element @param {CSSStyleDeclaration} style @param {boolean} isRoot */
function isLeftOut(element, style, isRoot) {
  if (element.matches(LEFT_OUT) || style.display === "none" || style.opacity === "0") return true;
  const { width, height } = element.getBoundingClientRect();
  return style.overflowX !== "visible" && !isRoot && (width <= 1 || height <= 1); // for screen readers alone
}

/** @param {Element} element @param {SVGElement} into @param {boolean} isRoot @param {Bounds} [bounds] */
function drawElement(element, into, isRoot, bounds) {
  const style = getComputedStyle(element);
  if (isLeftOut(element, style, isRoot) || (parseFloat(style.borderTopWidth) && isCut(element.getBoundingClientRect(), bounds))) return;
  if (style.visibility === "visible") { // an inline element has a box in each of its lines
    for (const box of style.display === "inline" ? element.getClientRects() : [element.getBoundingClientRect()]) {
      if (!isCut(box, bounds)) drawBox(box, style, into);
    }
  }
  if (element instanceof SVGElement) {
    const { left: x, top: y, width, height } = element.getBoundingClientRect();
    const viewBox = element.getAttribute("viewBox") || `0 0 ${width} ${height}`;
    const part = svg("svg", { x, y, width, height, viewBox, overflow: "hidden", color: style.color }, into);
    part.append(...marksOf(element, bounds));
    return;
  }
  const inside = isRoot ? into : clippedTo(element, style, into);
  const shown = inside === into ? bounds : element.getBoundingClientRect();
  for (const child of element.childNodes) {
    if (child instanceof Element) drawElement(child, inside, false, shown);
    else if (child instanceof Text && style.visibility === "visible") drawText(child, style, inside, shown);
  }
}

// A part of the page as it is on the screen: boxes, lines of text, drawings. What it scrolls is shown whole, what its parts
// scroll only as far as it is in view, without lines that are cut.
export function picture(/** @type {Element} */ element, ground = "--surface") {
  const { left, top } = element.getBoundingClientRect();
  const [width, height] = [Math.ceil(element.scrollWidth), Math.ceil(element.scrollHeight)];
  const root = newDrawing(left - element.scrollLeft, top - element.scrollTop, width, height, colourOf(element, ground));
  drawElement(element, root, true);
  return new XMLSerializer().serializeToString(root);
}

const SMALL_PRINT = { font: "10px system-ui, sans-serif", line: 13, margin: 10 };

/** Words as lines of at most so many pixels. @param {string} words @param {number} maxWidth */
function wrapped(words, maxWidth) {
  const lines = [""];
  for (const word of words.split(/\s+/)) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (textWidth(longer, SMALL_PRINT.font) <= maxWidth) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Writes the entries of a legend into a picture, from a point on, each glyph in its colour. Returns how high they are.
 *  @param {Element} list @param {number} left @param {number} top @param {number} maxWidth @param {SVGElement} into */
function drawLegend(list, left, top, maxWidth, into) {
  const { font, line } = SMALL_PRINT;
  let [across, down] = [0, line];
  for (const { children: [glyph, words] } of list.querySelectorAll("li:not([hidden])")) {
    const width = textWidth(`${glyph.textContent} ${words.textContent}`, font) + 12;
    if (across && across + width > maxWidth) [across, down] = [0, down + line];
    const entry = svg("text", { x: left + across, y: top + down - 3, style: `font: ${font}`, fill: getComputedStyle(list).color }, into);
    svg("tspan", { fill: getComputedStyle(glyph).color }, entry).textContent = glyph.textContent;
    entry.append(` ${words.textContent}`);
    across += width;
  }
  return down + line / 2;
}

/** A picture with a legend and paragraphs of small print under it.
 *  @param {string} drawn @param {string[]} paragraphs @param {Element | null} [legend] */
export function captioned(drawn, paragraphs, legend) {
  const root = /** @type {SVGElement & Element} */ (/** @type {unknown} */ (new DOMParser().parseFromString(drawn, "image/svg+xml").documentElement));
  const [x, y, width, height] = (root.getAttribute("viewBox") ?? "").split(" ").map(Number);
  const { font, line, margin } = SMALL_PRINT;
  const lines = paragraphs.flatMap((words) => wrapped(words, width - 2 * margin));
  const under = y + height + (legend ? drawLegend(legend, x + margin, y + height, width - 2 * margin, root) : 0);
  const full = under - y + line * lines.length + margin;
  put(root, { height: full, viewBox: `${x} ${y} ${width} ${full}` });
  root.firstElementChild?.setAttribute("height", String(full)); // its ground
  lines.forEach((words, index) => {
    svg("text", { x: x + margin, y: under + line * (index + 0.8), style: `font: ${font}`, fill: colourOf(document.body, "--quiet") }, root).textContent = words;
  });
  return new XMLSerializer().serializeToString(root);
}
