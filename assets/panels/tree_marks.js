// The tree for screen readers, focus and pointer: an unpainted circle per node, each a treeitem with a name.
//
// It follows the drawing once the drawing rests: while rounds are scrubbed past, nobody can read them out, and a
// thousand named elements a frame would be felt.

import { clip, describe, MONO, Pool, put, short, strength, svg, textWidth, write } from "./ink.js";

const REST_MS = 90;

export class TreeItems {
  constructor(layer) {
    this.layer = layer;
    this.pool = new Pool(layer, () => svg("circle", { class: "cp-item", role: "treeitem" }));
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
    put(this.pool.take(), {
      cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(4, marks.radius), display: there ? null : "none",
      tabindex: node === focus ? 0 : -1, "data-node": node, "aria-level": round.depths[node] + 1,
      "aria-label": describe(round, node),
      "aria-expanded": round.children[node].length ? String(!folded.has(node)) : null,
    });
  }

  focus(node) {
    for (const item of this.pool.items) put(item, { tabindex: -1 });
    const item = this.pool.items[node];
    if (!item) return;
    put(item, { tabindex: 0 });
    item.focus({ preventScroll: true });
  }
}

// The labels of the draft tree. The kept path is always labelled; other nodes only where no node of their column is
// nearer than a line of text, so that labels never overlap however many nodes there are.
const PATH_FONT = `600 12.5px ${MONO}`;
const LABEL_FONT = `10.5px ${MONO}`;
const LINE = 12; // pixels that a line of labels needs
const NARROW = 33; // pixels of a column under which labels of the kept path do not fit even in turn
const SLANT = { degrees: -52, room: 88 };
const AIRY = 18; // pixels between rows from which labels of inner nodes stand above their edge

// The shown nodes of each column from top to bottom.
function columnsOf(marks) {
  const { layout, parents } = marks.scene;
  const columns = Array.from({ length: layout.columnCount }, () => []);
  for (let node = 0; node < parents.length; node++) {
    if (marks.shown(node)) columns[layout.columns[node]].push(node);
  }
  for (const column of columns) column.sort((one, other) => layout.rows[one] - layout.rows[other]);
  return columns;
}

// How the kept path's labels stand: side by side on one line, in turn on two, or aslant where columns are narrow.
function stand(round, column) {
  if (column < NARROW) return "slanted";
  const ids = [...round.keep.map((node) => round.tokens[node]), round.bonus];
  return ids.some((id) => textWidth(round.show(id), PATH_FONT) > column - 7) ? "staggered" : "flat";
}

export class TreeLabels {
  constructor(layer) {
    this.pool = new Pool(layer, () => svg("text", { class: "cp-label", "aria-hidden": "true" }));
  }

  draw(marks) {
    this.marks = marks;
    this.pool.begin();
    this.drawPath();
    this.drawFolds();
    if (!marks.scene.quiet && marks.scene.camera.row * 24 >= LINE) columnsOf(marks).forEach((column) => this.drawColumn(column));
    this.pool.end();
  }

  label(text, x, y, className, opacity, turn) {
    const place = { x: x.toFixed(1), y: y.toFixed(1), class: className, opacity, transform: turn || null };
    write(put(this.pool.take(), place), text);
  }

  drawPath() {
    const { round, camera, layout, folded, lit } = this.marks.scene;
    const form = stand(round, camera.column);
    const say = (id, column, origin) => (form === "slanted" ? this.slanted(id, column, origin)
      : this.upright(id, column, origin, form === "staggered"));
    for (const node of round.keep) {
      if (this.marks.shown(node)) say(round.tokens[node], layout.columns[node], round.origin(node));
    }
    const tail = round.keep[round.keep.length - 1];
    const after = layout.columns[tail] + 1;
    if (this.marks.shown(tail) && !folded.has(tail) && lit > after) say(round.bonus, after, "root");
  }

  upright(id, column, origin, tight) {
    const { round, camera } = this.marks.scene;
    const wide = tight ? 2 * camera.column - 12 : camera.column - 7;
    const room = column ? wide : Math.min(wide, 70); // the root's label must not leave the panel on the left
    const raised = tight && column % 2 ? 15 : 0; // two lines of labels give each twice the room
    const text = clip(round.show(id), room, PATH_FONT);
    this.label(text, camera.x(column), camera.top - 14 - raised, `cp-label is-path o-${origin}`, 1);
  }

  slanted(id, column, origin) {
    const { round, camera } = this.marks.scene;
    const [x, y] = [camera.x(column) + 3, camera.top - 11];
    const text = clip(round.show(id), SLANT.room, PATH_FONT);
    const turn = `rotate(${SLANT.degrees} ${x.toFixed(1)} ${y.toFixed(1)})`;
    this.label(text, x, y, `cp-label is-path is-slanted o-${origin}`, 1, turn);
  }

  drawFolds() {
    const { folded, hidden } = this.marks.scene;
    for (const node of folded) {
      if (!this.marks.shown(node)) continue;
      const [x, y] = this.marks.at(node);
      this.label(`+${hidden(node)}`, x + this.marks.radius + 5, y + 3.5, "cp-label is-fold", 1);
    }
  }

  drawColumn(column) {
    const ys = column.map((node) => this.marks.at(node)[1]);
    for (let place = 0; place < column.length; place++) {
      const above = place ? ys[place] - ys[place - 1] : Infinity;
      const below = place + 1 < column.length ? ys[place + 1] - ys[place] : Infinity;
      if (Math.min(above, below) >= LINE - 0.5) this.drawNode(column[place], ys[place]);
    }
  }

  inside(x, y) {
    const { height, width } = this.marks.scene;
    return y > -9 && y < height + 9 && x > -90 && x < width;
  }

  drawNode(node, y) {
    const { round, camera, layout, folded, tokens } = this.marks.scene;
    const radius = this.marks.radius;
    const x = this.marks.at(node)[0] + radius + 3;
    const ghost = node >= round.n;
    if (!this.inside(x, y) || folded.has(node) || (!ghost && this.marks.lit(node))) return;
    const inner = layout.children[node].length > 0;
    const room = inner ? this.marks.lead - radius - 5 : camera.column * 0.8 - radius;
    const text = short(round.show(tokens(node)), room, LABEL_FONT);
    const fade = ghost ? 0.6 : strength(this.marks.scene.ink(node), 0.66).toFixed(2);
    const above = inner && camera.row >= AIRY; // clear of its own edge where the rows leave room for that
    if (text) this.label(text, x, above ? y - 4 : y + 3.5, "cp-label", fade);
  }
}

TreeLabels.LINE = LINE;
TreeLabels.stand = stand;

// The marks of the draft tree: edges, nodes, the bonus, the ghost (labels: tree_labels.js). Given a scene, it
// draws; it keeps no state of its own but the elements that it reuses.
//
// Edges of one colour and weight are one path: a thousand nodes are then some twenty paths.
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

export class TreeMarks {
  constructor(canvas) {
    const layer = (name) => svg("g", { class: name, role: "presentation" }, canvas);
    const pool = (name, tag, className) => new Pool(layer(name), () => svg(tag, { class: className }));
    this.axis = pool("cp-axis", "text", "cp-axis-text");
    this.edges = pool("cp-edges", "path", "cp-edge");
    this.walk = svg("path", { class: "cp-walk" }, layer("cp-walk-layer"));
    this.chosen = svg("path", { class: "cp-chosen" }, layer("cp-chosen-layer"));
    this.nodes = pool("cp-nodes", "path", "");
    this.ticks = pool("cp-ticks", "path", "cp-tick");
    this.bonus = svg("path", { class: "cp-bonus" }, layer("cp-bonus-layer"));
    this.labels = new TreeLabels(layer("cp-labels"));
    this.named = svg("text", { class: "cp-label is-named", "aria-hidden": "true" }, layer("cp-named-layer"));
    this.ring = svg("circle", { class: "cp-ring", r: 9 }, layer("cp-ring-layer"));
    this.found = pool("cp-found-layer", "circle", "cp-found");
    this.items = new TreeItems(svg("g", { class: "cp-items", role: "presentation" }, canvas));
  }

  // scene: {round, layout, camera, ghosts, limit, lit, folded, width, height}; `limit` is null, or how many
  // nodes of the best-first order are drawn so far, `lit` how many of the kept path the walk has reached.
  draw(scene) {
    this.scene = scene;
    this.radius = Math.min(5.5, 0.3 * scene.camera.column, Math.max(1.3, scene.camera.row * 0.36));
    this.bold = Math.min(1, scene.camera.column / 20); // of the kept path's marks, in their full size
    this.lead = scene.camera.column * (scene.camera.row >= TreeLabels.LINE ? 0.66 : 0.3);
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
      const text = put(this.axis.take(), { x: camera.x(column).toFixed(1), y: 13 });
      const plain = column || camera.left < 24; // no room for the word
      write(text, plain ? String(column) : "depth 0");
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
      const key = ghost ? "ghost" : `${round.origin(node)} ${weight(this.scene.ink(node))}`;
      if (!batches.has(key)) batches.set(key, []);
      batches.get(key).push(this.curve(node));
    }
    this.edges.begin();
    for (const [key, curves] of batches) this.batch(key, curves);
    this.edges.end();
    put(this.walk, { d: walk.join("") });
  }

  batch(key, curves) {
    const [origin, bucket] = key.split(" ");
    const { width, opacity } = WEIGHTS[bucket || 0];
    const ghost = origin === "ghost";
    put(this.edges.take(), {
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
      put(this.nodes.take(), { class: `cp-node ${fate} ${origin}`, d, "stroke-opacity": opacity });
    }
    this.nodes.end();
  }

  fade(node) {
    return (Math.round(strength(this.scene.ink(node), 0.45) * 10) / 10).toFixed(1);
  }

  circle(node, radius) {
    const [x, y] = this.at(node);
    const arc = `a${radius},${radius} 0 1 0`;
    return `M${(x - radius).toFixed(1)},${y.toFixed(1)}${arc} ${2 * radius},0${arc} ${-2 * radius},0`;
  }

  tick(node) {
    const [x, y] = this.at(node);
    put(this.ticks.take(), { d: TICK, transform: `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${this.bold.toFixed(2)})` });
  }

  drawBonus() {
    const { round, camera, layout, lit, folded } = this.scene;
    const tail = round.keep[round.keep.length - 1];
    const there = this.shown(tail) && lit > layout.columns[tail] + 1 && !folded.has(tail);
    put(this.bonus, { display: there ? "inline" : "none" });
    if (!there) return;
    const start = camera.x(layout.columns[tail]);
    const x = camera.x(layout.columns[tail] + 1);
    const size = Math.round(80 * this.bold) / 10;
    const left = (x - size).toFixed(1);
    put(this.bonus, {
      d: `M${start + size},${camera.top}H${left}M${left},${camera.top}l${size},-${size} ${size},${size} -${size},${size}Z` });
  }

  // The ring round the selected node, the path to it, and its label whatever the room.
  select(node) {
    const there = node !== null && node < this.scene.round.n && this.shown(node);
    for (const mark of [this.ring, this.chosen]) put(mark, { display: there ? "inline" : "none" });
    put(this.named, { display: there && !this.lit(node) ? "inline" : "none" });
    if (!there) return;
    const [x, y] = this.at(node);
    put(this.ring, { cx: x.toFixed(1), cy: y.toFixed(1), r: this.lit(node) ? 10.5 : this.radius + 3.5 });
    const { round, width } = this.scene;
    const left = x > width - 90;
    put(this.named, { x: (left ? x - 10 : x + 10).toFixed(1), y: (y - 8).toFixed(1), "text-anchor": left ? "end" : "start" });
    write(this.named, round.show(round.tokens[node]));
    const path = round.path(node).filter((step) => step > 0);
    put(this.chosen, { d: path.map((step) => this.curve(step)).join("") });
  }

  find(nodes) {
    this.found.begin();
    for (const node of nodes) {
      if (!this.shown(node)) continue;
      const [x, y] = this.at(node);
      put(this.found.take(), { cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(5, this.radius + 2.5) });
    }
    this.found.end();
  }
}
