// An SVG that is drawn like a canvas: the part of the 2D context that the canvas panels use. What a panel paints
// on the screen with one it paints for export with the other, so the two cannot differ.
(function (Canopy) {
  "use strict";

  const ANCHORS = { left: "start", start: "start", center: "middle", right: "end", end: "end" };
  const BASELINES = { alphabetic: "alphabetic", middle: "central" };
  const STATE = [
    "fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "font", "textAlign", "textBaseline", "dash", "turn",
  ];

  const FONT = /^(?:(\d+) )?([\d.]+px) (.*)$/; // the form in which the panels write fonts: [weight ]size family

  function cut(value) {
    return Math.round(value * 100) / 100;
  }

  class SvgPen {
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
      const { svg } = Canopy.ink;
      this.root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
      svg("rect", { width, height, fill: ground }, this.root);
    }

    add(tag, attributes) {
      const place = this.turn ? { transform: this.turn.trim() } : {};
      return Canopy.ink.svg(tag, { ...attributes, ...place, opacity: this.globalAlpha }, this.root);
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

  // A canvas of the size of its host in device pixels, its 2D context scaled to CSS pixels.
  function fresh(canvas, width, height) {
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

  Canopy.pen = { SvgPen, fresh };
})(window.Canopy = window.Canopy || {});
