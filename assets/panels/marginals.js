// What each drafter proposes for every depth: a heat map of depth against rank, the tree's own cells outlined.
(function (Canopy) {
  "use strict";

  class MarginalsPanel {
    constructor(host, stage) {
      const { ink } = Canopy;
      this.host = host;
      this.stage = stage;
      this.drawing = new Canopy.MarginalsSheet();
      this.selection = { node: null };
      host.classList.add("cp-host", "cp-marginals");
      host.tabIndex = 0; // it scrolls where it is low, so keys have to reach it
      ink.name(host, "Marginals (scrollable)");
      this.sheet = ink.html("canvas", "cp-sheet", host);
      this.sheet.setAttribute("role", "img");
      this.marks = ink.svg("svg", { class: "cp-over", "aria-hidden": "true" }, host);
      this.ring = ink.svg("path", { class: "cp-cell-ring" }, this.marks);
      this.empty = new ink.Empty(host);
      this.tip = new ink.Tip(host);
      Canopy.colour.onTheme(() => this.draw(this.round));
      this.sheet.addEventListener("pointermove", (event) => this.point(event));
      this.sheet.addEventListener("pointerleave", () => this.leave());
      this.sheet.addEventListener("click", () => {
        if (this.over && this.over.node !== null) stage.pin({ node: this.over.node });
      });
    }

    draw(round) {
      this.round = round;
      this.tip.hide();
      const bare = !round || !round.drafts.length;
      this.sheet.hidden = bare;
      if (!round) this.empty.say("No round yet", "Here you see what the drafters propose for each position.");
      else if (bare && !round.engine) this.empty.say("No drafter", "In plain decoding the target writes alone, one token a pass.");
      if (!bare) {
        this.empty.hide();
        this.drawing.measure(round, this.host);
        const { width, height } = this.drawing;
        Canopy.ink.put(this.marks, { width, height });
        this.drawing.paint(Canopy.pen.fresh(this.sheet, width, height));
        this.announce();
      }
      this.select(this.selection);
    }

    announce() {
      const size = (draft, drafter) => `drafter ${drafter + 1}: ${draft.depth} depths, ${draft.k} ranks`;
      const sizes = this.round.drafts.map(size);
      const used = this.drawing.hits.filter((hit) => hit.node !== null).length;
      this.sheet.setAttribute("aria-label",
        `Marginals of round ${this.round.index + 1}; ${sizes.join("; ")}; ${used} cells shown are in the tree`);
    }

    point(event) {
      const box = this.sheet.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const within = (one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height;
      const hit = this.drawing.hits.find(within);
      if (hit === this.over) return;
      this.over = hit;
      this.stage.hover(hit && hit.node !== null ? { node: hit.node } : null);
      if (hit) this.tip.show(x, y + box.top - this.host.getBoundingClientRect().top, hit.lines());
      else this.tip.hide();
    }

    leave() {
      this.over = undefined;
      this.tip.hide();
      this.stage.hover(null);
    }

    // Every cell that stands for the selected node: one for each drafter that proposes it.
    select(selection) {
      this.selection = selection || { node: null };
      const { round } = this;
      const { node } = this.selection;
      const there = Boolean(round) && Number.isInteger(node) && node > 0 && node < round.n;
      const same = (hit) => hit.depth === round.depths[node] - 1 && hit.id === round.tokens[node]
        && round.drafters[node] & (1 << hit.drafter);
      const shapes = there ? this.drawing.hits.filter(same) : [];
      const outline = (hit) => `M${hit.x},${hit.y}h${hit.width}v${hit.height}h${-hit.width}Z`;
      this.ring.setAttribute("d", shapes.map(outline).join(""));
    }

    resize() {
      this.draw(this.round);
    }

    svg() {
      if (this.sheet.hidden) return null;
      const { width, height, colours } = this.drawing;
      const pen = new Canopy.pen.SvgPen(width, height, colours["--panel"]);
      this.drawing.paint(pen);
      return pen.text();
    }
  }

  Canopy.define({
    name: "marginals",
    title: "Marginals",
    place: { row: "lower", share: 1.35 },
    caption: "Guesses for each depth, likeliest first; outlined: those in the tree.",
    legend: [
      { glyph: "▓", label: "probable", title: "The darker a cell, the more probable its token at that depth" },
      { glyph: "▭", label: "in the tree", title: "Outlined: the guesses that the tree uses; the outline shows where the node budget ran out" },
      { glyph: "✓", label: "accepted" }, { glyph: "μ", label: "confidence", title: "Mean path probability of the nodes that a drafter drafted" },
    ],
    lacks: (round) => (round.engine && !round.drafts.length
      ? "recorder.round(…, drafts=[{tokens, logprobs}]): the drafter's likeliest tokens by depth, (depth, k)." : ""),
    create: (host, stage) => new MarginalsPanel(host, stage),
  });
})(window.Canopy = window.Canopy || {});
