// How figures from Python look where they are drawn: on the page, and in a saved report.

export const CONFIG = {
  displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: false,
  displayModeBar: false, // it would stand on the legend
};
const BULK = new Set(["x", "y", "z", "customdata", "text", "hovertext", "meta"]); // data, in which no colour stands

// A figure with its CSS variables resolved.
export function dressed(figure, host) {
  const style = getComputedStyle(host);
  const known = new Map();
  const colour = (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim() || "#888888");
    return known.get(name);
  };
  const walk = (value, key) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value.slice(4, -1)) : value;
    if (Array.isArray(value)) return BULK.has(key) ? value : value.map((item) => walk(item));
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
