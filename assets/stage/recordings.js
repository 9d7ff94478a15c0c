// Runs that another program writes: the newest is followed as it grows, the others in its folder are listed.

/** @import { StreamLine } from "../types.d.ts" */
/** @import { Notices } from "./notices.js" */
/** @import { Player } from "./player.js" */

import { html } from "../shared/ink.js";
import { knownRun } from "../shared/lines.js";
import { send } from "./save.js";

export class Followed {
  /** @param {Stage} stage @param {Recordings} recordings @param {Notices} notices */
  constructor(stage, recordings, notices) {
    this.stage = stage;
    this.recordings = recordings;
    this.notices = notices;
    this.listed = /** @type {string[]} */ ([]);
    this.latest = "";
    this.told = false; // whether a notice says that it grows while another run is shown
    this.reading = /** @type {AbortController | undefined} */ (undefined);
  }

  // Reads the newest run as it grows, then the next one. While another run is shown, the growing one waits, and one notice
  // says so.
  async follow() {
    const { stage } = this;
    stage.reading?.abort();
    this.reading?.abort();
    this.reading = new AbortController();
    const { signal } = this.reading;
    stage.elsewhere = false;
    try {
      for await (const lines of knownRun()(signal)) this.take(lines);
    } catch {
      if (signal.aborted) return;
    }
    stage.tell("broken");
  }

  take(/** @type {StreamLine[]} */ lines) {
    const { stage, notices } = this;
    for (const line of lines) {
      if ("listed" in line) {
        this.listed = /** @type {typeof this.listed} */ (line.listed);
        stage.tell("listed");
      }
      if ("state" in line) this.latest = line.run;
    }
    if (!stage.elsewhere) {
      stage.read(lines.filter((line) => !("listed" in line)), true);
      this.told = false;
    } else if (!this.told && lines.some((line) => "round" in line)) {
      this.told = true;
      notices.news.say(`${this.latest} goes on.`, "Follow it", () => this.follow());
    }
  }
}

// Recordings: those that ship, files that are opened or dropped, and runs that a link names.
const MIB = 2 ** 20;
const MAX_BYTES = 32 * MIB; // of a trace file, as on the server

export class Recordings {
  /** @param {Stage} stage @param {Player} player @param {Notices} notices @param {Recording[]} listed */
  constructor(stage, player, notices, listed) {
    this.stage = stage;
    this.player = player;
    this.notices = notices;
    this.listed = listed || [];
    this.toured = ""; // the recording that the tour's texts speak of
    this.input = html("input", { type: "file", hidden: true, "aria-label": "Trace file to open" }, document.body);
    this.input.addEventListener("change", () => this.read(this.input.files?.[0]));
    this.drop();
    this.followed = new Followed(stage, this, notices);
  }

  /** Returns whether it could be shown. @param {string} name @param {{ push?: boolean, still?: boolean }} [how] */
  async open(name, how = {}) {
    if (!this.stage.server) return false;
    if (!await this.stage.follow(knownRun(name))) return false;
    this.stage.tell("opened", how);
    if (!how.still) this.start();
    return true;
  }

  // A recording plays by itself, unless the system asks for reduced motion.
  start() {
    if (!this.stage.reducedMotion && this.stage.rounds.length > 1) this.player.play();
  }

  /** What the server answers; null if that is an error, which a notice says.
   *  @template {object} Answer @param {() => Promise<Answer | Failed>} ask @returns {Promise<Answer | null>} */
  async answer(ask) {
    try {
      const value = await ask();
      if (value && !("error" in value)) return value;
      this.notices.fail(value && "error" in value ? String(value.error) : "The server gave no answer; try again.");
    } catch {
      this.notices.fail("The server cannot be reached; check that it is still running, then try again.");
    }
    return null;
  }

  async read(/** @type {File | undefined} */ file) {
    this.input.value = "";
    if (!file) return;
    await this.give(file);
    this.opened = file.name; // shown, or refused
  }

  async give(/** @type {File} */ file) {
    if (file.size > MAX_BYTES) {
      this.notices.fail(`${file.name} has ${Math.round(file.size / MIB)} MiB; a trace file may have ${MAX_BYTES / MIB} MiB at most.`);
      return;
    }
    const { server } = this.stage;
    if (!server) return;
    const opened = await this.answer(async () => {
      const { error, upload } = await send((piece) => server.upload(piece), file);
      return error ? { error } : server.open_trace({ name: file.name, upload });
    });
    if (opened) await this.open(opened.run, { push: true });
  }

  drop() {
    document.addEventListener("dragover", (event) => {
      if (event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files")) {
        event.preventDefault();
        document.body.classList.add("cs-dropping");
      }
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("cs-dropping");
    });
    document.addEventListener("drop", (event) => {
      document.body.classList.remove("cs-dropping");
      if (!event.dataTransfer || !event.dataTransfer.files.length || !this.stage.server) return;
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    });
  }
}
