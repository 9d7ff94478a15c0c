// A button that opens a list under it: arrows move, Enter chooses, Esc or a click elsewhere closes.
(function (Canopy) {
  "use strict";

  class Menu {
    // `fill` gives the entries when the list opens: {label, note?, act} or {heading}.
    constructor(parent, label, title, fill) {
      const { html, button } = Canopy.ink;
      this.fill = fill;
      this.box = html("div", "cs-menu", parent);
      this.button = button(this.box, label, title, () => (this.list.hidden ? this.open() : this.close()));
      this.button.setAttribute("aria-haspopup", "menu");
      this.list = html("div", "cs-menu-list", this.box);
      this.list.setAttribute("role", "menu");
      this.list.hidden = true;
      this.close();
      this.list.addEventListener("keydown", (event) => this.key(event));
      document.addEventListener("pointerdown", (event) => {
        if (!this.box.contains(event.target)) this.close();
      });
    }

    open() {
      for (const other of document.querySelectorAll(".cs-menu-list")) other.hidden = true;
      this.list.replaceChildren(...this.fill().map((entry) => this.entry(entry)));
      this.list.hidden = false;
      this.button.setAttribute("aria-expanded", "true");
      const first = this.list.querySelector("button");
      if (first) first.focus({ preventScroll: true });
    }

    close() {
      this.list.hidden = true;
      this.button.setAttribute("aria-expanded", "false");
    }

    entry(entry) {
      const { html } = Canopy.ink;
      if (entry.heading) return html("p", "cs-menu-heading", null, entry.heading);
      const item = html("button", "cs-menu-entry", null);
      item.type = "button";
      item.setAttribute("role", "menuitem");
      html("span", "cs-menu-label", item, entry.label);
      if (entry.note) html("span", "cs-menu-note", item, entry.note);
      item.addEventListener("click", () => {
        this.close();
        entry.act();
      });
      return item;
    }

    key(event) {
      const items = Array.from(this.list.querySelectorAll("button"));
      const at = items.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
      if (event.key === "Escape") {
        this.close();
        this.button.focus();
      } else if (to !== undefined) items[(to + items.length) % items.length].focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    }
  }

  Canopy.Menu = Menu;
})(window.Canopy = window.Canopy || {});
