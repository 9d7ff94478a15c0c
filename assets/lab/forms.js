// The lab's controls: labelled, reachable by keyboard, all of them native elements.

import { button, html, write } from "../shared/ink.js";

/** @import * as types from "../types.d.ts" */
/** A value that can be chosen and its text, or one word for both. @typedef {string | [value: string, text: string]} Choice */

/** Checkboxes that look like chips. @template {string | number} Value */
export class Chips {
  /** `changed` is called after every change. @param {Element} parent @param {string} label @param {() => unknown} changed */
  constructor(parent, label, changed) {
    this.changed = changed;
    this.box = html("fieldset", "lab-chips", parent);
    this.legend = html("legend", "", this.box, label);
    this.list = html("div", "lab-chip-list", this.box);
    this.inputs = /** @type {Map<Value, HTMLInputElement>} */ (new Map());
  }

  /** `fixed` chips are part of every sweep: shown, always on. Numbers stand in order.
   *  @param {Value} value @param {string} text
   *  @param {{ on?: boolean, fixed?: boolean, title?: string, look?: types.Look | null }} [how] */
  add(value, text, { on = false, fixed = false, title = "", look = null } = {}) {
    const same = this.inputs.get(value);
    if (same) {
      same.checked = true;
      return;
    }
    const label = html("label", "lab-chip");
    const input = html("input", { type: "checkbox" }, label);
    input.checked = on || fixed;
    input.disabled = fixed;
    input.value = String(value);
    if (look) html("span", "lab-swatch", label).style.background = look.color;
    label.append(text);
    label.title = title;
    input.addEventListener("change", () => this.changed());
    this.inputs.set(value, input);
    const larger = Array.from(this.inputs).filter(([other]) => typeof other === "number" && Number(other) > Number(value));
    const next = larger.sort(([one], [other]) => Number(one) - Number(other))[0];
    this.list.insertBefore(label, next ? next[1].parentElement : null);
  }

  /** A chip for each method; plain decoding's is always on, and says `why`.
   *  @this {Chips<string>} @param {string[]} methods @param {Lab} lab @param {string[]} on */
  addMethods(methods, lab, on, why = "") {
    const { baseline, summaries } = lab.given.options;
    for (const method of methods) {
      const fixed = method === baseline;
      const title = (fixed ? why : "") + summaries[method];
      this.add(method, method, { fixed, on: on.includes(method), look: lab.look(method), title });
    }
  }

  get values() {
    return Array.from(this.inputs).filter(([, input]) => input.checked).map(([value]) => value);
  }

  set values(wanted) {
    for (const [value, input] of this.inputs) input.checked = input.disabled || wanted.includes(value);
  }
}

let count = 0;

/** A native element under its label, with these attributes; `changed` is called with every change of it.
 *  @template {"input" | "select"} Tag
 *  @param {Element} parent @param {string} label @param {string} title @param {Attributes} given
 *  @param {((event: Event) => unknown) | undefined} changed @param {Tag} tag */
function field(parent, label, title, given, changed, tag) {
  const box = html("div", { class: "lab-field", title }, parent);
  const element = html(tag, { id: `lab-field-${++count}`, ...given });
  html("label", { htmlFor: element.id }, box, label);
  box.append(element);
  if (changed) element.addEventListener(tag === "select" || given.type === "text" ? "change" : "input", changed);
  return element;
}

/** @param {Element} parent @param {string} label
 *  @param {{ value: number, least: number, most: number, step?: number, title?: string }} range @param {() => unknown} changed */
export function numberField(parent, label, { value, least, most, step = 1, title = "" }, changed) {
  return field(parent, label, title, { type: "number", min: least, max: most, step, value, inputMode: "decimal" }, changed, "input");
}

/** @param {Element} parent @param {string} label @param {string} title @param {() => unknown} changed */
export function selectField(parent, label, title, changed) {
  return field(parent, label, title, {}, changed, "select");
}

/** @param {Element} parent @param {string} label @param {string} title @param {() => unknown} changed */
export function sliderField(parent, label, title, changed) {
  return field(parent, label, title, { type: "range", min: 0, step: 1 }, changed, "input");
}

/** `entered` is called on Enter, and on leaving the field.
 *  @param {Element} parent @param {string} label @param {{ placeholder: string, title: string }} given @param {() => unknown} entered */
export function textField(parent, label, { placeholder, title }, entered) {
  return field(parent, label, title, { type: "text", placeholder }, entered, "input");
}

/** Shows a field with its label, or hides both. @param {HTMLElement} field @param {boolean} on */
export function offer(field, on) {
  if (field.parentElement) field.parentElement.hidden = !on;
}

/** Fills a select and keeps what is chosen, if it is still offered. What is apart comes last, under a heading.
 *  @param {HTMLSelectElement} select @param {Choice[]} entries @param {string} [chosen] @param {{ heading?: string, apart?: Choice[] }} [others] */
export function fillSelect(select, entries, chosen = select.value, { heading = "", apart = [] } = {}) {
  const options = (/** @type {Choice[]} */ offered) => offered.map((entry) => (Array.isArray(entry) ? new Option(entry[1], entry[0]) : new Option(entry, entry)));
  select.replaceChildren(...options(entries));
  if (apart.length) {
    const group = html("optgroup", { label: heading }, select);
    group.append(...options(apart));
  }
  if (Array.from(select.options).some(({ value }) => value === chosen)) select.value = chosen;
}

/** A line that is hidden if there is nothing to say. @param {HTMLElement} line @param {string | null} [text] */
export function tell(line, text) {
  write(line, text || "");
  line.hidden = !text;
}

// A command line with its copy button.
export class Command {
  /** @param {Element} parent @param {string} label */
  constructor(parent, label) {
    this.box = html("div", "lab-command", parent);
    html("div", "lab-command-label", this.box, label);
    this.text = html("code", { tabIndex: 0 }, this.box);
    this.copied = button(this.box, "Copy", `Copy: ${label}`, () => this.copy());
    this.box.hidden = true;
  }

  show(/** @type {string} */ text) {
    write(this.text, text);
    this.box.hidden = !text;
  }

  async copy() {
    window.getSelection()?.selectAllChildren(this.text);
    let done = true;
    try {
      await navigator.clipboard.writeText(this.text.textContent ?? "");
    } catch {
      done = document.execCommand("copy"); // pages without https have no clipboard of their own
    }
    this.copied.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { this.copied.textContent = "Copy"; }, 1600);
  }
}

// Flags of engines to paste, each with a copy button and what is expected of it.
export class Flags {
  shown = "";

  /** @param {string} title @param {Element} parent */
  constructor(title, parent) {
    this.box = html("section", { class: "lab-card lab-paste", tabIndex: 0, "aria-label": "Flags to paste" }, parent);
    html("h3", "", this.box, title);
    this.list = html("div", "", this.box);
  }

  show(/** @type {types.Flags[]} */ flags) {
    if (JSON.stringify(flags) === this.shown) return;
    this.shown = JSON.stringify(flags);
    this.list.replaceChildren();
    flags.forEach(({ engine, flags: line, expected }, index) => {
      if (line) new Command(this.list, engine).show(line);
      if (flags[index + 1]?.expected !== expected) html("p", "lab-note", this.list, expected); // once, below all that it is true of
    });
  }
}

export function duration(/** @type {number} */ seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function withCommas(/** @type {number} */ value) {
  return Math.round(value).toLocaleString("en");
}
