// A still picture of a panel, for export: a standalone SVG string with every colour and font written out.
(function (Canopy) {
  "use strict";

  const INKED = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "display", "visibility", "paint-order", "font-family", "font-size", "font-weight",
    "text-anchor", "dominant-baseline", "letter-spacing",
  ];
  const SHAPES = new Set(["circle", "path", "rect", "line", "text", "tspan", "polyline", "polygon", "g"]);

  function background(host) {
    return Canopy.colour.of(host, "--panel");
  }

  function frame(width, height, host) {
    const { svg } = Canopy.ink;
    const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    svg("rect", { width, height, fill: background(host) }, root);
    return root;
  }

  function inline(from, to) {
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

  function ofSvg(canvas) {
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
    Canopy.ink.svg("rect", {
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
    const mark = Canopy.ink.svg("text", {
      x: box.left - origin.left, y: box.top - origin.top + box.height / 2, "dominant-baseline": "central",
      fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize,
      "font-weight": style.fontWeight, "xml:space": "preserve",
    }, root);
    mark.textContent = text;
  }

  // A panel made of HTML, as boxes and lines of text where they stand on the screen. `content` may be scrolled:
  // the still shows the whole of it.
  function ofHtml(content) {
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

  Canopy.still = { ofSvg, ofHtml, inline };
})(window.Canopy = window.Canopy || {});
