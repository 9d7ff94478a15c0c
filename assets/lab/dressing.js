// How figures from Python look where they are drawn: on the page, and in a saved report.

export const CONFIG = {
  displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: false,
  displayModeBar: false, // it would stand on the legend
};
const DATA_KEYS = new Set(["x", "y", "z", "customdata", "text", "hovertext", "meta"]); // data, in which no colour stands

/** A figure with its CSS variables resolved. @param {Figure} figure @param {Element} host */
export function dressed(figure, host) {
  const style = getComputedStyle(host);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim() || "#888888";
  /** @param {unknown} value @param {string} [key] @returns {any} a part of a figure, in Plotly's names */
  const walk = (value, key = "") => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value.slice(4, -1)) : value;
    if (Array.isArray(value)) return DATA_KEYS.has(key) ? value : value.map((item) => walk(item));
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, walk(item, name)]));
  };
  const layout = walk(figure.layout);
  layout.font = { ...layout.font, family: style.fontFamily };
  layout.hoverlabel = {
    ...layout.hoverlabel, bgcolor: colour("--panel"), bordercolor: colour("--quiet"),
    font: { color: colour("--ink"), family: style.fontFamily, size: 13 },
  };
  return { data: figure.data.map((trace) => walk(trace)), layout };
}
