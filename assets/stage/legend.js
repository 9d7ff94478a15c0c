// A panel's legend. It names only what this run has: its drafters by name, and a tree that was not chosen only if there
// is one.

import { html, write } from "../shared/ink.js";

export class Legend {
  /** @param {Stage} stage @param {HTMLElement} frame @param {LegendEntry[]} entries */
  constructor(stage, frame, entries) {
    this.stage = stage;
    this.list = html("ul", { class: "cs-legend", "aria-label": "Legend" }, frame);
    this.items = entries.map((entry) => ({ entry, ...this.item(entry) }));
    stage.on("value begin", () => this.draw());
  }

  item(/** @type {LegendEntry} */ { glyph, label, color, title }) {
    const item = html("li", { title: title || label }, this.list);
    const sign = html("span", "cs-glyph", item, glyph);
    if (color) sign.style.color = `var(${color})`;
    const words = html("span", "", item, label);
    return { item, words };
  }

  draw() {
    const { present, header } = this.stage;
    for (const { entry, item, words } of this.items) {
      const { origin, rejectedTree, lattice, label } = entry;
      item.hidden = Boolean((origin && !present.origins.has(origin)) || (rejectedTree && !present.rejectedTrees) || (lattice && !present.lattice));
      const drafter = ["drafter1", "drafter2"].indexOf(origin ?? "");
      if (drafter < 0) continue;
      const name = header?.drafters[drafter];
      write(words, name || label);
      item.title = name ? `${name}, ${label} of this run` : label;
    }
  }
}
