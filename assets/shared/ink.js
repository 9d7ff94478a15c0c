// What every panel draws with: elements, marks, clipped token text, formatted numbers.
// Model text passes through `textContent` and `fillText` alone, so a token is always shown as typed.

const SVG = "http://www.w3.org/2000/svg";
export const MONO = '"DejaVu Sans Mono", "Cascadia Mono", Menlo, Consolas, monospace';
export const ORIGIN = { root: "--target", drafter1: "--drafter1", drafter2: "--drafter2", both: "--both" };
export const ORIGIN_NAME = { root: "target", drafter1: "drafter 1", drafter2: "drafter 2", both: "both drafters" };

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const widths = new Map();
let ruler = null; // made at first use

const written = new WeakMap(); // what `put` wrote last: reading it back from the document would be slower

// Sets attributes, null removes one; an attribute that already has the value is left alone.
export function put(element, attributes) {
  let known = written.get(element);
  if (!known) written.set(element, (known = {}));
  for (const name in attributes) {
    const value = attributes[name];
    if (known[name] === value) continue;
    known[name] = value;
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
  }
  return element;
}

export function svg(tag, attributes, parent) {
  const element = put(document.createElementNS(SVG, tag), attributes);
  if (parent) parent.append(element);
  return element;
}

// An element of the page. `look` is its class, or {class, and other attributes and properties}.
export function html(tag, look, parent, text) {
  const element = document.createElement(tag);
  const given = typeof look === "string" ? { class: look } : look || {};
  for (const [name, value] of Object.entries(given)) {
    if (name === "class") element.className = value;
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
  return element;
}

// Makes an element of an SVG hold these marks and nothing else: [tag, attributes, its text or the marks in it] each. An
// element that is there already is used again, and only what has changed is written; lists whose lengths change stand in a
// group of their own, so that no other mark moves to another element.
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
  while (child) {
    const next = child.nextElementSibling;
    child.remove();
    child = next;
  }
}

// The marks that most drawings consist of.
export const path = (look, d, more) => ["path", { class: look, d, ...more }];
export const group = (marks, look = "") => ["g", { class: look }, marks];

export function text(look, words, x, y, more) {
  return ["text", { class: look, x: x.toFixed(1), y: y.toFixed(1), ...more }, words];
}

// Paths, those that look alike as one: a thousand nodes are then some twenty paths.
export function joinPaths(marks) {
  const looks = new Map();
  for (const [tag, { d, ...look }] of marks) {
    const key = Object.values(look).join(" ");
    if (!looks.has(key)) looks.set(key, [tag, { ...look, d: "" }]);
    looks.get(key)[1].d += d;
  }
  return [...looks.values()];
}

// A rectangle as a part of a path.
export const box = (x, y, width, height) => `M${x},${y}h${width}v${height}h${-width}z`;

export function textWidth(text, font) {
  const key = font + "|" + text;
  let known = widths.get(key);
  if (known === undefined) {
    if (widths.size > 20000) widths.clear();
    ruler = ruler || document.createElement("canvas").getContext("2d");
    ruler.font = font;
    known = ruler.measureText(text).width;
    widths.set(key, known);
  }
  return known;
}

// The longest prefix of `text`, in whole graphemes, that fits into `room` pixels; empty if not even one does.
export function clip(text, room, font) {
  if (textWidth(text, font) <= room) return text;
  const parts = Array.from(graphemes.segment(text), (part) => part.segment);
  let low = 0;
  let high = parts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(parts.slice(0, middle).join("") + "…", font) <= room) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? parts.slice(0, low).join("") + "…" : "";
}

// As `clip`, but a leading space mark is dropped first: where room is short, the word matters more than the space.
export function short(text, room, font) {
  if (textWidth(text, font) <= room) return text;
  return clip(text.replace(/^␣(?=[^␣])/, ""), room, font);
}

export function probability(value) {
  if (!Number.isFinite(value)) return "–";
  if (value > 0 && value < 0.001) return "<0.001";
  if (value > 0.999 && value < 1) return ">0.999";
  const near = value < 0.1 || (value > 0.99 && value < 1); // an end of the scale
  return value.toFixed(near ? 3 : 2);
}

export function nats(value) {
  return Number.isFinite(value) ? value.toFixed(2) : "–";
}

// The opacity of a probability: its square root, because most nodes lie below 0.1; never invisible.
export function strength(value, least) {
  if (Number.isNaN(value)) return 1; // it was not recorded
  return least + (1 - least) * Math.sqrt(Math.min(1, Math.max(0, value)));
}

// A token as a person reads it aloud: its own text, unless that is only white space or bytes.
export function spoken(round, id) {
  const raw = round.text(id);
  const plain = typeof raw === "string" && /\S/.test(raw) && !/[\u0000-\u001f\ufffd]/.test(raw);
  return plain ? raw : round.show(id);
}

export function describe(round, node) {
  const chance = probability(Math.exp(round.logprobs[node]));
  const where = `'${spoken(round, round.tokens[node])}', depth ${round.depths[node]}`;
  if (node === 0) return `${where}, root, the target's own token`;
  return `${where}, probability ${chance}, ${round.fate[node]}, from ${ORIGIN_NAME[round.origin(node)]}`;
}

// A button's visible text is part of its accessible name, so that voice control works with what is on the screen.
function nameOf(label, title) {
  const said = /\p{L}/u.test(label) && !title.toLowerCase().includes(label.toLowerCase());
  return said ? `${label}: ${title}` : title;
}

export function button(parent, label, title, act, look = "") {
  const item = html("button", { class: `cp-button ${look}`, type: "button", title, "aria-label": nameOf(label, title) }, parent, label);
  item.addEventListener("click", (event) => {
    event.stopPropagation();
    act(item);
  });
  return item;
}

// A button whose name is what it says.
export function action(parent, label, title, act, look = "") {
  const item = html("button", { class: look, type: "button", title }, parent, label);
  item.addEventListener("click", () => act());
  return item;
}

// Calls `act` a while after it is asked for, once, however often it was asked for meanwhile; at the next frame where no
// milliseconds are given.
export function sparing(act, milliseconds) {
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

export function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
}

// Runs what is asynchronous one at a time, and once more where it was asked for meanwhile.
export function inTurn(act) {
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
