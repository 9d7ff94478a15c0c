// What opens over the page: menus and sheets.

import { button, html } from "./ink.js";

/** @typedef {{ heading: string } | { label: string, note?: string, act: () => unknown }} MenuEntry */

// A button that opens a list, a popover that the style sheet places: arrows move, Enter chooses, Esc or a click elsewhere closes.
export class Menu {
  /** `fill` gives the entries when the list opens.
   *  @param {Element} parent @param {string} label @param {string} title @param {() => MenuEntry[]} fill */
  constructor(parent, label, title, fill) {
    const box = html("div", "", parent);
    const opener = button(box, label, title, () => undefined);
    opener.setAttribute("aria-haspopup", "menu");
    this.list = html("div", { class: "cs-menu-list", role: "menu", popover: "auto" }, box);
    opener.popoverTargetElement = this.list;
    this.list.addEventListener("beforetoggle", ({ newState }) => {
      if (newState === "open") this.list.replaceChildren(...fill().map((entry) => this.entry(entry)));
    });
    this.list.addEventListener("toggle", ({ newState }) => newState === "open" && this.items[0]?.focus({ preventScroll: true }));
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  get items() {
    return Array.from(this.list.querySelectorAll("button"));
  }

  entry(/** @type {MenuEntry} */ entry) {
    if ("heading" in entry) return html("p", "cs-menu-heading", null, entry.heading);
    const item = html("button", { class: "cs-menu-entry", type: "button", role: "menuitem" });
    html("span", "cs-menu-label", item, entry.label);
    if (entry.note) html("span", "cs-menu-note", item, entry.note);
    item.addEventListener("click", () => {
      this.list.hidePopover();
      entry.act();
    });
    return item;
  }

  key(/** @type {KeyboardEvent} */ event) {
    const { items } = this;
    const at = items.findIndex((item) => item === document.activeElement);
    /** @type {Record<string, number>} */
    const targets = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
    const to = targets[event.key];
    if (to === undefined && event.key !== "Escape") return;
    event.stopPropagation(); // Esc closes the list, and nothing else
    if (to === undefined) return;
    event.preventDefault();
    items[(to + items.length) % items.length].focus();
  }
}

// A sheet over the page. Esc and, if the browser knows `closedby`, a click beside it close it; the focus goes back.
export class Sheet {
  constructor(/** @type {string} */ label, className = "") {
    this.box = html("dialog", { class: `cs-sheet ${className}`, "aria-label": label, closedby: "any" }, document.body);
    this.shut = button(this.box, "×", "Close (Esc)", () => this.box.close(), "cs-close");
  }

  // `first` gets the focus; without it the button that closes the sheet.
  open(/** @type {HTMLElement | null} */ first = null) {
    this.box.showModal();
    (first ?? this.shut).focus();
  }
}
