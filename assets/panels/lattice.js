// Reading a drafter's lattice beside the tree it became: which row the path saw, which cells are nodes.
(function (Canopy) {
  "use strict";

  // The row of a lattice that the accepted path sees at each depth: 0 for marginals, otherwise the row whose
  // log probabilities are those of the path's own children.
  function rowsOnPath(draft, round) {
    const rows = new Int32Array(draft.depth);
    if (draft.rows === 1) return rows;
    for (let depth = 0; depth < draft.depth; depth++) {
      const node = round.keep[depth];
      if (node === undefined) break;
      rows[depth] = Math.max(0, matchingRow(draft, depth, node, round));
    }
    return rows;
  }

  function matchingRow(draft, depth, node, round) {
    for (let row = 0; row < draft.rows; row++) {
      const start = (depth * draft.rows + row) * draft.k;
      const fits = round.children[node].every((child) => {
        for (let rank = 0; rank < draft.k; rank++) {
          const here = draft.logprobs[start + rank] - (round.logprobs[child] - round.logprobs[node]);
          if (draft.tokens[start + rank] === round.tokens[child] && Math.abs(here) < 1e-3) return true;
        }
        return false;
      });
      if (fits && round.children[node].length) return row;
    }
    return -1;
  }

  // For every cell the node that stands for it: a kept one before others, then the most probable.
  function nodesOfCells(draft, drafter, round) {
    const bit = 1 << drafter;
    const cells = new Map();
    for (let node = 1; node < round.n; node++) {
      const depth = round.depths[node] - 1;
      if (!(round.drafters[node] & bit) || depth >= draft.depth) continue;
      if (draft.rows > 1 && round.parents[node] !== round.keep[depth]) continue;
      const key = `${depth} ${round.tokens[node]}`;
      const known = cells.get(key);
      const better = known === undefined || (round.kept.has(node) && !round.kept.has(known))
        || (round.kept.has(node) === round.kept.has(known) && round.logprobs[node] > round.logprobs[known]);
      if (better) cells.set(key, node);
    }
    return cells;
  }

  // Probabilities of a depth's ranks, the probability outside the first `shown`, and a lower bound of the entropy in nats
  // (all probability after the recorded ranks counted as one token).
  function spread(draft, depth, row, shown) {
    const start = (depth * draft.rows + row) * draft.k;
    const chances = Array.from({ length: draft.k }, (_, rank) => Math.exp(draft.logprobs[start + rank]));
    const outside = (ranks) => Math.max(0, 1 - chances.slice(0, ranks).reduce((sum, chance) => sum + chance, 0));
    const part = (chance) => (chance > 0 ? -chance * Math.log(chance) : 0);
    const entropy = chances.reduce((sum, chance) => sum + part(chance), part(outside(draft.k)));
    return { start, chances, rest: outside(shown), entropy };
  }

  // How many ranks to show: those that the tree uses and one more, or as many as there is room for text.
  function ranksShown(draft, rows, cells, room) {
    let used = 0;
    for (let depth = 0; depth < draft.depth; depth++) {
      const start = (depth * draft.rows + rows[depth]) * draft.k;
      for (let rank = used; rank < draft.k; rank++) {
        if (cells.has(`${depth} ${draft.tokens[start + rank]}`)) used = rank + 1;
      }
    }
    return Math.min(draft.k, Math.max(used + 1, Math.floor(room / 42), 1));
  }

  // Earlier ranks are wider: they hold most of the probability, and so most of the text that is worth reading.
  function columnEdges(width, count) {
    const shares = Array.from({ length: count }, (_, rank) => Math.max(0.42, 1.6 * 0.8 ** rank));
    const whole = shares.reduce((sum, share) => sum + share, 0);
    const edges = [0];
    for (const share of shares) edges.push(edges[edges.length - 1] + (width * share) / whole);
    return edges;
  }

  Canopy.lattice = { rowsOnPath, nodesOfCells, spread, ranksShown, columnEdges };
})(window.Canopy = window.Canopy || {});
