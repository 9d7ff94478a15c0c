// The drafters' lattices: what each proposes for every depth, and which proposals became nodes of the tree.

import { box, clip, group, joinPaths, MONO, nats, ORIGIN, outline, path, probability, put, render, svg, text, textWidth } from "../shared/ink.js";
import { COLUMN_MIN_WIDTH, entropyOf, LatticeDrawing, preferredNode } from "./lattice.js";
import { DrawnPanel, placeIn } from "./panel.js";
import { onTheme, Shade } from "../shared/pen.js";
import { define } from "../shared/define.js";
import { drafterWords } from "../shared/round.js";

/** A guess of a lattice of marginals.
 *  @typedef {Box & { node: number | null, id: number, drafter: number, depth: number, rank: number, chance: number }} Guess */

/** For every cell of a lattice of marginals the node that stands for it.
 *  @param {Draft} draft @param {number} drafter @param {Round} round */
export function nodesOfCells(draft, drafter, round) {
  const bit = 1 << drafter;
  const cells = /** @type {Map<string, number>} */ (new Map());
  for (let node = 1; node < round.n; node++) {
    const depth = round.depths[node] - 1;
    if (!(round.drafters[node] & bit) || depth >= draft.depth) continue;
    const key = `${depth} ${round.tokens[node]}`;
    cells.set(key, preferredNode(round, node, cells.get(key) ?? null));
  }
  return cells;
}

/** Probabilities of a depth's ranks, the probability outside the first `shown`, and a lower bound of the entropy in nats.
 *  @param {Draft} draft @param {number} depth @param {number} shown */
export function spread(draft, depth, shown) {
  const start = depth * draft.k;
  const chances = Array.from(draft.logprobs.subarray(start, start + draft.k), Math.exp);
  const rest = Math.max(0, 1 - chances.slice(0, shown).reduce((sum, chance) => sum + chance, 0));
  return { start, chances, rest, entropy: entropyOf(chances) };
}

/** @returns {Record<"lines" | "boxes" | "texts", Mark[]>} */
const newMarks = () => ({ lines: [], boxes: [], texts: [] });

/** Earlier ranks are wider: they hold most of the probability, and so most of the text that is worth reading.
 *  @param {number} width @param {number} count */
function columnEdges(width, count) {
  const shares = Array.from({ length: count }, (_, rank) => Math.max(0.42, 1.6 * 0.8 ** rank));
  const total = shares.reduce((sum, share) => sum + share, 0);
  let edge = 0;
  return [0, ...shares.map((share) => (edge += (width * share) / total))];
}

const GUTTER = { left: 24, right: 78, gap: 14, head: 26, ranks: 15, foot: 4 };
const HEAD = GUTTER.head + GUTTER.ranks;
const MIN_SUMS_WIDTH = 200;
const RETURN_MS = 700; // at once, the sheet would jump between two nodes
const ROW = { min: 11, max: 34 };
const SANS = "system-ui, sans-serif";
const NAME_FONT = `600 12px ${SANS}`;
const TOKEN_FONT = `10.5px ${MONO}`; // the default of texts in a drawing
const ORIGINS = /** @type {const} */ (["drafter1", "drafter2"]);

// What each drafter proposes for every depth: a heat map of depth against rank, the tree's own cells outlined; or columns
// of candidates, joined by ink, if a guess depends on the one before it.
export class MarginalsPanel extends DrawnPanel {
  hits = /** @type {Hit[]} */ ([]);
  focusedHit = /** @type {Hit | null} */ (null); // under the pointer, or reached by arrow keys
  marks = newMarks(); // that drawings are added to
  heads = [newMarks()]; // of each drafter; they stay in view
  edges = ""; // the outline of the cells that the tree uses
  width = 0;
  height = 0;
  scrolledFrom = /** @type {ScrollToOptions | null} */ (null); // before it went to a selected node
  scrolled = { left: 0, top: 0 }; // pixels; read from the page it would be laid out for it
  returning = 0; // a timer
  row = ROW.min;
  waiting = "Here you see what the drafters propose for each position.";

  constructor(/** @type {HTMLElement} */ host, /** @type {Stage} */ stage) {
    super(host, stage, "marginals", "Marginals");
    this.shade = new Shade(host);
    this.changeMarksBox = svg("g", { class: "cp-change" }, this.canvas); // what a focused candidate changes in the next column
    this.headsBox = svg("g", { class: "cp-drawing" }, this.canvas);
    put(this.tip.box, { role: "status" });
    onTheme(() => { // a text's colour depends on the tint under it
      this.shade = new Shade(host);
      this.resize();
    });
    host.addEventListener("scroll", () => {
      this.scrolled = { left: host.scrollLeft, top: host.scrollTop };
      this.placeHeads();
    });
    for (const byHand of ["wheel", "pointerdown"]) host.addEventListener(byHand, () => { this.scrolledFrom = null; }, { passive: true });
    this.canvas.addEventListener("focus", () => this.canvas.matches(":focus-visible") && this.focusHit(this.firstGuess()));
    this.canvas.addEventListener("blur", () => this.onLeave());
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  drawRound(/** @type {Round} */ { drafts, engine }) {
    this.focusHit(null);
    if (drafts.length) this.paint(drafts);
    else if (engine) {
      this.empty.say("Not recorded by this engine", // and how to record it
        "recorder.round(…, drafts=[{tokens, logprobs}]): the drafter's likeliest tokens by depth, (depth, k).");
    } else this.empty.say("No drafter", "In plain decoding the target writes alone, one token a pass.");
  }

  paint(/** @type {Draft[]} */ drafts) {
    this.measure(drafts);
    this.hits = [];
    this.edges = "";
    const body = newMarks();
    this.heads = drafts.map(newMarks);
    const share = this.width / drafts.length;
    drafts.forEach((draft, drafter) => {
      const left = GUTTER.gap + drafter * share;
      this.marks = this.heads[drafter];
      if (!draft.follow) this.box(left - GUTTER.gap, 0, share, HEAD, "--panel", 1); // its rows scroll behind it
      this.drawTitle(drafter, left, Math.min(share, this.room.width) - 2 * GUTTER.gap);
      this.marks = body;
      if (draft.follow) new LatticeDrawing(this, draft, drafter, ORIGINS[drafter]).paint(left, share - GUTTER.gap, this.height);
      else this.drawHeatMap(draft, drafter, left, share - 2 * GUTTER.gap);
    });
    const { lines, boxes, texts } = body;
    const rows = Array.from(Map.groupBy(texts, ([, { y }]) => y).values(), (row) => group(row)); // or one text less would move all others
    render(this.drawing, [group(lines), group(joinPaths(boxes)), group(rows), path("cp-frontier", this.edges)]);
    render(this.headsBox, this.heads.map((head) => group([...joinPaths(head.boxes), ...head.texts])));
    this.placeHeads();
    const sizes = drafts.map((draft, drafter) => `drafter ${drafter + 1}: ${draft.depth} depths, ${draft.k} ranks`);
    const used = this.hits.filter((hit) => hit.node !== null).length;
    const walkable = Boolean(this.firstGuess());
    put(this.canvas, { role: walkable ? "application" : "img", tabindex: walkable ? 0 : null,
      "aria-label": `Marginals of round ${this.round.index + 1}; ${sizes.join("; ")}; ${used} cells shown are in the tree`
        + (walkable ? "; arrow keys walk from guess to guess" : "") });
  }

  measure(/** @type {Draft[]} */ drafts) {
    const deepest = Math.max(0, ...drafts.map(({ follow, depth }) => (follow ? 0 : depth)));
    const columns = Math.max(0, ...drafts.map(({ follow, depth }) => (follow ? depth + 1 : 0)));
    const around = HEAD + GUTTER.foot;
    const { width, height } = this.room;
    const wide = width - GUTTER.gap;
    const slot = wide / Math.max(1, Math.floor(wide / COLUMN_MIN_WIDTH)); // whole columns are in view
    this.width = Math.max(width, columns && (GUTTER.gap + columns * slot) * drafts.length);
    this.row = Math.min(ROW.max, Math.max(ROW.min, Math.floor((height - around) / deepest)));
    this.height = Math.max(around + this.row * deepest, columns && height - 2);
    this.setSize(this.width, this.height);
  }

  placeHeads() {
    const { width, room, scrolled: { left, top } } = this;
    const share = width / this.heads.length;
    Array.from(/** @type {NodeListOf<SVGElement>} */ (this.headsBox.childNodes), ({ style }, drafter) => {
      style.translate = `${Math.max(0, Math.min(left - drafter * share, share - room.width))}px ${top}px`;
    });
  }

  /** Most texts take their font from a class: inline styles would cost a style computation each, every round.
   *  @param {string} words @param {number} x @param {number} y @param {string} colour @param {string} anchor */
  text(words, x, y, colour, anchor, font = "") {
    this.marks.texts.push(text(`is-${colour.slice(2)} ${font ? "" : "is-word"}`, words, x, y,
      { "text-anchor": anchor, style: font && font !== TOKEN_FONT ? `font: ${font}` : null }));
  }

  // `edge`: the width of its outline.
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour @param {number} alpha */
  box(x, y, width, height, colour, alpha, edge = 0) {
    this.marks.boxes.push(path("cp-box", box(x, y, Math.max(0, width), height),
      { fill: `var(${colour})`, "fill-opacity": alpha.toFixed(2), "stroke-width": edge }));
  }

  /** @param {string} d @param {string} colour @param {number} alpha @param {number} width */
  line(d, colour, alpha, width) {
    this.marks.lines.push(path("", d, { stroke: `var(${colour})`, "stroke-opacity": alpha, "stroke-width": width }));
  }

  /** @param {number} drafter @param {number} left @param {number} wide */
  drawTitle(drafter, left, wide) {
    const { round } = this;
    const name = drafterWords(this.stage.header, drafter) || `drafter ${drafter + 1}`;
    const colour = ORIGIN[ORIGINS[drafter]];
    const scored = round.drafts.length > 1 && round.scores.length > drafter;
    const bar = scored ? Math.min(64, wide * 0.18) : 0;
    const routed = scored && round.method === "routed" && round.drafters.some((mask) => mask & (1 << drafter));
    const free = wide - bar - (scored ? 76 : 16);
    const verified = !routed ? "" : free > textWidth(name, NAME_FONT) + 76 ? "✓ verified" : "✓";
    this.box(left, 7, 9, 9, colour, 1);
    this.text(clip(name, free - (routed ? 16 : 0), NAME_FONT), left + 14, 16, "--ink", "start", NAME_FONT);
    if (!scored) return;
    const end = left + wide;
    const score = round.scores[drafter];
    this.box(end - bar, 8, bar, 8, "--line", 0.7);
    this.box(end - bar, 8, bar * Math.min(1, score), 8, colour, 1);
    this.text(`μ${"₁₂"[drafter]} ${probability(score)}`, end - bar - 6, 16, "--ink", "end", `11px ${SANS}`);
    if (verified) this.text(verified, end - bar - 60, 16, colour, "end", `600 11px ${SANS}`);
    this.addTip({ x: end - bar - 60, y: 2, width: bar + 60, height: 18 },
      [`μ${"₁₂"[drafter]} = ${score.toFixed(4)}`, "mean path probability of this drafter's nodes: how sure it is"]);
  }

  /** A place that is no guess, with the lines of its tip. @param {Box & { depth?: number, drafter?: number }} place @param {string[]} lines */
  addTip(place, lines) {
    this.hits.push({ ...place, node: null, lines: () => lines });
  }

  /** Depth against rank; as many ranks as the tree uses and one more, or as there is room for text.
   *  @param {Draft} draft @param {number} drafter @param {number} left @param {number} wide */
  drawHeatMap(draft, drafter, left, wide) {
    const cells = nodesOfCells(draft, drafter, this.round);
    const showsSums = wide >= MIN_SUMS_WIDTH; // else the words need the room of what is summed up at the right
    const room = wide - GUTTER.left - (showsSums ? GUTTER.right : 0);
    const nodes = Array.from({ length: draft.depth }, (_, depth) =>
      Array.from(draft.tokens.subarray(depth * draft.k, (depth + 1) * draft.k), (id) => cells.get(`${depth} ${id}`) ?? null));
    const used = Math.max(...nodes.map((ranks) => ranks.findLastIndex((node) => node !== null) + 1));
    const shown = Math.min(draft.k, Math.max(used + 1, Math.floor(room / 42), 1));
    const edges = columnEdges(room, shown).map((edge) => left + GUTTER.left + edge);
    const [right, top, end] = [edges[shown], HEAD, left + wide];
    const { marks } = this;
    this.marks = this.heads[drafter];
    this.text("depth", left + GUTTER.left - 2, top - 5, "--quiet", "end");
    for (let rank = 0; rank < shown; rank++) {
      const words = rank ? String(rank + 1) : edges[1] - edges[0] < 48 ? "#1" : "rank 1";
      if (edges[rank + 1] - edges[rank] >= 13) this.text(words, (edges[rank] + edges[rank + 1]) / 2, top - 5, "--quiet", "middle");
    }
    if (showsSums) {
      this.text("rest", right + 22, top - 5, "--quiet", "middle");
      this.text("H ≥", end, top - 5, "--quiet", "end");
    }
    this.marks = marks;
    nodes.forEach((ranks, depth) => {
      const { start, chances, rest, entropy } = spread(draft, depth, shown);
      const [y, low] = [top + depth * this.row, top + (depth + 1) * this.row];
      const line = y + this.row / 2 + 3.5;
      this.text(String(depth + 1), left + GUTTER.left - 5, line, "--quiet", "end");
      for (let rank = 0; rank < shown; rank++) {
        const [x, next] = [edges[rank], edges[rank + 1]];
        this.drawCell({ x, y, width: next - x, height: this.row, node: ranks[rank], id: draft.tokens[start + rank], drafter, depth, rank, chance: chances[rank] });
        if (ranks[rank] === null) continue;
        const isEdge = (/** @type {number} */ down, /** @type {number} */ along) => (nodes[depth + down]?.[rank + along] ?? null) === null;
        if (isEdge(-1, 0)) this.edges += `M${x},${y}H${next}`; // the outline of what the tree uses
        if (isEdge(1, 0)) this.edges += `M${x},${low}H${next}`;
        if (isEdge(0, -1)) this.edges += `M${x},${y}V${low}`;
        if (isEdge(0, 1)) this.edges += `M${next},${y}V${low}`;
      }
      if (!showsSums) return;
      this.box(right + 4, y + 1, 36, this.row - 2, "--line", 0.5);
      this.box(right + 4, y + 1, 36 * Math.min(1, rest), this.row - 2, "--quiet", 0.4);
      this.text(`${Math.round(rest * 100)}%`, right + 22, line, "--ink", "middle");
      this.text(nats(entropy), end, line, "--ink", "end");
      this.addTip({ x: right + 2, y, width: end - right, height: this.row, depth, drafter }, [
        `depth ${depth + 1}`, `${probability(rest)} of the probability lies outside these ${shown} ranks`,
        `entropy H at least ${nats(entropy)} nats (all that no rank shows counted as one token)`]);
    });
  }

  drawCell(/** @type {Guess} */ guess) {
    const { x, y, width, height, node, id, drafter, depth, rank, chance } = guess;
    const { round } = this;
    const alpha = 0.04 + 0.86 * chance;
    const kept = node !== null && round.kept.has(node);
    const inverse = this.shade.inverts(ORIGINS[drafter], alpha);
    const tone = inverse ? "--panel" : node === null && alpha < 0.2 ? "--quiet" : "--ink";
    const ticked = kept && (width < 15 || width > 25); // else the token has the room
    const room = width - 6 - (ticked ? 10 : 0);
    const font = this.row < 13 ? `9px ${MONO}` : TOKEN_FONT;
    const line = y + height / 2 + 3.5;
    this.box(x + 0.5, y + 0.5, width - 1, height - 1, ORIGIN[ORIGINS[drafter]], alpha);
    const words = room > 9 ? clip(round.show(id), room, font) : "";
    if (words) this.text(words, x + 4, line, tone, "start", font);
    if (ticked) this.text("✓", x + width - 3, line, inverse ? "--panel" : "--ink", "end", `700 10.5px ${MONO}`);
    this.hits.push({ ...guess, lines: () => [round.show(id), `depth ${depth + 1}, rank ${rank + 1}: probability ${probability(chance)}`,
      node === null ? "not in the tree" : `in the tree, ${round.fate[node]}`] });
  }

  firstGuess() {
    return this.hits.find(({ transition }) => transition) ?? null;
  }

  onPointer(/** @type {MouseEvent} */ event) {
    const [x, below] = placeIn(this.canvas, event);
    const y = below - this.scrolled.top < HEAD ? below - this.scrolled.top : below;
    const within = (/** @type {Box} */ one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height;
    const hit = this.hits.find(within) || null;
    if (hit === this.focusedHit) return;
    this.focusHit(hit, x);
    if (!hit) this.stage.hover(null);
  }

  // Shows what is known of a place, and what a candidate changes in the column after it.
  focusHit(/** @type {Hit | null} */ hit, x = hit?.x ?? 0) {
    this.focusedHit = hit;
    const { candidate, drawing } = hit?.transition ?? {};
    const changes = candidate && drawing ? drawing.changesShown(candidate) : [];
    this.drawing.classList.toggle("is-dimmed", changes.length > 0);
    render(this.changeMarksBox, hit && drawing ? changes.flatMap((change) => this.changeMarks(hit, change, drawing.origin)) : []);
    if (!hit) {
      this.tip.hide();
      return;
    }
    this.stage.hover(hit.node);
    const { scrollLeft, scrollTop } = this.host;
    const explained = [hit, ...changes.map((change) => change.hit)]
      .map((box) => ({ ...box, x: box.x - scrollLeft, y: box.y - scrollTop }));
    this.tip.show(x - scrollLeft, hit.y - scrollTop + hit.height / 2, hit.lines(), explained);
  }

  /** One candidate of the next column: a bar as long as its probability after the focused one, a mark at its average.
   *  @param {Box} from @param {Change & { hit: Box }} change @param {Origin} origin */
  changeMarks(from, { hit, chance, average, to }, origin) {
    const [y, colour] = [hit.y + hit.height / 2, `var(${ORIGIN[origin]})`];
    const bar = (/** @type {number} */ width) => box(hit.x, hit.y + 1, width, hit.height - 2);
    const mark = average === null ? []
      : [path("cp-change-mark", `M${hit.x + hit.width * Math.min(1, average)},${hit.y}v${hit.height}`)];
    return [
      path("", `M${from.x + from.width},${from.y + from.height / 2}L${hit.x},${y}`,
        { stroke: colour, "stroke-width": 0.8 + 3 * chance, "stroke-opacity": 0.25 + 0.75 * chance }),
      path("cp-change-cell", bar(hit.width)),
      path("", bar(hit.width * chance), { fill: colour, "fill-opacity": 0.55 }), ...mark,
      text("", clip(this.round.show(to.token), hit.width - 5, `10px ${MONO}`), hit.x + 3, y + 3.5)];
  }

  onKey(/** @type {KeyboardEvent} */ event) {
    if (event.key === "Enter") this.onClick();
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const { candidate, drawing } = this.focusedHit?.transition ?? {};
    const neighbour = candidate && drawing?.neighbour(candidate, event.key);
    const next = candidate ? neighbour && drawing?.placed.get(neighbour) : this.firstGuess();
    if (next) this.focusHit(next);
  }

  onClick() {
    if (this.focusedHit && this.focusedHit.node !== null) this.stage.pin(this.focusedHit.node);
  }

  onLeave() {
    this.focusHit(null);
    super.onLeave();
    this.scrollBack();
  }

  // Every cell that stands for the selected node, one for each drafter that proposes it; or the rest of its depth, if it has no cell.
  marksOf(/** @type {number} */ node) {
    const { round } = this;
    const hits = this.hits.filter(({ depth, drafter = 0 }) => depth === round.depths[node] - 1 && round.drafters[node] & (1 << drafter));
    const cells = hits.filter(({ id, transition }) => (
      transition ? transition.candidate === transition.drawing.lattice.places[node] : id === round.tokens[node]));
    const places = cells.length ? cells : hits.filter(({ id }) => id === undefined);
    for (const place of places.slice(0, 1)) { // under its head, and a lattice by whole columns
      const { left = GUTTER.gap, slot = 1 } = place.transition?.drawing ?? {};
      const start = left - GUTTER.gap;
      this.scrollTo(this.host, { ...place, y: place.y - HEAD, height: place.height + HEAD }, (x) => start + slot * Math.round((x - start) / slot));
    }
    return places.map((hit) => outline("cp-cell-ring", hit));
  }

  select(/** @type {NodeSelection} */ selection) {
    if (selection.node === null) this.scrollBack();
    else if (!this.host.matches(":hover")) this.scrolledFrom ??= this.scrolled;
    super.select(selection);
  }

  // Goes back to where it was before the last selection elsewhere, unless that lasts or the pointer is here.
  scrollBack() {
    clearTimeout(this.returning);
    this.returning = setTimeout(() => {
      if (!this.scrolledFrom || this.stage.selection.node !== null || this.host.matches(":hover")) return;
      this.host.scrollTo(this.scrolledFrom);
      this.scrolledFrom = null;
    }, RETURN_MS);
  }
}

define({
  name: "marginals",
  title: "Marginals",
  place: { row: "lower", share: 1.35 },
  caption: "Guesses by depth; outlined: in the tree.",
  legend: [
    { glyph: "▓", label: "probable", title: "The darker a cell, the more probable its token at that depth" },
    { glyph: "▭", label: "in the tree", title: "Outlined: the guesses that the tree uses; the outline shows where the node budget ran out" },
    { glyph: "╱", label: "transition", when: ({ run }) => run.present.lattice, title: "Ink joins a guess with what may follow it; dark: in the tree. Point at a guess: bars show what follows it, marks what follows on average" },
    { glyph: "✓", label: "accepted" },
    { glyph: "+%", label: "other tokens", when: ({ run }) => run.present.lattice, title: "How probable the tokens are that have no cell at that depth" },
    { glyph: "H", label: "entropy", when: ({ run }) => !run.present.lattice, title: "Entropy of a drafter's proposals at that depth, in nats, at least" },
    { glyph: "μ", label: "confidence", when: ({ header }) => (header?.drafters.length ?? 0) > 1, title: "Mean path probability of the nodes that a drafter drafted" },
  ],
  create: (host, stage) => new MarginalsPanel(host, stage),
});
