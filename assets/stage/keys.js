// The keyboard, and the page that documents it. One table serves both.

import { html } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { TERMS } from "../shared/terms.js";
import { controls } from "./controls.js";

const SCROLLS = ["ArrowUp", "ArrowDown", "Home", "End"];

/** @typedef {{ key: string, shown: string, does: string, act: () => unknown }} Key */

export class Keys {
  constructor(/** @type {Parts} */ parts) {
    this.parts = parts;
    const { stage, player, conversation } = parts;
    /** @type {Key[]} */
    this.table = [
      { key: " ", shown: "Space", does: "play or pause", act: () => player.toggle() },
      { key: "ArrowLeft", shown: "←", does: "previous round", act: () => this.step(-1) },
      { key: "ArrowRight", shown: "→", does: "next round", act: () => this.step(1) },
      { key: "Home", shown: "Home", does: "first round", act: () => player.go(0, {}) },
      { key: "End", shown: "End", does: "last round", act: () => player.go(stage.rounds.length - 1, {}) },
      { key: "ArrowUp", shown: "↑", does: "to the node's parent", act: () => this.climb() },
      { key: "ArrowDown", shown: "↓", does: "to its child, the accepted one first", act: () => this.descend() },
      { key: "[", shown: "[", does: "play slower", act: () => player.changeSpeed(-1) },
      { key: "]", shown: "]", does: "play faster", act: () => player.changeSpeed(1) },
      { key: "f", shown: "f", does: "fit the tree into its panel", act: () => parts.frames.entries.get("tree")?.panel.fit?.() },
      { key: "/", shown: "/", does: "search the run for a token", act: () => parts.search.open() },
      ...(conversation ? [{ key: "c", shown: "c", does: "continue with the next turn (workbench)", act: () => conversation.continueConversation() }] : []),
      ...(document.body.classList.contains("cs-presenting") ? ["1", "2", "3"].map((key, index) => (
        { key, shown: key, does: "run this one of the presenter's prompts", act: () => parts.ask?.(index) })) : []),
      { key: "?", shown: "?", does: "keys and terms", act: () => (parts.help.box.open ? parts.help.box.close() : parts.help.open()) },
      { key: "Escape", shown: "Esc", does: "skip the film, close, dismiss, unselect rounds, leave a part of the icicle, leave full screen, unpin a node", act: () => this.leave() },
    ];
    document.addEventListener("keydown", (event) => this.press(event));
  }

  press(/** @type {KeyboardEvent} */ event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || taken(event)) return;
    const entry = this.table.find(({ key }) => key === event.key);
    const elsewhere = this.parts.stage.mode === "lab" || document.querySelector("dialog[open]");
    if (!entry || (elsewhere && !["?", "Escape"].includes(event.key))) return;
    event.preventDefault();
    entry.act();
  }

  // Under reduced motion the film has still scenes to step through.
  step(/** @type {number} */ by) {
    const { film, player, stage } = this.parts;
    if (!stage.reducedMotion || !film.step(by)) player.step(by);
  }

  // To the parent of the node that is chosen; if none is, to the end of the kept path.
  climb() {
    const { round, selection: { node } } = this.parts.stage;
    if (round) this.pin(node === null ? round.keep[round.keep.length - 1] : round.parents[node]);
  }

  descend() {
    const { round, selection: { node } } = this.parts.stage;
    const children = !round ? [] : node === null ? [0] : round.children[node];
    this.pin(children.find((child) => round?.kept.has(child)) ?? children[0]);
  }

  pin(/** @type {number | undefined} */ node) {
    const { stage } = this.parts;
    if (node !== undefined && node !== stage.pinned) stage.pin(node);
  }

  leave() {
    const { search, frames, notices, stage, timeline, tour, film, runs } = this.parts;
    const sheet = Array.from(document.querySelectorAll("dialog[open]")).at(-1); // the one on top
    if (sheet) sheet.close();
    else if (controls.closeMore() || search.close() || tour?.stop() || timeline.unselect() || frames.entries.get("tree")?.panel.widen?.() || frames.fillWindow(null) || notices.dismiss() || film.leave()) return;
    else if (runs && !runs.box.hidden) runs.toggle(false);
    else if (stage.pinned !== null) stage.pin(null);
  }
}

// Whether the focused element needs the key itself: a field is typed in, a button is pressed, a region is scrolled.
function taken(/** @type {KeyboardEvent} */ { key, target }) {
  if (!(target instanceof Element)) return false;
  const within = (/** @type {string} */ selector) => target.closest(selector);
  const field = within("input, textarea, select, [contenteditable=true], [role=listbox]");
  if (field) return !(key === "Escape" && field.closest(".cs-search, #canopy-more, .cs-runs"));
  if (key === " ") return within("button, [role=button], summary");
  const region = SCROLLS.includes(key) && within(".cs-text, .cp-scroll, .cp-marginals, .cp-cache, .cs-track-text");
  return region && region.scrollHeight > region.clientHeight + 1;
}

/** The keys and terms of the page, on a sheet. @param {Key[]} table */
export function helpSheet(table) {
  const sheet = new Sheet("Keys and terms");
  html("h2", "", sheet.box, "Keys");
  const keys = html("dl", "cs-keys", sheet.box);
  for (const { shown, does } of table) {
    html("kbd", "", html("dt", "", keys), shown);
    html("dd", "", keys, does);
  }
  html("h2", "", sheet.box, "Terms");
  const terms = html("dl", "", sheet.box);
  for (const [term, meaning] of TERMS) {
    html("dt", "", terms, term);
    html("dd", "", terms, meaning);
  }
  return sheet;
}
