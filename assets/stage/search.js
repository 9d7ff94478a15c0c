// Search over the whole run: what each round guessed and kept. The tree and the timeline mark the tokens that hold the words.

import { html, write } from "../shared/ink.js";
import { show, text } from "../shared/round.js";

export class Search {
  hits = /** @type {{ index: number, node: number }[]} */ ([]);
  hitIndex = -1; // the hit that is shown

  /** @param {Stage} stage @param {Player} player @param {HTMLElement} parent */
  constructor(stage, player, parent) {
    this.stage = stage;
    this.player = player;
    this.field = html("input", { type: "search", placeholder: "find a token …", "aria-label": "Search the run for a token",
      title: "Enter: the next, Shift and Enter: the one before" }, parent);
    this.count = html("span", { role: "status" }, parent);
    this.field.addEventListener("input", () => this.find(true));
    this.field.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && this.step(shiftKey ? -1 : 1));
    stage.on("lines", ({ other }) => this.field.value && this.find(other));
  }

  // Finds tokens that hold the words, and kept ones in which they begin. `isNew`: they are not those of before.
  find(isNew = false) {
    const { stage, stage: { rounds, run: { pieces } } } = this;
    const query = this.field.value.toLowerCase();
    const wordsOf = (/** @type {number} */ id) => text(pieces.get(id), id).toLowerCase();
    const has = (/** @type {number} */ id) => wordsOf(id).includes(query) || show(pieces.get(id), id).toLowerCase().includes(query);
    stage.foundTokens = new Set(query ? Array.from(pieces.keys()).filter(has) : []);
    const keptTokens = rounds.flatMap(({ keep, tokens }, index) => keep.map((node) => ({ index, node, words: wordsOf(tokens[node]) })));
    const whole = keptTokens.map(({ words }) => words).join("");
    let end = 0;
    const beginnings = keptTokens.filter(({ words }) => {
      const at = query ? whole.indexOf(query, end) : -1;
      end += words.length;
      return at >= 0 && at < end && at + query.length > end;
    });
    this.hits = (query ? rounds : []).flatMap(({ tokens }, index) => {
      const begins = beginnings.filter((one) => one.index === index).map(({ node }) => node);
      return Array.from(tokens.keys()).filter((node) => stage.foundTokens.has(tokens[node]) || begins.includes(node)).map((node) => ({ index, node }));
    });
    if (isNew) this.hitIndex = -1;
    this.showCount();
    stage.emit("hits");
  }

  showCount() {
    const { hits: { length }, hitIndex: at } = this;
    write(this.count, at >= 0 ? `${at + 1} of ${length}` : this.field.value ? `${length} found` : "");
  }

  // Pins the next hit from the round that is shown on, then one after the other.
  step(/** @type {number} */ by) {
    const { hits, stage } = this;
    if (!hits.length) return;
    const from = this.hitIndex < 0 ? hits.findIndex(({ index }) => index >= stage.current) : this.hitIndex + by;
    this.hitIndex = (from + hits.length) % hits.length;
    const { index, node } = hits[this.hitIndex];
    this.player.go(index, {});
    if (stage.pinned !== node) stage.pin(node);
    this.showCount();
  }

  open() {
    this.field.focus();
    this.field.select();
  }

  // Returns whether there was something to close.
  close() {
    if (!this.field.value && document.activeElement !== this.field) return false;
    this.field.value = "";
    this.field.blur();
    this.find(true);
    return true;
  }
}
