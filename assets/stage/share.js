// Sharing a run: as one file that opens from disk, or by a link that lasts, on the round and the view that are shown.

import { action, html } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { download } from "./save.js";

export class Share {
  /** `lasts`: whether the server keeps shared runs.
   *  @param {Parts} parts @param {boolean} lasts */
  constructor(parts, lasts) {
    this.parts = parts;
    this.sheet = new Sheet("Share this run", "cs-share");
    const form = html("form", { method: "dialog" }, this.sheet.box);
    html("h2", "", form, "Share this run");
    /** @template {HTMLElement} Field @param {string} label @param {Field} field */
    const labelled = (label, field) => {
      html("label", "", form, label).append(field);
      return field;
    };
    this.title = labelled("Title", html("input", { maxLength: 120, dir: "auto" }));
    this.comment = labelled("Comment", html("textarea", { maxLength: 500, rows: 4, dir: "auto" }));
    const buttons = html("p", "cs-share-buttons", form);
    action(buttons, "Save as one file", "An HTML file with this run in it, which opens from disk", () => this.file());
    if (lasts) action(buttons, "Copy a link that lasts", "Keep this run on the server, under a link that nobody guesses", () => this.link());
    this.said = labelled("Link", html("input", { readOnly: true }));
  }

  open() {
    const { header } = this.parts.stage;
    this.title.value = header?.title || "";
    this.comment.value = "";
    this.said.parentElement?.toggleAttribute("hidden", true);
    this.sheet.open(this.title);
  }

  get words() {
    const { value: { run }, current } = this.parts.stage;
    return { run, round: Math.max(0, current), title: this.title.value, comment: this.comment.value };
  }

  async file() {
    const { recordings, stage: { server }, address } = this.parts;
    const view = address.text();
    const file = server && await recordings.answer(() => server.export({ kind: "replay", view, ...this.words }));
    this.sheet.box.close();
    if (file) download(file);
  }

  async link() {
    const { recordings, notices, stage: { server }, address } = this.parts;
    const view = new URLSearchParams(address.text().slice(1));
    const kept = server && await recordings.answer(() => server.share(this.words));
    if (!kept) return this.sheet.box.close(); // a notice says why
    view.set("trace", kept.run);
    this.said.value = `${window.location.origin}${window.location.pathname}#${view}`;
    this.said.parentElement?.toggleAttribute("hidden", false);
    this.said.select();
    const copied = navigator.clipboard.writeText(this.said.value);
    await copied.then(() => notices.brief("Copied: a link that lasts until somebody deletes this run."), () => undefined);
  }

  // Asks once, since it is gone for everybody.
  remove() {
    const { recordings, notices, stage } = this.parts;
    const { server, value: { run } } = stage;
    notices.news.say("Whoever has the link loses this run, too.", "Delete it", async () => {
      notices.news.say("");
      if (server && await recordings.answer(() => server.unshare({ run }))) notices.brief("Deleted: the link of this run leads nowhere now.");
    });
  }
}
