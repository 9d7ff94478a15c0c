// The page's colours as values: read from the CSS variables, so both themes come along.

import { ORIGIN } from "./ink.js";

export function colourOf(/** @type {Element} */ host, /** @type {string} */ name) {
  return getComputedStyle(host).getPropertyValue(name).trim();
}

/** The red, green and blue, 0 to 255, of a colour in any notation of CSS. @param {string} colour */
function rgbOf(colour) {
  const pen = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext("2d"));
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return Array.from(pen.getImageData(0, 0, 1, 1).data.subarray(0, 3));
}

function luminance(/** @type {number[]} */ rgb) {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Decides whether text on a tint of an origin's colour has more contrast in the panel's colour than in ink.
export class Shade {
  constructor(/** @type {Element} */ host) {
    const read = (/** @type {string} */ name) => rgbOf(colourOf(host, name));
    this.colours = { root: read(ORIGIN.root), drafter1: read(ORIGIN.drafter1), drafter2: read(ORIGIN.drafter2), both: read(ORIGIN.both) };
    this.panel = read("--panel");
    this.ink = luminance(read("--ink"));
  }

  inverts(/** @type {Origin} */ origin, /** @type {number} */ alpha) {
    const tint = luminance(this.colours[origin].map((part, channel) => part * alpha + this.panel[channel] * (1 - alpha)));
    const contrast = (/** @type {number} */ one) => (Math.max(one, tint) + 0.05) / (Math.min(one, tint) + 0.05);
    return contrast(luminance(this.panel)) > contrast(this.ink);
  }
}

// Calls back when light turns to dark or back, which a class of the body says.
export function onTheme(/** @type {() => void} */ callback) {
  new MutationObserver(() => requestAnimationFrame(callback)).observe(document.body, { attributeFilter: ["class"] });
}
