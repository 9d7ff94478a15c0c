// The lab's controls: labelled, reachable by keyboard, all of them native elements.

import { METHODS } from "../methods.js";
import { button, html, methodMark, write } from "../shared/ink.js";

/** A value that can be chosen and its text, or one word for both. @typedef {string | [value: string, text: string]} Choice */

/** Checkboxes that look like chips. @template {string | number} Value */
export class Chips {
  inputs = /** @type {Map<Value, HTMLInputElement>} */ (new Map());

  /** `changed` is called after every change. @param {Element} parent @param {string} label @param {() => unknown} [changed] */
  constructor(parent, label, changed) {
    this.box = html("fieldset", "lab-chips", parent);
    html("legend", "", this.box, label);
    this.list = html("div", "lab-chip-list", this.box);
    if (changed) this.box.addEventListener("change", changed);
  }

  /** A `fixed` chip is always on. Numbers stand in order.
   *  @param {Value} value @param {{ on?: boolean, fixed?: boolean, title?: string, mark?: boolean }} [how] */
  add(value, { on = false, fixed = false, title = "", mark = false } = {}) {
    const label = html("label", { class: "lab-chip", title });
    const input = html("input", { type: "checkbox", value: String(value), checked: on || fixed, disabled: fixed }, label);
    if (mark) methodMark(String(value), label);
    label.append(String(value));
    this.inputs.get(value)?.parentElement?.remove();
    this.inputs.set(value, input);
    const rank = (/** @type {Value} */ value) => (typeof value === "number" ? value : -1);
    const ordered = Array.from(this.inputs).sort(([one], [other]) => rank(one) - rank(other));
    this.list.append(...ordered.flatMap(([, { parentElement }]) => parentElement ?? []));
  }

  /** A chip for each method; plain decoding's is always on.
   *  @this {Chips<string>} @param {string[]} methods @param {string[]} on */
  addMethods(methods, on) {
    for (const method of methods) {
      const { drafts = true, summary = "" } = METHODS[method] ?? {};
      const title = drafts ? summary : `Always measured, because speed-ups are against it. ${summary}`;
      this.add(method, { fixed: !drafts, on: on.includes(method), mark: true, title });
    }
  }

  get values() {
    return Array.from(this.inputs).filter(([, input]) => input.checked).map(([value]) => value);
  }

  set values(selection) {
    for (const [value, input] of this.inputs) input.checked = input.disabled || selection.includes(value);
  }
}

let count = 0;

/** A native element under its label, with these attributes; `changed` is called with every change of it, of text when it
 *  is entered.
 *  @template {"input" | "select"} Tag
 *  @param {Tag} tag @param {Element} parent @param {string} label @param {Attributes & { title?: string }} attributes
 *  @param {(element: HTMLElementTagNameMap[Tag]) => unknown} [changed] */
export function field(tag, parent, label, { title = "", ...attributes }, changed) {
  const box = html("div", { class: "lab-field", title }, parent);
  const element = html(tag, { id: `lab-field-${++count}`, ...attributes });
  html("label", { htmlFor: element.id }, box, label);
  box.append(element);
  if (changed) element.addEventListener(attributes.type === "text" ? "change" : "input", () => changed(element));
  return element;
}

/** @param {Element} parent @param {string} label @param {string} title @param {() => unknown} changed */
export const selectField = (parent, label, title, changed) => field("select", parent, label, { title }, changed);

/** Shows a field with its label, or hides both. @param {HTMLElement} field @param {boolean} on */
export function showField(field, on) {
  if (field.parentElement) field.parentElement.hidden = !on;
}

/** Fills a select and keeps the choice if it is still offered. `group`: entries that come last, under a heading.
 *  @param {HTMLSelectElement} select @param {Choice[]} entries @param {string} [chosen] @param {{ heading: string, entries: Choice[] }} [group] */
export function fillSelect(select, entries, chosen = select.value, group = { heading: "", entries: [] }) {
  const option = (/** @type {Choice} */ entry) => (Array.isArray(entry) ? new Option(entry[1], entry[0]) : new Option(entry));
  select.replaceChildren(...entries.map(option));
  if (group.entries.length) html("optgroup", { label: group.heading }, select).append(...group.entries.map(option));
  if (Array.from(select.options).some(({ value }) => value === chosen)) select.value = chosen;
}

/** A section that is folded until its title is clicked. @param {Element} parent @param {string} title */
export function foldIn(parent, title, className = "", open = false) {
  const details = html("details", { class: `lab-fold ${className}`, open }, parent);
  html("summary", "", details, title);
  return details;
}

// Shows a line with this text; without any, hides it.
export function showLine(/** @type {HTMLElement} */ line, /** @type {string} */ text) {
  write(line, text);
  line.hidden = !text;
}

// A command line with its copy button.
export class Command {
  constructor(/** @type {Element} */ parent, /** @type {string} */ label) {
    this.box = html("div", { class: "lab-command", hidden: true }, parent);
    html("div", "lab-command-label", this.box, label);
    this.text = html("code", { tabIndex: 0 }, this.box);
    button(this.box, "Copy", `Copy: ${label}`, (pressed) => {
      window.getSelection()?.selectAllChildren(this.text);
      write(pressed, document.execCommand("copy") ? "Copied" : "Press Ctrl+C"); // pages without https have no navigator.clipboard
      setTimeout(() => write(pressed, "Copy"), 1600);
    });
  }

  show(/** @type {string} */ text) {
    write(this.text, text);
    this.box.hidden = !text;
  }
}

// Command-line flags for other engines, each with a copy button and the expected effect.
export class Flags {
  shown = "";

  constructor(/** @type {string} */ title, /** @type {Element} */ parent) {
    this.box = html("section", { class: "lab-card lab-paste", tabIndex: 0, "aria-label": "Flags to paste" }, parent);
    html("h3", "", this.box, title);
    this.list = html("div", "", this.box);
  }

  show(/** @type {import("../types.d.ts").Flags[]} */ flags) {
    if (JSON.stringify(flags) === this.shown) return;
    this.shown = JSON.stringify(flags);
    this.list.replaceChildren();
    flags.forEach(({ engine, flags: line, expected }, index) => {
      if (line) new Command(this.list, engine).show(line);
      if (flags[index + 1]?.expected !== expected) html("p", "lab-note", this.list, expected); // once, below all that it is true of
    });
  }
}
