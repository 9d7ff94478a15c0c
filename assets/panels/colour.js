// The page's colours as values, for canvases and exports: read from the CSS variables, so both themes come along.
(function (Canopy) {
  "use strict";

  // The page's own variables take precedence; these are for a panel outside the page.
  const FALLBACK = {
    "--drafter1": "#0072B2", "--drafter2": "#D55E00", "--both": "#009E73", "--target": "#8E5AA8",
    "--ink": "#1c2430", "--quiet": "#5b6675", "--line": "#d5dae1", "--panel": "#ffffff", "--accent": "#b8860b",
  };

  const pen = document.createElement("canvas").getContext("2d"); // turns any CSS colour into #rrggbb

  function colour(host, name) {
    return getComputedStyle(host).getPropertyValue(name).trim() || FALLBACK[name];
  }

  function palette(host) {
    const style = getComputedStyle(host);
    const names = Object.keys(FALLBACK);
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim() || FALLBACK[name]]));
  }

  function channels(value) {
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
  class Shade {
    constructor(host) {
      const colours = palette(host);
      this.colour = {};
      for (const [name, variable] of Object.entries(Canopy.ink.ORIGIN)) this.colour[name] = channels(colours[variable]);
      this.panel = channels(colours["--panel"]);
      this.ink = luminance(channels(colours["--ink"]));
    }

    inverts(origin, alpha) {
      const mixed = this.colour[origin].map((part, place) => part * alpha + this.panel[place] * (1 - alpha));
      const contrast = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      const ground = luminance(mixed);
      return contrast(luminance(this.panel), ground) > contrast(this.ink, ground);
    }
  }

  // Calls back when light turns to dark or back: by the system, or by a class or attribute of the page.
  function onTheme(callback) {
    const later = () => requestAnimationFrame(callback);
    const watch = new MutationObserver(later);
    for (const element of [document.documentElement, document.body]) {
      watch.observe(element, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  }

  Canopy.colour = { of: colour, palette, Shade, onTheme };
})(window.Canopy = window.Canopy || {});
