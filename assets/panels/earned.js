// What rows of a place earned over a run: how many were kept of those that were verified there. A place is the rank among
// siblings, the depth, and who drafted the row; the lab's Acceptance has what a row earned by its place, with intervals.

const RANKS = 4; // the last one counts all worse ones too

/** @param {Round} round @param {number} node */
export function rankOf(round, node) {
  return round.children[round.parents[node]].indexOf(node);
}

export class Earned {
  constructor() {
    this.counted = /** @type {Round[]} */ ([]);
    this.places = /** @type {Map<string, { kept: number, seen: number }>} */ (new Map());
  }

  // Counts the rounds that are new; those of another run from the first on.
  count(/** @type {Round[]} */ rounds) {
    if (rounds[0] !== this.counted[0] || rounds.length < this.counted.length) {
      this.counted = [];
      this.places.clear();
    }
    for (const round of rounds.slice(this.counted.length)) {
      for (let node = 1; node < round.n; node++) {
        const place = this.at(round, node);
        place.seen++;
        place.kept += Number(round.kept.has(node));
      }
    }
    this.counted = rounds.slice();
  }

  /** @param {Round} round @param {number} node */
  at(round, node) {
    const key = `${Math.min(rankOf(round, node), RANKS - 1)} ${round.depths[node]} ${round.drafters[node]}`;
    const place = this.places.get(key) ?? { kept: 0, seen: 0 };
    this.places.set(key, place);
    return place;
  }

  /** The share of rows at the place of a node that were kept; 1 for the root. @param {Round} round @param {number} node */
  share(round, node) {
    const { kept, seen } = node ? this.at(round, node) : { kept: 1, seen: 1 };
    return seen ? kept / seen : 0;
  }
}
