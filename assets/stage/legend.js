// A panel's legend. It names only what this run has: its drafters by name, and a tree that was not chosen only if there
// is one.
(function (Canopy) {
  "use strict";

  const PLACES = { drafter1: 0, drafter2: 1 };

  class Legend {
    // Entries: {glyph, label, color?, title?, origin? (shown where some node has it), ghost? (where a tree was not chosen)}.
    constructor(stage, frame, entries) {
      const { html } = Canopy.ink;
      this.stage = stage;
      this.list = html("ul", "cs-legend", frame);
      this.list.setAttribute("aria-label", "Legend");
      this.made = entries.map((entry) => ({ entry, ...this.item(entry) }));
      stage.on("value", () => this.draw());
      stage.on("begin", () => this.draw());
    }

    item({ glyph, label, color, title }) {
      const { html } = Canopy.ink;
      const item = html("li", "", this.list);
      item.title = title || label;
      const sign = html("span", "cs-glyph", item, glyph);
      if (color) sign.style.color = `var(${color})`;
      const words = html("span", "", item, label);
      return { item, words };
    }

    draw() {
      const { present, header } = this.stage;
      for (const { entry, item, words } of this.made) {
        const { origin, ghost, label } = entry;
        item.hidden = Boolean((origin && !present.origins.has(origin)) || (ghost && !present.ghosts));
        const name = origin in PLACES && header ? header.heads[PLACES[origin]] : "";
        if (!(origin in PLACES)) continue;
        Canopy.ink.write(words, name || label);
        item.title = name ? `${name}, ${label} of this run` : label;
      }
    }
  }

  Canopy.Legend = Legend;
})(window.Canopy = window.Canopy || {});
