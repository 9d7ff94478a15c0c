// The labels of the draft tree. The kept path is always labelled; other nodes only where no node of their column is
// nearer than a line of text, so that labels never overlap however many nodes there are.
(function (Canopy) {
  "use strict";

  const { ink } = Canopy;
  const PATH_FONT = `600 12.5px ${ink.MONO}`;
  const LABEL_FONT = `10.5px ${ink.MONO}`;
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
    return ids.some((id) => ink.width(round.show(id), PATH_FONT) > column - 7) ? "staggered" : "flat";
  }

  class TreeLabels {
    constructor(layer) {
      this.pool = new ink.Pool(layer, () => ink.svg("text", { class: "cp-label", "aria-hidden": "true" }));
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
      ink.write(ink.put(this.pool.take(), place), text);
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
      const text = ink.clip(round.show(id), room, PATH_FONT);
      this.label(text, camera.x(column), camera.top - 14 - raised, `cp-label is-path o-${origin}`, 1);
    }

    slanted(id, column, origin) {
      const { round, camera } = this.marks.scene;
      const [x, y] = [camera.x(column) + 3, camera.top - 11];
      const text = ink.clip(round.show(id), SLANT.room, PATH_FONT);
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
      const text = ink.short(round.show(tokens(node)), room, LABEL_FONT);
      const fade = ghost ? 0.6 : ink.strength(Math.exp(round.logprobs[node]), 0.66).toFixed(2);
      const above = inner && camera.row >= AIRY; // clear of its own edge where the rows leave room for that
      if (text) this.label(text, x, above ? y - 4 : y + 3.5, "cp-label", fade);
    }
  }

  TreeLabels.LINE = LINE;
  TreeLabels.stand = stand;
  Canopy.TreeLabels = TreeLabels;
})(window.Canopy = window.Canopy || {});
