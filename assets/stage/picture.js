// A picture of a part of the page as it is on the screen, as one SVG: boxes, lines of text, drawings; scrolled content is
// cut off at its edge. Panels have stills of their own (panels/still.js); this is for the text and for the whole view.
(function (Canopy) {
  "use strict";

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
    const { svg } = Canopy.ink;
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
    Canopy.ink.svg("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": wide, "stroke-dasharray": dashed ? "3 2" : null }, into);
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
      Canopy.ink.svg("text", {
        x: box.left, y: box.top + box.height / 2, "dominant-baseline": "central", fill: style.color, "font-family": style.fontFamily,
        "font-size": style.fontSize, "font-weight": style.fontWeight, "xml:space": "preserve",
      }, into).textContent = text.replace(/\n/g, "");
    }
  }

  function drawing(element, into) {
    const { left: x, top: y, width, height } = element.getBoundingClientRect();
    const copy = element.cloneNode(true);
    Canopy.still.inline(element, copy);
    for (const gone of copy.querySelectorAll('[display="none"], .cp-items')) gone.remove();
    const viewBox = element.getAttribute("viewBox") || `0 0 ${width} ${height}`;
    const part = Canopy.ink.svg("svg", { x, y, width, height, viewBox, overflow: "hidden", color: getComputedStyle(element).color }, into);
    part.append(...copy.childNodes);
  }

  function painted(element, into) {
    const { left: x, top: y, width, height } = element.getBoundingClientRect();
    if (element.width && element.height) Canopy.ink.svg("image", { x, y, width, height, href: element.toDataURL() }, into);
  }

  // What hides its overflow is a window of its own, in the coordinates of the screen.
  function windowOf(element, style, into) {
    if (style.overflowX === "visible" && style.overflowY === "visible") return into;
    const { left: x, top: y, width, height } = element.getBoundingClientRect();
    return Canopy.ink.svg("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}`, overflow: "hidden" }, into);
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
  function picture(element) {
    const { left, top } = element.getBoundingClientRect();
    const [width, height] = [Math.ceil(element.scrollWidth), Math.ceil(element.scrollHeight)];
    const [x, y] = [left - element.scrollLeft, top - element.scrollTop];
    const root = Canopy.ink.svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `${x} ${y} ${width} ${height}` });
    Canopy.ink.svg("rect", { x, y, width, height, fill: Canopy.colour.of(element, "--surface") }, root);
    add(element, root, true);
    return new XMLSerializer().serializeToString(root);
  }

  Canopy.picture = picture;
})(window.Canopy = window.Canopy || {});
