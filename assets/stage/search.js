// Search over the whole run for a token: what each round guessed and kept. The tree and the timeline mark what is found.

import { html, write } from "../shared/ink.js";
import { show, text } from "../shared/round.js";

export class Search {
  hits = /** @type {{ index: number, node: number }[]} */ ([]);
  hitIndex = -1; // the hit that is shown
  searched = { rounds: 0, pieces: 0 };

  /** @param {Stage} stage @param {Player} player @param {HTMLElement} parent */
  constructor(stage, player, parent) {
    this.stage = stage;
    this.player = player;
    this.field = html("input", { type: "search", placeholder: "find a token …", "aria-label": "Search the run for a token",
      title: "Enter: the next, Shift and Enter: the one before" }, parent);
    this.count = html("span", { role: "status" }, parent);
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && this.step(shiftKey ? -1 : 1));
    stage.on("lines", ({ other }) => this.field.value && (other ? this.find() : this.findMore()));
  }

  find() {
    this.stage.foundTokens = new Set();
    this.hits = [];
    this.hitIndex = -1;
    this.searched = { rounds: 0, pieces: 0 };
    this.findMore();
  }

  // Searches the rounds that have arrived since; a token's piece comes before the first round that has it.
  findMore() {
    const { stage, stage: { foundTokens, rounds, run: { pieces } }, searched } = this;
    const query = this.field.value.toLowerCase();
    const has = (/** @type {string} */ form) => form.toLowerCase().includes(query);
    for (const [id, piece] of Array.from(query ? pieces : []).slice(searched.pieces)) {
      if (has(text(piece, id)) || has(show(piece, id))) foundTokens.add(id);
    }
    for (let index = searched.rounds; foundTokens.size && index < rounds.length; index++) {
      for (const [node, token] of rounds[index].tokens.entries()) if (foundTokens.has(token)) this.hits.push({ index, node });
    }
    this.searched = { rounds: rounds.length, pieces: pieces.size };
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
    this.find();
    return true;
  }
}
