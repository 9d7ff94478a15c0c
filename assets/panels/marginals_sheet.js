// The drawing of the marginals, on a canvas or an SVG pen, and the places that react to the pointer.
(function (Canopy) {
  "use strict";

  const GUTTER = { left: 20, right: 78, gap: 14, head: 26, ranks: 15, foot: 4 };
  const ROW = { least: 11, most: 26 };
  const SANS = "system-ui, sans-serif";
  const NAME_FONT = `600 12px ${SANS}`;
  const ORIGINS = ["drafter1", "drafter2"];

  class MarginalsSheet {
    constructor() {
      this.hits = [];
    }

    measure(round, host) {
      const deepest = Math.max(...round.drafts.map((draft) => draft.depth));
      const around = GUTTER.head + GUTTER.ranks + GUTTER.foot;
      const room = (host.clientHeight || 300) - around;
      this.round = round;
      this.width = host.clientWidth || 480;
      this.row = Math.min(ROW.most, Math.max(ROW.least, Math.floor(room / deepest)));
      this.height = around + this.row * deepest;
      this.colours = Canopy.colour.palette(host);
      this.shade = new Canopy.colour.Shade(host);
    }

    paint(pen) {
      const { drafts } = this.round;
      this.pen = pen;
      this.hits = [];
      const wide = (this.width - GUTTER.gap * (drafts.length + 1)) / drafts.length;
      drafts.forEach((draft, drafter) => this.drawDrafter(draft, drafter, GUTTER.gap + drafter * (wide + GUTTER.gap), wide));
    }

    text(words, x, y, colour, align, font) {
      this.pen.font = font || `10px ${SANS}`;
      this.pen.fillStyle = this.colours[colour];
      this.pen.textAlign = align || "start";
      this.pen.fillText(words, x, y);
    }

    box(x, y, width, height, colour, alpha) {
      this.pen.globalAlpha = alpha;
      this.pen.fillStyle = this.colours[colour];
      this.pen.fillRect(x, y, Math.max(0, width), height);
      this.pen.globalAlpha = 1;
    }

    drawDrafter(draft, drafter, left, wide) {
      const { lattice } = Canopy;
      const rows = lattice.rowsOnPath(draft, this.round);
      const cells = lattice.nodesOfCells(draft, drafter, this.round);
      const room = wide - GUTTER.left - GUTTER.right;
      const shown = lattice.ranksShown(draft, rows, cells, room);
      const edges = lattice.columnEdges(room, shown).map((edge) => left + GUTTER.left + edge);
      const used = [];
      this.drawTitle(drafter, left, wide);
      this.drawAxis(edges, shown, left + wide);
      for (let depth = 0; depth < draft.depth; depth++) {
        used.push(this.drawDepth({ draft, drafter, depth, cells, edges, shown, row: rows[depth] }, left, wide));
      }
      this.drawFrontier(used, edges);
    }

    drawAxis(edges, shown, right) {
      const y = GUTTER.head + 10;
      for (let rank = 0; rank < shown; rank++) {
        const middle = (edges[rank] + edges[rank + 1]) / 2;
        if (edges[rank + 1] - edges[rank] >= 13) this.text(String(rank + 1), middle, y, "--quiet", "center");
      }
      this.text("rest", edges[shown] + 22, y, "--quiet", "center");
      this.text("H ≥", right, y, "--quiet", "right");
    }

    drawTitle(drafter, left, wide) {
      const { ink } = Canopy;
      const { round } = this;
      const name = round.drafterNames[drafter] || `drafter ${drafter + 1}`;
      const colour = ink.ORIGIN[ORIGINS[drafter]];
      const scored = round.drafts.length > 1 && round.scores.length > drafter;
      const bar = scored ? Math.min(64, wide * 0.18) : 0;
      const routed = scored && round.method === "routed" && round.drafters.some((mask) => mask & (1 << drafter));
      const free = wide - bar - (scored ? 76 : 16);
      const verified = !routed ? "" : free > ink.width(name, NAME_FONT) + 76 ? "✓ verified" : "✓";
      this.box(left, 7, 9, 9, colour, 1);
      this.text(ink.clip(name, free - (routed ? 16 : 0), NAME_FONT), left + 14, 16, "--ink", "left", NAME_FONT);
      if (!scored) return;
      const end = left + wide;
      const words = `μ${"₁₂"[drafter]} ${ink.probability(round.scores[drafter])}`;
      this.box(end - bar, 8, bar, 8, "--line", 0.7);
      this.box(end - bar, 8, bar * Math.min(1, round.scores[drafter]), 8, colour, 1);
      this.text(words, end - bar - 6, 16, "--ink", "right", `11px ${SANS}`);
      if (verified) this.text(verified, end - bar - 60, 16, colour, "right", `600 11px ${SANS}`);
      this.hits.push({ x: end - bar - 60, y: 2, width: bar + 60, height: 18, node: null, lines: () => [
        `μ${"₁₂"[drafter]} = ${round.scores[drafter].toFixed(4)}`,
        "mean path probability of this drafter's nodes: how sure it is"] });
    }

    drawDepth(at, left, wide) {
      const { draft, drafter, depth, cells, edges, shown } = at;
      const { ink } = Canopy;
      const { start, chances, rest, entropy } = Canopy.lattice.spread(draft, depth, at.row, shown);
      const y = GUTTER.head + GUTTER.ranks + depth * this.row;
      const line = y + this.row / 2 + 3.5;
      const used = [];
      this.text(String(depth + 1), left + GUTTER.left - 5, line, "--quiet", "right");
      for (let rank = 0; rank < shown; rank++) {
        const id = draft.tokens[start + rank];
        const node = cells.get(`${depth} ${id}`) ?? null;
        used.push(node !== null);
        const place = { x: edges[rank], y, width: edges[rank + 1] - edges[rank], height: this.row };
        const hit = { ...place, node, id, drafter, depth, rank, chance: chances[rank], lines: () => this.words(hit) };
        this.cell(hit);
        this.hits.push(hit);
      }
      const right = edges[shown];
      this.box(right + 4, y + 1, 36, this.row - 2, "--line", 0.5);
      this.box(right + 4, y + 1, 36 * Math.min(1, rest), this.row - 2, "--quiet", 0.4);
      this.text(`${Math.round(rest * 100)}%`, right + 22, line, "--ink", "center");
      this.text(ink.nats(entropy), left + wide, line, "--ink", "right");
      this.hits.push({ x: right + 2, y, width: left + wide - right, height: this.row, node: null, lines: () => [
        `depth ${depth + 1}`, `${ink.probability(rest)} of the probability lies outside these ${shown} ranks`,
        `entropy H at least ${ink.nats(entropy)} nats (all that no rank shows counted as one token)`] });
      return used;
    }

    cell(hit) {
      const { ink } = Canopy;
      const alpha = 0.04 + 0.86 * hit.chance;
      const kept = hit.node !== null && this.round.kept.has(hit.node);
      const inverse = this.shade.inverts(ORIGINS[hit.drafter], alpha);
      const tone = inverse ? "--panel" : hit.node === null && alpha < 0.2 ? "--quiet" : "--ink";
      const room = hit.width - 6 - (kept ? 10 : 0);
      const font = `${this.row < 13 ? 9 : 10.5}px ${ink.MONO}`;
      const line = hit.y + hit.height / 2 + 3.5;
      this.box(hit.x + 0.5, hit.y + 0.5, hit.width - 1, hit.height - 1, ink.ORIGIN[ORIGINS[hit.drafter]], alpha);
      const text = room > 9 ? ink.short(this.round.show(hit.id), room, font) : "";
      if (text) this.text(text, hit.x + 4, line, tone, "left", font);
      const sign = inverse ? "--panel" : "--ink";
      if (kept) this.text("✓", hit.x + hit.width - 3, line, sign, "right", `700 10.5px ${ink.MONO}`);
    }

    words(hit) {
      const chance = Canopy.ink.probability(hit.chance);
      const fate = hit.node === null ? "not in the tree" : `in the tree, ${this.round.fate[hit.node]}`;
      const place = `drafter ${hit.drafter + 1}, depth ${hit.depth + 1}, rank ${hit.rank + 1}`;
      return [this.round.show(hit.id), `${place}: probability ${chance}`, fate];
    }

    // The outline of the used cells: a line wherever a used cell meets one that is not.
    drawFrontier(used, edges) {
      const top = GUTTER.head + GUTTER.ranks;
      const is = (depth, rank) => Boolean(used[depth] && used[depth][rank]);
      const line = (x, y, right, down) => {
        this.pen.moveTo(x, y);
        this.pen.lineTo(right, down);
      };
      Object.assign(this.pen, { strokeStyle: this.colours["--ink"], lineWidth: 1.6, lineCap: "square" });
      this.pen.beginPath();
      for (let depth = 0; depth < used.length; depth++) {
        const [y, low] = [top + depth * this.row, top + (depth + 1) * this.row];
        for (let rank = 0; rank < used[depth].length; rank++) {
          if (!is(depth, rank)) continue;
          const [x, right] = [edges[rank], edges[rank + 1]];
          if (!is(depth - 1, rank)) line(x, y, right, y);
          if (!is(depth + 1, rank)) line(x, low, right, low);
          if (!is(depth, rank - 1)) line(x, y, x, low);
          if (!is(depth, rank + 1)) line(right, y, right, low);
        }
      }
      this.pen.stroke();
    }
  }

  Canopy.MarginalsSheet = MarginalsSheet;
})(window.Canopy = window.Canopy || {});
