// The tree for screen readers, focus and pointer: an unpainted circle per node, each a treeitem with a name.
//
// It follows the drawing once the drawing rests: while rounds are scrubbed past, nobody can read them out, and a
// thousand named elements a frame would be felt.
(function (Canopy) {
  "use strict";

  const { ink } = Canopy;
  const REST_MS = 90;

  class TreeItems {
    constructor(layer) {
      this.layer = layer;
      this.pool = new ink.Pool(layer, () => ink.svg("circle", { class: "cp-item", role: "treeitem" }));
    }

    later(marks) {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.draw(marks), REST_MS);
    }

    clear() {
      clearTimeout(this.waiting);
      this.pool.begin();
      this.pool.end();
    }

    draw(marks) {
      clearTimeout(this.waiting);
      const { round } = marks.scene;
      this.pool.begin();
      for (let node = 0; node < round.n; node++) this.item(marks, node);
      this.pool.end();
    }

    item(marks, node) {
      const { round, layout, folded, focus } = marks.scene;
      const there = layout.rows[node] >= 0;
      const [x, y] = there ? marks.at(node) : [0, 0];
      ink.put(this.pool.take(), {
        cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(4, marks.radius), display: there ? null : "none",
        tabindex: node === focus ? 0 : -1, "data-node": node, "aria-level": round.depths[node] + 1,
        "aria-label": ink.describe(round, node),
        "aria-expanded": round.children[node].length ? String(!folded.has(node)) : null,
      });
    }

    focus(node) {
      for (const item of this.pool.items) ink.put(item, { tabindex: -1 });
      const item = this.pool.items[node];
      if (!item) return;
      ink.put(item, { tabindex: 0 });
      item.focus({ preventScroll: true });
    }
  }

  Canopy.TreeItems = TreeItems;
})(window.Canopy = window.Canopy || {});
