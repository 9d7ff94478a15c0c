// The marks of the draft tree: edges, nodes, the bonus, the ghost (labels: tree_labels.js). Given a scene, it
// draws; it keeps no state of its own but the elements that it reuses.
//
// Edges of one colour and weight are one path: a thousand nodes are then some twenty paths.
(function (Canopy) {
  "use strict";

  const { ink } = Canopy;
  const WEIGHTS = [
    { least: 0, width: 0.7, opacity: 0.4 }, { least: 0.02, width: 1, opacity: 0.55 },
    { least: 0.1, width: 1.6, opacity: 0.75 }, { least: 0.35, width: 2.4, opacity: 0.95 },
  ];
  const KEPT_RADIUS = 7;
  const TICK = "M-2.9,0.2 L-0.9,2.4 L3,-2.3";

  function weight(chance) {
    let bucket = WEIGHTS.length - 1;
    while (chance < WEIGHTS[bucket].least) bucket--;
    return bucket;
  }

  class TreeMarks {
    constructor(canvas) {
      const layer = (name) => ink.svg("g", { class: name, role: "presentation" }, canvas);
      const pool = (name, tag, className) => new ink.Pool(layer(name), () => ink.svg(tag, { class: className }));
      this.axis = pool("cp-axis", "text", "cp-axis-text");
      this.edges = pool("cp-edges", "path", "cp-edge");
      this.walk = ink.svg("path", { class: "cp-walk" }, layer("cp-walk-layer"));
      this.chosen = ink.svg("path", { class: "cp-chosen" }, layer("cp-chosen-layer"));
      this.nodes = pool("cp-nodes", "path", "");
      this.ticks = pool("cp-ticks", "path", "cp-tick");
      this.bonus = ink.svg("path", { class: "cp-bonus" }, layer("cp-bonus-layer"));
      this.labels = new Canopy.TreeLabels(layer("cp-labels"));
      this.named = ink.svg("text", { class: "cp-label is-named", "aria-hidden": "true" }, layer("cp-named-layer"));
      this.ring = ink.svg("circle", { class: "cp-ring", r: 9 }, layer("cp-ring-layer"));
      this.found = pool("cp-found-layer", "circle", "cp-found");
      this.items = new Canopy.TreeItems(ink.svg("g", { class: "cp-items", role: "presentation" }, canvas));
    }

    // scene: {round, layout, camera, ghosts, limit, lit, folded, width, height}; `limit` is null, or how many
    // nodes of the best-first order are drawn so far, `lit` how many of the kept path the walk has reached.
    draw(scene) {
      this.scene = scene;
      this.radius = Math.min(5.5, 0.3 * scene.camera.column, Math.max(1.3, scene.camera.row * 0.36));
      this.bold = Math.min(1, scene.camera.column / 20); // of the kept path's marks, in their full size
      this.lead = scene.camera.column * (scene.camera.row >= Canopy.TreeLabels.LINE ? 0.66 : 0.3);
      this.drawAxis();
      this.drawEdges();
      this.drawNodes();
      this.drawBonus();
      this.labels.draw(this);
      this.items.later(this);
    }

    shown(node) {
      const { layout, rank, limit, round } = this.scene;
      return layout.rows[node] >= 0 && (limit === null || node >= round.n || rank[node] < limit);
    }

    lit(node) {
      const { round, lit, layout } = this.scene;
      return round.kept.has(node) && layout.columns[node] < lit;
    }

    at(node) {
      const { camera, layout } = this.scene;
      return [camera.x(layout.columns[node]), camera.y(layout.rows[node])];
    }

    // All curves between two columns bend at the same abscissas, so that they keep their order and never cross.
    curve(node) {
      const { camera, layout, parents } = this.scene;
      const [x, y] = this.at(node);
      const start = camera.x(layout.columns[node] - 1);
      const above = camera.y(layout.rows[parents[node]]);
      if (above === y) return `M${start.toFixed(1)},${y.toFixed(1)}H${x.toFixed(1)}`;
      const turn = start + this.lead;
      const middle = (turn + x) / 2;
      return `M${start.toFixed(1)},${above.toFixed(1)}H${turn.toFixed(1)}C${middle.toFixed(1)},${above.toFixed(1)} `
        + `${middle.toFixed(1)},${y.toFixed(1)} ${x.toFixed(1)},${y.toFixed(1)}`;
    }

    drawAxis() {
      const { camera, layout } = this.scene;
      this.axis.begin();
      for (let column = 0; column < layout.columnCount; column++) {
        const text = ink.put(this.axis.take(), { x: camera.x(column).toFixed(1), y: 13 });
        const plain = column || camera.left < 24; // no room for the word
        ink.write(text, plain ? String(column) : "depth 0");
      }
      this.axis.end();
    }

    drawEdges() {
      const { round, parents } = this.scene;
      const batches = new Map();
      const walk = [];
      for (let node = 1; node < parents.length; node++) {
        if (!this.shown(node)) continue;
        const ghost = node >= round.n;
        if (!ghost && this.lit(node)) {
          walk.push(this.curve(node));
          continue;
        }
        const key = ghost ? "ghost" : `${round.origin(node)} ${weight(Math.exp(round.logprobs[node]))}`;
        if (!batches.has(key)) batches.set(key, []);
        batches.get(key).push(this.curve(node));
      }
      this.edges.begin();
      for (const [key, curves] of batches) this.batch(key, curves);
      this.edges.end();
      ink.put(this.walk, { d: walk.join("") });
    }

    batch(key, curves) {
      const [origin, bucket] = key.split(" ");
      const { width, opacity } = WEIGHTS[bucket || 0];
      const ghost = origin === "ghost";
      ink.put(this.edges.take(), {
        class: `cp-edge o-${ghost ? this.scene.ghostOrigin + " is-ghost" : origin}`, d: curves.join(""),
        "stroke-width": ghost ? 1 : width, "stroke-opacity": ghost ? 0.5 : opacity,
      });
    }

    // Nodes of one look are one path, as edges are; what a screen reader and a pointer meet is TreeItems.
    drawNodes() {
      const { round, parents, ghostOrigin } = this.scene;
      const looks = new Map();
      this.ticks.begin();
      for (let node = 0; node < parents.length; node++) {
        if (!this.shown(node)) continue;
        const kept = node < round.n && this.lit(node);
        const look = node >= round.n ? `is-ghost o-${ghostOrigin} 0.55`
          : kept ? `is-accepted o-${round.origin(node)} 1` : `is-rejected o-${round.origin(node)} ${this.fade(node)}`;
        looks.set(look, (looks.get(look) || "") + this.circle(node, kept ? KEPT_RADIUS * this.bold : this.radius));
        if (kept && node > 0) this.tick(node);
      }
      this.ticks.end();
      this.nodes.begin();
      for (const [look, d] of looks) {
        const [fate, origin, opacity] = look.split(" ");
        ink.put(this.nodes.take(), { class: `cp-node ${fate} ${origin}`, d, "stroke-opacity": opacity });
      }
      this.nodes.end();
    }

    fade(node) {
      return (Math.round(ink.strength(Math.exp(this.scene.round.logprobs[node]), 0.45) * 10) / 10).toFixed(1);
    }

    circle(node, radius) {
      const [x, y] = this.at(node);
      const arc = `a${radius},${radius} 0 1 0`;
      return `M${(x - radius).toFixed(1)},${y.toFixed(1)}${arc} ${2 * radius},0${arc} ${-2 * radius},0`;
    }

    tick(node) {
      const [x, y] = this.at(node);
      ink.put(this.ticks.take(), { d: TICK, transform: `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${this.bold.toFixed(2)})` });
    }

    drawBonus() {
      const { round, camera, layout, lit, folded } = this.scene;
      const tail = round.keep[round.keep.length - 1];
      const there = this.shown(tail) && lit > layout.columns[tail] + 1 && !folded.has(tail);
      ink.put(this.bonus, { display: there ? "inline" : "none" });
      if (!there) return;
      const start = camera.x(layout.columns[tail]);
      const x = camera.x(layout.columns[tail] + 1);
      const size = Math.round(80 * this.bold) / 10;
      const left = (x - size).toFixed(1);
      ink.put(this.bonus, {
        d: `M${start + size},${camera.top}H${left}M${left},${camera.top}l${size},-${size} ${size},${size} -${size},${size}Z` });
    }

    // The ring round the selected node, the path to it, and its label whatever the room.
    select(node) {
      const there = node !== null && node < this.scene.round.n && this.shown(node);
      for (const mark of [this.ring, this.chosen]) ink.put(mark, { display: there ? "inline" : "none" });
      ink.put(this.named, { display: there && !this.lit(node) ? "inline" : "none" });
      if (!there) return;
      const [x, y] = this.at(node);
      ink.put(this.ring, { cx: x.toFixed(1), cy: y.toFixed(1), r: this.lit(node) ? 10.5 : this.radius + 3.5 });
      const { round, width } = this.scene;
      const left = x > width - 90;
      ink.put(this.named, { x: (left ? x - 10 : x + 10).toFixed(1), y: (y - 8).toFixed(1), "text-anchor": left ? "end" : "start" });
      ink.write(this.named, round.show(round.tokens[node]));
      const path = round.path(node).filter((step) => step > 0);
      ink.put(this.chosen, { d: path.map((step) => this.curve(step)).join("") });
    }

    find(nodes) {
      this.found.begin();
      for (const node of nodes) {
        if (!this.shown(node)) continue;
        const [x, y] = this.at(node);
        ink.put(this.found.take(), { cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(5, this.radius + 2.5) });
      }
      this.found.end();
    }
  }

  Canopy.TreeMarks = TreeMarks;
})(window.Canopy = window.Canopy || {});
