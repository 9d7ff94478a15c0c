// A lattice whose probabilities depend on the token before: candidates in columns, joined by a line if one may follow another.

/** @import { MarginalsPanel } from "./marginals.js" */

import { clip, MONO, nats, ORIGIN, probability } from "../shared/ink.js";

export const COLUMN_MIN_WIDTH = 46; // below which a lattice cannot be read
const SLOT = { cellShare: 0.64, minRow: 14, maxRow: 28, top: 40, foot: 16 };
const MIN_SHOWN = 3; // candidates of a column; more are shown only if they have MIN_MASS
const MIN_MASS = 0.002;
const MAX_LINES = 26; // between two columns
const MIN_FLOW = 0.012; // probability along a line outside the tree

/** @typedef {{ from: Candidate, to: Candidate, chance: number, flow: number, lit: boolean, kept: boolean }} Line */
/** Which candidates a candidate leads to in the tree. @typedef {Map<Candidate, Set<Candidate>>} TreeLinks */

/** Columns of candidates by depth, the likeliest first.
 *  @param {Draft} draft @param {number} drafter @param {Round} round */
export function columnsOf(draft, drafter, round) {
  /** @type {Candidate} */
  const root = { token: round.tokens[0], row: 0, depth: -1, mass: 1, before: [], after: [], node: 0 };
  const columns = [[root]];
  for (let depth = 0; depth < draft.depth; depth++) {
    /** @type {Map<string, Candidate>} */
    const column = new Map();
    for (const from of columns[depth]) spreadFrom(draft, depth, from, column);
    columns.push([...column.values()].sort((one, other) => other.mass - one.mass));
  }
  return { root, columns: columns.slice(1), ...markTree(root, drafter, round) };
}

/** @param {Draft} draft @param {number} depth @param {Candidate} from @param {Map<string, Candidate>} column */
function spreadFrom(draft, depth, from, column) {
  const start = (depth * draft.rows + from.row) * draft.k;
  for (let cell = start; cell < start + draft.k; cell++) {
    const chance = Math.exp(draft.logprobs[cell]);
    if (!(chance > 0)) continue;
    const [token, row] = [draft.tokens[cell], draft.follow?.[cell] ?? 0];
    const key = `${token} ${row}`;
    /** @type {Candidate} */
    const to = column.get(key) || { token, row, depth, mass: 0, before: [], after: [], node: null };
    column.set(key, to);
    to.mass += from.mass * chance;
    to.before.push({ from, chance });
    from.after.push({ to, chance });
  }
}

/** Follows the tree through the lattice: the candidates of its nodes, and its path.
 *  @param {Candidate} root @param {number} drafter @param {Round} round */
function markTree(root, drafter, round) {
  const places = [root];
  const path = /** @type {TreeLinks} */ (new Map());
  for (let node = 1; node < round.n; node++) {
    const above = places[round.parents[node]];
    if (!above || !(round.drafters[node] & (1 << drafter))) continue;
    const step = above.after.find(({ to }) => to.token === round.tokens[node]);
    if (!step) continue;
    const { to } = step;
    places[node] = to;
    path.set(above, (path.get(above) ?? new Set()).add(to));
    to.node = preferredNode(round, node, to.node);
  }
  return { places, path };
}

// A lower bound of the entropy in nats: all probability outside these counts as one token.
export function entropyOf(/** @type {number[]} */ chances) {
  const rest = Math.max(0, 1 - chances.reduce((sum, chance) => sum + chance, 0));
  return [...chances, rest].reduce((sum, chance) => sum - (chance > 0 ? chance * Math.log(chance) : 0), 0);
}

/** Of two nodes with the same token and depth, the kept one, else the more probable; `other` may be null.
 *  @param {Round} round @param {number} node @param {number | null} other */
export function preferredNode(round, node, other) {
  if (other === null) return node;
  if (round.kept.has(node) !== round.kept.has(other)) return round.kept.has(node) ? node : other;
  return round.logprobs[node] > round.logprobs[other] ? node : other;
}

/** The candidates of a column that fit: those in the tree first, then the most probable.
 *  @param {Candidate[]} column @param {number} room */
export function shownOf(column, room) {
  const eligible = column.filter(({ node, mass }, rank) => rank < MIN_SHOWN || node !== null || mass >= MIN_MASS);
  const treeFirst = eligible.sort((one, other) => Number(other.node !== null) - Number(one.node !== null) || other.mass - one.mass);
  return treeFirst.slice(0, room).sort((one, other) => other.mass - one.mass);
}

/** The lines into a column, as many as can be read: those of the tree first, then the most probable.
 *  @param {Candidate[]} column @param {Candidate[]} shownAbove @param {TreeLinks} path @param {Round} round @returns {Line[]} */
export function linesInto(column, shownAbove, path, round) {
  const lines = [];
  for (const to of column) {
    for (const { from, chance } of to.before) {
      if (!shownAbove.includes(from)) continue;
      const lit = Boolean(path.get(from)?.has(to));
      const kept = lit && to.node !== null && round.kept.has(to.node) && round.parents[to.node] === from.node;
      const flow = from.mass * chance;
      if (lit || flow >= MIN_FLOW) lines.push({ from, to, chance, flow, lit, kept });
    }
  }
  const order = (/** @type {Line} */ line) => (line.kept ? 2 : line.lit ? 1 : 0);
  return lines.sort((one, other) => order(other) - order(one) || other.flow - one.flow).slice(0, MAX_LINES);
}

/** Next-token probabilities after a candidate, highest first, each with the average over all candidates of its column.
 *  @param {Candidate} candidate @param {Candidate[]} column @returns {Change[]} */
export function changesOf(candidate, column) {
  const shared = column.some(({ before }) => before.length > 1);
  const total = column.length ? [...new Set(column.flatMap(({ before }) => before.map(({ from }) => from)))]
    .reduce((sum, { mass }) => sum + mass, 0) : 1;
  const after = [...candidate.after].sort((one, other) => other.chance - one.chance);
  return after.map(({ to, chance }) => ({ to, chance, average: shared ? to.mass / total : null }));
}

// Draws a lattice on the marginals' sheet, and leaves a hit for each candidate.
export class LatticeDrawing {
  left = 0;
  slot = 0; // pixels from one column to the next
  row = SLOT.maxRow;
  shown = /** @type {Candidate[][]} */ ([]); // those for which there is room, the root's column first
  placed = /** @type {Map<Candidate, Hit>} */ (new Map());

  /** @param {MarginalsPanel} sheet @param {Draft} draft @param {number} drafter @param {Origin} origin */
  constructor(sheet, draft, drafter, origin) {
    this.sheet = sheet;
    this.drafter = drafter;
    this.origin = origin;
    this.lattice = columnsOf(draft, drafter, sheet.round);
  }

  /** @param {number} left @param {number} wide @param {number} height */
  paint(left, wide, height) {
    const { sheet, lattice: { root, columns, path } } = this;
    this.left = left;
    this.slot = wide / (columns.length + 1);
    const room = height - SLOT.top - SLOT.foot;
    const maxRows = Math.max(1, Math.floor(room / SLOT.minRow));
    this.shown = [[root], ...columns.map((column) => shownOf(column, maxRows))];
    this.row = Math.min(SLOT.maxRow, room / Math.max(...this.shown.map(({ length }) => length)));
    this.shown.forEach((column, place) => column.forEach((candidate, rank) => {
      /** @type {Hit} */
      const hit = { x: left + place * this.slot, y: SLOT.top + rank * this.row, width: this.slot * SLOT.cellShare, height: this.row,
        node: candidate === root ? null : candidate.node, id: candidate.token, drafter: this.drafter,
        depth: candidate.depth, transition: { candidate, drawing: this }, lines: () => this.words(candidate) };
      this.placed.set(candidate, hit);
    }));
    for (let place = 1; place < this.shown.length; place++) {
      for (const line of linesInto(this.shown[place], this.shown[place - 1], path, sheet.round).reverse()) this.drawLine(line);
    }
    for (const [candidate, hit] of this.placed) {
      this.drawCell(candidate, hit);
      if (candidate !== root) sheet.hits.push(hit);
    }
    sheet.text("depth", left + (this.slot * SLOT.cellShare) / 2, SLOT.top - 5, "--quiet", "middle");
    columns.forEach((column, depth) => this.drawFoot(column, depth));
  }

  drawLine(/** @type {Line} */ { from, to, chance, lit, kept }) {
    const [start, end] = [this.placed.get(from), this.placed.get(to)];
    if (!start || !end) return;
    const colour = kept ? "--ink" : lit ? ORIGIN[this.origin] : "--quiet";
    const alpha = kept ? 1 : lit ? 0.35 + 0.5 * chance : 0.1 + 0.3 * chance;
    const d = `M${start.x + start.width},${start.y + start.height / 2}L${end.x},${end.y + end.height / 2}`;
    this.sheet.line(d, colour, alpha, kept ? 2.4 : 0.7 + (lit ? 1.6 : 1) * chance);
  }

  /** @param {Candidate} candidate @param {Box} box */
  drawCell(candidate, { x, y, width, height }) {
    const { sheet, lattice: { root } } = this;
    const { round } = sheet;
    const origin = candidate === root ? "root" : this.origin;
    const alpha = candidate === root ? 0.25 : 0.05 + 0.8 * candidate.mass;
    const drafted = candidate.node !== null;
    const kept = candidate.node !== null && round.kept.has(candidate.node);
    const font = `${Math.max(9, Math.min(12, Math.round(width / 3.4)))}px ${MONO}`;
    sheet.box(x, y + 0.5, width, height - 1, "--panel", 1);
    sheet.box(x, y + 0.5, width, height - 1, ORIGIN[origin], alpha);
    if (drafted) sheet.box(x, y + 1, width, height - 2, "--panel", 0, kept ? 1.8 : 0.9);
    const tone = sheet.shade.inverts(origin, alpha) ? "--panel" : drafted ? "--ink" : "--quiet";
    const tick = kept && candidate !== root && width > 34 ? 9 : 0;
    sheet.text(clip(round.show(candidate.token), width - 5 - tick, font), x + 3, y + height / 2 + 3.5, tone, "start", font);
    if (tick) sheet.text("✓", x + width - 2, y + height / 2 + 3.5, tone, "end", `700 10px ${MONO}`);
  }

  /** The depth over a column, and under it how much of the probability lies outside.
   *  @param {Candidate[]} column @param {number} depth */
  drawFoot(column, depth) {
    const { sheet, slot } = this;
    const x = this.left + (depth + 1) * slot;
    const y = SLOT.top + this.shown[depth + 1].length * this.row;
    const outside = Math.max(0, 1 - this.shown[depth + 1].reduce((sum, { mass }) => sum + mass, 0));
    const entropy = entropyOf(column.map(({ mass }) => mass));
    const middle = x + (slot * SLOT.cellShare) / 2;
    sheet.text(String(depth + 1), middle, SLOT.top - 5, "--quiet", "middle");
    sheet.text(`+${Math.round(100 * outside)}%`, middle, y + 12, "--quiet", "middle");
    sheet.addTip({ x, y, width: slot * SLOT.cellShare, height: SLOT.foot, depth, drafter: this.drafter }, [
      `depth ${depth + 1}`, `${probability(outside)} of the probability lies outside the guesses shown`,
      `entropy H at least ${nats(entropy)} nats (all that was not recorded counted as one token)`]);
  }

  words(/** @type {Candidate} */ candidate) {
    const { round } = this.sheet;
    const fate = candidate.node === null ? "not in the tree" : `in the tree, ${round.fate[candidate.node]}`;
    const changes = changesOf(candidate, this.lattice.columns[candidate.depth + 1] ?? []);
    const after = changes.slice(0, 3).map(({ to, chance, average }) => (
      `${round.show(to.token)} ${probability(chance)}${average === null ? "" : ` (${probability(average)} on average)`}`)).join(" · ");
    return [round.show(candidate.token), `depth ${candidate.depth + 1}: probability ${probability(candidate.mass)}, ${fate}`,
      after ? `after it: ${after}` : "nothing was drafted after it"];
  }

  // What follows a candidate: its changes to the shown candidates of the next column, with their boxes.
  changesShown(/** @type {Candidate} */ candidate) {
    return changesOf(candidate, this.lattice.columns[candidate.depth + 1] ?? []).flatMap((change) => {
      const hit = this.placed.get(change.to);
      return hit ? [{ ...change, hit }] : [];
    });
  }

  /** The candidate to which an arrow key leads. @param {Candidate} candidate @param {string} key */
  neighbour(candidate, key) {
    const column = this.shown[candidate.depth + 1];
    const beside = column[column.indexOf(candidate) + (key === "ArrowDown" ? 1 : -1)];
    const likeliest = (/** @type {{ to: Candidate, chance: number }[]} */ steps) => steps
      .filter(({ to }) => to !== this.lattice.root && this.placed.has(to)).sort((one, other) => other.chance - one.chance)[0]?.to;
    switch (key) {
      case "ArrowUp": case "ArrowDown": return beside;
      case "ArrowRight": return likeliest(candidate.after);
      case "ArrowLeft": return likeliest(candidate.before.map(({ from, chance }) => ({ to: from, chance: chance * from.mass })));
      default: return undefined;
    }
  }
}
