// Exports: traces, tables, pictures of panels, links, and shared runs (one file that opens from disk, or a lasting link), which
// open with the round and the view that are shown.

import { action, bytesOf, html } from "../shared/ink.js";
import { Sheet } from "../shared/overlays.js";
import { captioned, picture } from "../shared/picture.js";
import { settingOf } from "../shared/round.js";

const MIB = 2 ** 20; // a file is sent in pieces of this size
const PNG_SCALE = 2; // pixels of a PNG per pixel of the screen
const SHARED_PREFIX = "shared-"; // how the names of runs begin that the server keeps for others
const FORMS = [
  { kind: "trace", label: "Trace", note: "the whole run, to open again" },
  { kind: "rounds", label: "Table of rounds", note: "CSV" },
  { kind: "tree", label: "Tree of this round", note: "GraphML" },
];

/** @param {Blob} blob @returns {Promise<string>} */
const base64 = (blob) => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.addEventListener("error", () => fail(reader.error));
  reader.addEventListener("load", () => done(String(reader.result).split(",")[1] ?? ""));
  reader.readAsDataURL(blob);
});

/** A file of at most so many MiB goes to the server in pieces, since no request may be large. `upload`: what the server calls it.
 *  @typedef {{ upload: string, error?: string }} Upload
 *  @param {(piece: { upload: string, data: string }) => Promise<Upload>} take @param {File} file @param {number} max */
export async function send(take, file, max) {
  let answer = /** @type {Upload} */ ({ upload: "" });
  if (file.size > max * MIB) return { upload: "", error: `${file.name} has ${Math.ceil(file.size / MIB)} MiB; at most ${max} MiB are taken.` };
  for (let start = 0; !answer.error && (start < file.size || start === 0); start += MIB) {
    answer = await take({ upload: answer.upload, data: await base64(file.slice(start, start + MIB)) });
  }
  return answer;
}

// Hands a file of the server, {name, media, data}, or one made here to the person.
export function download(/** @type {SavedFile} */ { name, media, data }) {
  saveBlob(name, new Blob([bytesOf(data)], { type: media }));
}

function saveBlob(/** @type {string} */ name, /** @type {Blob} */ blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function png(/** @type {string} */ svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width * PNG_SCALE, image.height * PNG_SCALE);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob();
}

export class Save {
  /** `lasts`: whether the server keeps shared runs.
   *  @param {Parts} parts @param {boolean} lasts */
  constructor(parts, lasts) {
    this.parts = parts;
    this.shareNote = lasts ? "a file or a link that lasts" : "as one file that opens from disk";
    this.sheet = new Sheet("Share this run", "cs-share");
    const form = html("form", { method: "dialog" }, this.sheet.box);
    html("h2", "", form, "Share this run");
    /** @template {HTMLElement} Field @param {string} label @param {Field} field */
    const labelled = (label, field) => {
      html("label", "", form, label).append(field);
      return field;
    };
    this.titleField = labelled("Title", html("input", { maxLength: 120, dir: "auto" }));
    this.commentField = labelled("Comment", html("textarea", { maxLength: 500, rows: 4, dir: "auto" }));
    const buttons = html("p", "cs-share-buttons", form);
    action(buttons, "Save as one file", "An HTML file with this run in it, which opens from disk", () => this.shareFile());
    if (lasts) action(buttons, "Copy a link that lasts", "Keep this run on the server, under a link that nobody guesses", () => this.shareLink());
    this.linkField = labelled("Link", html("input", { readOnly: true }));
  }

  entries() {
    const { stage, frames, recordings } = this.parts;
    const forms = stage.server && stage.rounds.length ? FORMS : [];
    const drawn = stage.round ? Array.from(frames.entries).filter(([, entry]) => entry.panel.svg && frames.isShown(entry)) : [];
    const parts = stage.round ? [["Text", "text", ".cs-text"], ["Timeline", "timeline", ".cs-timeline"], ["Whole view", stage.mode, ".cs-stage"]] : [];
    const stills = [...drawn.map(([name, { about, panel, frame }]) => (
      this.pictureEntries(about.title, name, () => panel.svg?.() ?? null, frame.querySelector(".cs-legend")))),
      ...parts.map(([label, name, selector]) => this.pictureEntries(label, name, () => picture(document.querySelector(selector))))].flat();
    return [
      { label: "Copy link", note: "to this view", act: () => this.copyLink() },
      ...(forms.length ? [{ label: "Share …", note: this.shareNote, act: () => this.openShare() }] : []),
      ...(stage.server && stage.value.run.startsWith(SHARED_PREFIX) ? [{ label: "Delete shared run", note: "for everybody", act: () => this.removeShared() }] : []),
      { heading: forms.length ? "This run" : "Nothing else to save yet" },
      ...forms.map(({ kind, label, note }) => ({ label, note, act: async () => {
        const { server, value: { run }, current } = stage;
        const file = server && await recordings.answer(() => server.export({ kind, run, round: Math.max(0, current) }));
        if (file) download(file);
      } })),
      ...(stills.length ? [{ heading: `Pictures of round ${stage.current + 1}` }, ...stills] : []),
    ];
  }

  /** The entries that save one picture in its two forms.
   *  @param {string} label @param {string} name @param {() => string | null} draw @param {Element} [legend] */
  pictureEntries(label, name, draw, legend) {
    return ["svg", "png"].map((kind) => ({ label, note: kind.toUpperCase(), act: () => this.savePicture(name, kind, draw, legend) }));
  }

  /** @param {string} name @param {string} kind @param {() => string | null} draw @param {Element} [legend] */
  async savePicture(name, kind, draw, legend) {
    const { notices, stage, frames } = this.parts;
    frames.drawAll();
    const drawn = draw();
    const round = stage.current + 1;
    const file = `${name}-round-${round}.${kind}`;
    if (!drawn) return notices.brief(`Round ${round} has nothing to draw there, so no picture was saved.`);
    const svg = captioned(drawn, this.smallPrint(), legend);
    try {
      saveBlob(file, kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await png(svg));
    } catch (error) {
      notices.fail(`${file} could not be made: ${error instanceof Error ? error.message : error}. The SVG may still work.`);
    }
  }

  // What a picture shows: what was asked, how, of which rig, and when.
  smallPrint() {
    const { header, round, rounds, budgetPreview } = this.parts.stage;
    if (!header || !round) return [];
    const setting = budgetPreview.round ? `predicted: ${settingOf({ ...header, budget: budgetPreview.budget })}` : settingOf(header);
    const date = header.recorded.slice(0, 10) || new Date().toISOString().slice(0, 10);
    return [header.prompt, [setting, `temperature ${header.temperature}`, `round ${round.index + 1} of ${rounds.length}`,
      header.rig, header.hardware, header.dtype, date].filter(Boolean).join(", ")];
  }

  async copyLink() {
    const { notices } = this.parts;
    try {
      await navigator.clipboard.writeText(window.location.href);
      notices.brief("Copied: the link to this view.");
    } catch {
      notices.fail("The browser does not let this page copy; the link is the address in the address bar.");
    }
  }

  openShare() {
    this.titleField.value = this.parts.stage.header?.title || "";
    this.commentField.value = "";
    this.linkField.parentElement?.toggleAttribute("hidden", true);
    this.sheet.open(this.titleField);
  }

  get shareFields() {
    const { value: { run }, current } = this.parts.stage;
    return { run, round: Math.max(0, current), title: this.titleField.value, comment: this.commentField.value };
  }

  async shareFile() {
    const { recordings, stage: { server }, address } = this.parts;
    const view = address.text();
    const file = server && await recordings.answer(() => server.export({ kind: "replay", view, ...this.shareFields }));
    this.sheet.box.close();
    if (file) download(file);
  }

  async shareLink() {
    const { recordings, notices, stage: { server }, address } = this.parts;
    const view = new URLSearchParams(address.text().slice(1));
    const kept = server && await recordings.answer(() => server.share(this.shareFields));
    if (!kept) return this.sheet.box.close(); // a notice says why
    view.set("trace", kept.run);
    this.linkField.value = `${window.location.origin}${window.location.pathname}#${view}`;
    this.linkField.parentElement?.toggleAttribute("hidden", false);
    this.linkField.select();
    const copied = navigator.clipboard.writeText(this.linkField.value);
    await copied.then(() => notices.brief("Copied: a link that lasts until somebody deletes this run."), () => undefined);
  }

  // Asks once, since it is gone for everybody.
  removeShared() {
    const { recordings, notices, stage: { server, value: { run } } } = this.parts;
    notices.news.say("Whoever has the link loses this run, too.", "Delete it", async () => {
      notices.news.say("");
      if (server && await recordings.answer(() => server.unshare({ run }))) notices.brief("Deleted: the link of this run leads nowhere now.");
    });
  }
}
