// The lab's controls: labelled, reachable by keyboard, all of them native elements.

import { button, html, write } from "../panels/ink.js";

// Checkboxes that look like chips. `changed` is called after every change.
export class Chips {
  constructor(parent, label, changed) {
    this.changed = changed;
    this.box = html("fieldset", "lab-chips", parent);
    this.legend = html("legend", "", this.box, label);
    this.list = html("div", "lab-chip-list", this.box);
    this.made = new Map();
  }

  // `fixed` chips are part of every sweep: shown, always on.
  add(value, text, { on = false, fixed = false, title = "", look = null } = {}) {
    if (this.made.has(value)) {
      this.made.get(value).checked = true;
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
    this.made.set(value, input);
    const after = Array.from(this.made.keys()).filter((other) => typeof other === "number" && other > value);
    const next = typeof value === "number" && after.length ? this.made.get(Math.min(...after)).parentElement : null;
    this.list.insertBefore(label, next);
  }

  // A chip for each method; plain decoding's is always on, and says ``why``.
  addMethods(methods, lab, on, why = "") {
    const { baseline, summaries } = lab.given.options;
    for (const method of methods) {
      const fixed = method === baseline;
      const title = (fixed ? why : "") + summaries[method];
      this.add(method, method, { fixed, on: on.includes(method), look: lab.look(method), title });
    }
  }

  get values() {
    return Array.from(this.made).filter(([, input]) => input.checked).map(([value]) => value);
  }

  set values(wanted) {
    for (const [value, input] of this.made) input.checked = input.disabled || wanted.includes(value);
  }
}

let count = 0;

function labelled(parent, text, tag, title) {
  const box = html("div", "lab-field", parent);
  const label = html("label", "", box, text);
  const field = html(tag, "", box);
  field.id = `lab-field-${++count}`;
  label.htmlFor = field.id;
  if (title) box.title = title;
  return field;
}

export function numberField(parent, text, { value, least, most, step = 1, title = "" }, changed) {
  const field = labelled(parent, text, "input", title);
  Object.assign(field, { type: "number", min: least, max: most, step, value, inputMode: "decimal" });
  field.addEventListener("input", changed);
  return field;
}

export function selectField(parent, text, title, changed) {
  const field = labelled(parent, text, "select", title);
  field.addEventListener("change", changed);
  return field;
}

export function sliderField(parent, text, title, changed) {
  const field = labelled(parent, text, "input", title);
  field.type = "range";
  field.addEventListener("input", changed);
  return field;
}

// Fills a select and keeps what is chosen, where it is still offered. What is apart comes last, under a heading.
export function fillSelect(field, entries, chosen, { heading = "", apart = [] } = {}) {
  const wanted = chosen === undefined ? field.value : chosen;
  const pair = (entry) => (Array.isArray(entry) ? entry : [entry, entry]);
  const made = (offered) => offered.map(pair).map(([value, text]) => new Option(text, value));
  field.replaceChildren(...made(entries));
  if (apart.length) {
    const group = Object.assign(document.createElement("optgroup"), { label: heading });
    group.append(...made(apart));
    field.append(group);
  }
  if ([...entries, ...apart].some((entry) => pair(entry)[0] === wanted)) field.value = wanted;
}

export function textField(parent, text, { placeholder, title }, entered) {
  const field = labelled(parent, text, "input", title);
  Object.assign(field, { type: "text", placeholder });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    entered(field);
  });
  field.addEventListener("blur", () => entered(field));
  return field;
}

// A command line with its copy button.
export class Command {
  constructor(parent, label) {
    this.box = html("div", "lab-command", parent);
    html("div", "lab-command-label", this.box, label);
    this.text = html("code", { tabIndex: 0 }, this.box);
    this.copied = button(this.box, "Copy", `Copy: ${label}`, () => this.copy());
    this.box.hidden = true;
  }

  show(text) {
    write(this.text, text || "");
    this.box.hidden = !text;
  }

  async copy() {
    const chosen = window.getSelection();
    chosen.selectAllChildren(this.text);
    let done = true;
    try {
      await navigator.clipboard.writeText(this.text.textContent);
    } catch {
      done = document.execCommand("copy"); // pages without https have no clipboard of their own
    }
    this.copied.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { this.copied.textContent = "Copy"; }, 1600);
  }
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function whole(value) {
  return Math.round(value).toLocaleString("en");
}
