// The frames in which panels stand: title, caption, legend, dividers that drag, one panel over the whole window.

import { DeferredDrawing } from "../panels/panel.js";
import { button, html, put, write } from "../shared/ink.js";
import { counted, drafterWords } from "../shared/round.js";

const STORE = "canopy-sizes";
const MIN_SHARE = 0.12; // of a row, for a panel that a divider squeezes
/** @type {Record<string, [width: number, height: number]>} */
const USUAL_SIZES = { tree: [780, 300] }; // pixels of a panel whose type has its usual size
const USUAL_SIZE = [430, 270];
const MAX_DRAW_MS = 30; // in one frame, so that all panels show one round; those not drawn by then wait for the next frame
const MAX_ZOOM = 2.2;
const PRESENTED_ZOOM = 1.25;
/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: -24, ArrowUp: -24, ArrowRight: 24, ArrowDown: 24 }; // pixels that a key moves a divider

/** A panel in its frame. `stale`: whether it waits to be drawn anew.
 *  @typedef {{ frame: HTMLElement, body: HTMLElement, about: PanelDefinition, stale: boolean, panel: PanelView }} Entry */

/** The stored positions of dividers; none if they cannot be read. @returns {Record<string, number>} */
function storedSizes() {
  try {
    return { ...JSON.parse(localStorage.getItem(STORE) ?? "{}") };
  } catch {
    return {};
  }
}

export class Frames {
  constructor(/** @type {Stage} */ stage, /** @type {HTMLElement} */ parent) {
    this.stage = stage;
    this.entries = /** @type {Map<string, Entry>} */ (new Map());
    this.sizes = storedSizes();
    this.filledPanel = /** @type {string | null} */ (null); // the panel that fills the window
    this.planned = 0; // an animation frame
    this.round = /** @type {Round | null} */ (null); // that all panels show
    this.drawing = false; // whether some of them do not show it yet
    this.roundWaits = false; // whether there is something newer to show
    this.area = html("div", "cs-area", parent);
    this.upper = html("div", "cs-row cs-upper", this.area);
    this.lower = html("div", "cs-row cs-lower", this.area);
    this.lower.before(this.divider(this.upper, this.lower, "column"));
    this.watch = new ResizeObserver((entries) => this.resized(entries));
    stage.on("round mode", () => this.requestDraw());
    stage.on("select", (selection) => this.select(selection));
  }

  /** A frame in a row, with a divider before it if it is not the first.
   *  @param {HTMLElement} row @param {number} grow @param {Pick<PanelDefinition, "name" | "title" | "caption" | "legend">} about */
  frame(row, grow, about) {
    const { name } = about;
    const frame = put(html("section", `cs-frame cs-frame-${name}`), { "data-panel": name, "aria-label": about.title });
    const before = row.lastElementChild;
    if (before instanceof HTMLElement) row.append(this.divider(before, frame, "row"));
    row.append(frame);
    frame.style.flexGrow = String(this.sizes[name] || grow);
    const head = html("header", "cs-frame-head", frame);
    html("div", { class: "cs-frame-title", role: "heading", "aria-level": "2" }, head, about.title);
    html("p", { class: "cs-caption", title: about.caption }, head, about.caption);
    const tools = html("div", "cs-frame-tools", head);
    button(tools, "⤢", `${about.title}: fill the window, or go back`, () => this.fillWindow(name), "cs-full");
    const body = html("div", "cs-body", frame);
    if (about.legend) legend(this.stage, frame, about.legend);
    return { frame, body, tools };
  }

  panel(/** @type {PanelDefinition} */ about) {
    const { row, share } = about.place ?? { row: "lower", share: 1 };
    const { frame, body, tools } = this.frame(this[row], share, about);
    this.guard(frame, () => {
      this.entries.set(about.name, { frame, body, about, stale: true, panel: about.create(body, this.stage) });
      tools.prepend(...body.querySelectorAll(".cp-tools"));
      this.watch.observe(body);
    });
  }

  isShown(/** @type {Entry} */ entry) {
    if (this.stage.mode === "lab" || entry.frame.hidden) return false;
    return entry.frame.parentElement === this.upper || this.stage.mode === "workbench" || entry.frame.classList.contains("is-full");
  }

  // In the frame that shows the round's text and figures, too.
  requestDraw() {
    this.roundWaits = true;
    this.scheduleDraw();
  }

  // Whether all that is shown is drawn.
  get settled() {
    return !this.planned && !DeferredDrawing.unfinished.size;
  }

  scheduleDraw() {
    this.planned ||= requestAnimationFrame(() => this.draw());
  }

  // Draws the panels, so that they show the same round. All of them have it before the next one is taken.
  draw() {
    this.planned = 0;
    const { stage, stage: { budgetPreview: { budget, round } } } = this;
    for (const { frame, about } of this.entries.values()) {
      if (!about.when) continue; // else it leaves its room to the others until it has something to show
      frame.hidden = !about.when(stage) && !frame.classList.contains("is-full");
      frame.previousElementSibling?.toggleAttribute("hidden", frame.hidden);
    }
    this.area.classList.toggle("is-tried", Boolean(round));
    const held = round && round.n - 1 < Number(budget) ? `: ${counted(round.n - 1, "candidate")}` : "";
    if (round) this.area.style.setProperty("--tried", `"predicted: this round at ${counted(Number(budget), "node")}${held}"`);
    if (this.roundWaits && !this.drawing) {
      this.roundWaits = false;
      this.round = stage.round;
      for (const entry of this.entries.values()) entry.stale = true;
    }
    const waiting = Array.from(this.entries.values()).filter((entry) => entry.stale && this.isShown(entry));
    const until = performance.now() + MAX_DRAW_MS;
    for (const entry of waiting) {
      entry.stale = false;
      this.guard(entry.frame, () => entry.panel.draw(this.round));
      if (performance.now() > until) break;
    }
    this.drawing = waiting.some(({ stale }) => stale);
    if (this.drawing || this.roundWaits) this.scheduleDraw();
  }

  // Draws all that is shown and waits, for a picture of one round.
  drawAll() {
    do {
      cancelAnimationFrame(this.planned);
      this.draw();
    } while (this.planned);
  }

  /** One panel that fails says so in its place and leaves the others alone. @param {HTMLElement} frame @param {() => void} act */
  guard(frame, act) {
    try {
      act();
    } catch (error) {
      console.error(error);
      frame.dataset.failed = "This panel could not be drawn; the others still work.";
    }
  }

  select(/** @type {NodeSelection} */ selection) { // of a newer round: once the panels draw that one
    for (const entry of this.entries.values()) {
      if (!this.roundWaits && !entry.stale && this.isShown(entry)) this.guard(entry.frame, () => entry.panel.select(selection));
    }
  }

  resized(/** @type {ResizeObserverEntry[]} */ entries) {
    for (const { target } of entries) {
      const entry = Array.from(this.entries.values()).find(({ body }) => body === target);
      if (!entry) continue;
      entry.panel.hostSize = null;
      if (!this.isShown(entry)) continue;
      this.zoom(entry);
      if (entry.stale) this.scheduleDraw();
      else this.guard(entry.frame, () => entry.panel.resize?.());
    }
  }

  // Type grows with its panel by the square root: half of the room is for more of the drawing.
  zoom(/** @type {Entry} */ { body, about }) {
    const { width, height } = body.getBoundingClientRect();
    const [usualWidth, usualHeight] = USUAL_SIZES[about.name] ?? USUAL_SIZE;
    const minZoom = document.body.classList.contains("cs-presenting") ? PRESENTED_ZOOM : 1;
    body.style.zoom = Math.max(minZoom, Math.min(MAX_ZOOM, Math.sqrt(Math.min(width / usualWidth, height / usualHeight)))).toFixed(2);
  }

  // Lets one panel fill the window over the timeline, or none; the same name again goes back. Returns whether one did before.
  fillWindow(/** @type {string | null} */ name) {
    const all = Array.from(this.area.querySelectorAll("[data-panel]"));
    const open = all.find((frame) => frame.classList.contains("is-full"));
    const next = all.find((frame) => frame.dataset.panel === name && frame !== open);
    open?.classList.remove("is-full");
    next?.classList.add("is-full");
    this.filledPanel = next ? name : null;
    if ([open, next].some((frame) => frame?.dataset.panel === "tree")) this.entries.get("tree")?.panel.fit?.();
    this.area.style.setProperty("--cs-below", `${document.querySelector(".cs-timeline")?.offsetHeight ?? 0}px`);
    document.body.classList.toggle("cs-has-full", Boolean(next));
    this.requestDraw();
    this.stage.emit("fullscreen", this.filledPanel);
    return Boolean(open);
  }

  /** @param {HTMLElement} before @param {HTMLElement} after @param {"row" | "column"} along */
  divider(before, after, along) {
    const bar = put(html("div", `cs-divider cs-divider-${along}`), {
      tabindex: 0, role: "separator", "aria-label": "Resize the neighbouring panels",
      "aria-orientation": along === "row" ? "vertical" : "horizontal", "aria-valuemin": 100 * MIN_SHARE, "aria-valuemax": 100 * (1 - MIN_SHARE),
    });
    const size = (/** @type {HTMLElement} */ element) => element.getBoundingClientRect()[along === "row" ? "width" : "height"];
    const announceSize = () => bar.setAttribute("aria-valuenow", String(Math.round((100 * size(before)) / (size(before) + size(after) || 1))));
    const move = (/** @type {number} */ pixels) => {
      const total = size(before) + size(after);
      const grow = Number(getComputedStyle(before).flexGrow) + Number(getComputedStyle(after).flexGrow);
      const share = Math.max(MIN_SHARE, Math.min(1 - MIN_SHARE, (size(before) + pixels) / total));
      before.style.flexGrow = String(share * grow);
      after.style.flexGrow = String((1 - share) * grow);
      for (const { dataset: { panel }, style } of [before, after]) if (panel) this.sizes[panel] = Number(style.flexGrow);
      localStorage.setItem(STORE, JSON.stringify(this.sizes));
      announceSize();
    };
    announceSize();
    bar.addEventListener("focus", announceSize);
    let last = 0; // not movementX, whose unit differs between browsers
    const pixel = (/** @type {PointerEvent} */ event) => (along === "row" ? event.clientX : event.clientY);
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      last = pixel(event);
    });
    bar.addEventListener("pointermove", (event) => {
      if (!bar.hasPointerCapture(event.pointerId)) return;
      move(pixel(event) - last);
      last = pixel(event);
    });
    bar.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      event.stopPropagation();
      move(STEPS[event.key]);
    });
    return bar;
  }
}

/** Names only what this run has: its drafters by name, and guesses that were not verified only if there are some.
 *  @param {Stage} stage @param {HTMLElement} frame @param {LegendEntry[]} entries */
function legend(stage, frame, entries) {
  const list = html("ul", { class: "cs-legend", "aria-label": "Legend" }, frame);
  const items = entries.map((entry) => {
    const item = html("li", { title: entry.title || entry.label }, list);
    html("span", { class: "cs-glyph", style: entry.color ? `color: var(${entry.color})` : "" }, item, entry.glyph);
    return { entry, item, words: html("span", "", item, entry.label) };
  });
  stage.on("lines run round", () => {
    const { run: { present }, header } = stage;
    for (const { entry: { origin, when, label }, item, words } of items) {
      item.hidden = Boolean(origin && !present.origins.has(origin)) || when?.(stage) === false;
      const drafter = ["drafter1", "drafter2"].indexOf(origin ?? "");
      if (drafter < 0) continue;
      const name = header?.drafters[drafter];
      write(words, drafterWords(header, drafter) || label);
      item.title = name ? `${name}, ${label} of this run` : label;
    }
  });
}
