// Search over the whole run for a token: what each round guessed and kept. The tree and the timeline mark what is found.

/** @import { Player } from "./player.js" */

import { html, write } from "../shared/ink.js";
import { show, text } from "../shared/round.js";

export class Search {
  hits = /** @type {{ index: number, node: number }[]} */ ([]);
  at = -1; // the hit that is shown

  /** @param {Stage} stage @param {Player} player @param {HTMLElement} parent */
  constructor(stage, player, parent) {
    this.stage = stage;
    this.player = player;
    this.field = html("input", { type: "search", placeholder: "find a token …", "aria-label": "Search the run for a token",
      title: "Enter: the next, Shift and Enter: the one before" }, parent);
    this.count = html("span", { role: "status" }, parent);
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && this.step(shiftKey ? -1 : 1));
    stage.on("value", () => this.stage.sought.size && this.find());
  }

  find() {
    const { stage } = this;
    const wanted = this.field.value.toLowerCase();
    const has = (/** @type {string} */ form) => form.toLowerCase().includes(wanted);
    const found = Array.from(wanted ? stage.pieces : []).filter(([id, piece]) => has(text(piece, id)) || has(show(piece, id)));
    stage.sought = new Set(found.map(([id]) => id));
    this.hits = stage.sought.size ? stage.rounds.flatMap(({ tokens }, index) => Array.from(tokens.keys())
      .filter((node) => stage.sought.has(tokens[node])).map((node) => ({ index, node }))) : [];
    this.at = -1;
    write(this.count, wanted ? `${this.hits.length} found` : "");
    stage.tell("sought");
  }

  // Pins the next hit from the round that is shown on, then one after the other.
  step(/** @type {number} */ by) {
    const { hits, stage } = this;
    if (!hits.length) return;
    const from = this.at < 0 ? hits.findIndex(({ index }) => index >= stage.current) : this.at + by;
    this.at = (from + hits.length) % hits.length;
    const { index, node } = hits[this.at];
    this.player.go(index, {});
    if (stage.pinned !== node) stage.pin(node);
    write(this.count, `${this.at + 1} of ${hits.length}`);
  }

  open() {
    this.field.focus();
    this.field.select();
  }

  // Returns whether there was something to close.
  close() {
    const open = Boolean(this.field.value) || document.activeElement === this.field;
    this.field.value = "";
    this.field.blur();
    if (open) this.find();
    return open;
  }
}
