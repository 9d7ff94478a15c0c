// The timeline's axis: all rounds equally wide, or as wide as their time; it can be zoomed to a part.

import { figuresOf } from "../shared/round.js";

const MAX_ROUND_WIDTH = 64; // pixels of a round, on the axis of rounds
const MIN_ROUNDS = 3; // the fewest rounds that fill the window

export class Axis {
  byTime = false;
  edges = [0]; // rounds + 1: where each begins, and where the last one ends
  part = /** @type {[number, number] | null} */ (null); // the visible part, in the axis's unit: rounds, or seconds; null: all
  from = 0;
  to = 1;
  width = 1;
  end = 1;

  /** Lays `rounds` out over `width` pixels, with room for another run that is `other` long.
   *  @param {Pick<Round, "spent">[]} rounds @param {number} width */
  layOut(rounds, width, other = 0) {
    let end = 0;
    this.edges = [0, ...rounds.map(({ spent }) => (end += this.byTime ? spent : 1))];
    this.width = width;
    this.end = Math.max(other, end) || 1;
    [this.from, this.to] = this.part || [0, this.byTime ? this.end : Math.max(this.end, width / MAX_ROUND_WIDTH)];
  }

  // The pixel of a position on the axis.
  x(/** @type {number} */ position) {
    return ((position - this.from) / (this.to - this.from)) * this.width;
  }

  // The round at a pixel, the nearest one if there is none.
  at(/** @type {number} */ pixel) {
    const position = this.from + (pixel / this.width) * (this.to - this.from);
    const after = this.edges.findIndex((edge) => edge > position);
    return Math.max(0, (after < 0 ? this.edges.length : after) - 1 - (after < 0 ? 1 : 0));
  }

  /** Makes the visible part `factor` times as long, around a pixel. @param {number} factor @param {number} pixel */
  zoom(factor, pixel) {
    const { end } = this;
    const fixed = this.from + (pixel / this.width) * (this.to - this.from);
    const minLength = (MIN_ROUNDS * end) / Math.max(MIN_ROUNDS, this.edges.length - 1);
    const length = Math.max(minLength, (this.to - this.from) * factor);
    const from = Math.max(0, Math.min(fixed - (pixel / this.width) * length, end - length));
    this.part = length >= end ? null : [from, from + length];
  }

  // Moves the visible part so that a round is in it.
  show(/** @type {number} */ index) {
    if (!this.part || !(index in this.edges)) return;
    const [from, to] = this.part;
    const by = Math.min(0, this.edges[index] - from) + Math.max(0, this.edges[index + 1] - to);
    this.part = [from + by, to + by];
  }
}

/** What the rounds from ``first`` to ``last`` come to: tokens, rounds, and seconds by stage.
 *  @param {Round[]} rounds @param {number} first @param {number} last */
export function totalsOf(rounds, first, last) {
  const chosen = rounds.slice(first, last + 1);
  const seconds = /** @type {Record<string, number>} */ ({});
  for (const round of chosen) {
    for (const [name, part] of Object.entries(round.seconds)) seconds[name] = (seconds[name] || 0) + part;
  }
  const { tokens, seconds: spent } = figuresOf(chosen);
  return { rounds: chosen.length, tokens, spent, seconds };
}
