// Runs that are opened: recordings that ship, files that are picked or dropped, runs that a link names; and those that
// another program writes: the newest is followed as it grows, the others in its folder are listed.

import { html } from "../shared/ink.js";
import { knownRun } from "../shared/lines.js";
import { send } from "./save.js";

const MAX_FILE_MIB = 32; // as on the server

export class Recordings {
  opening = ""; // the recording that the page opened with
  followedRuns = /** @type {string[]} */ ([]); // the runs in the folder that is followed, the newest first
  newest = ""; // that grows
  noticeShown = false; // whether a notice says that it grows while another run is shown
  following = /** @type {AbortController | undefined} */ (undefined);
  opened = ""; // the name of the file that was read last, shown or refused

  /** @param {Stage} stage @param {Player} player @param {Notices} notices @param {Recording[]} listed */
  constructor(stage, player, notices, listed) {
    this.stage = stage;
    this.player = player;
    this.notices = notices;
    this.listed = listed;
    this.input = html("input", { type: "file", hidden: true, "aria-label": "Trace file to open" }, document.body);
    this.input.addEventListener("change", () => this.read(this.input.files?.[0]));
    const { classList } = document.body;
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      classList.add("cs-dropping");
    });
    document.addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || classList.remove("cs-dropping"));
    document.addEventListener("drop", (event) => {
      classList.remove("cs-dropping");
      const file = event.dataTransfer?.files[0];
      if (!file || !stage.server) return;
      event.preventDefault();
      this.read(file);
    });
  }

  // The recording that a rig opens with, which is also the tour's; "" if it has none.
  firstOf(/** @type {string} */ rig) {
    return this.listed.find((one) => one.rig === rig)?.name ?? "";
  }

  /** Returns whether it could be shown. @param {string} name @param {{ push?: boolean, still?: boolean }} [how] */
  async open(name, how = {}) {
    const { stage, player } = this;
    if (!stage.server || !await stage.follow(knownRun(name))) return false;
    stage.emit("opened", how);
    if (!how.still && !stage.reducedMotion) player.play();
    return true;
  }

  // Reads the newest run of the followed folder as it grows, then the next one. While another run is shown, the growing
  // one waits, and one notice says so.
  async follow() {
    const { stage } = this;
    stage.reader?.abort();
    this.following?.abort();
    const { signal } = this.following = new AbortController();
    stage.leftFollowedRun = false;
    try {
      for await (const lines of knownRun()(signal)) this.receive(lines);
    } catch {
      if (signal.aborted) return;
    }
    stage.emit("disconnected");
  }

  receive(/** @type {StreamLine[]} */ lines) {
    const { stage, notices } = this;
    for (const line of lines) {
      if ("listed" in line) {
        this.followedRuns = /** @type {string[]} */ (line.listed);
        stage.emit("recordings");
      }
      if ("state" in line) this.newest = line.run;
    }
    if (!stage.leftFollowedRun) {
      stage.read(lines.filter((line) => !("listed" in line)), true);
      this.noticeShown = false;
    } else if (!this.noticeShown && lines.some((line) => "round" in line)) {
      this.noticeShown = true;
      notices.news.say(`${this.newest} goes on.`, "Follow it", () => this.follow());
    }
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
    const { server } = this.stage;
    if (!file || !server) return;
    const opened = await this.answer(async () => {
      const { error, upload } = await send((piece) => server.upload(piece), file, MAX_FILE_MIB);
      return error ? { error } : server.open_trace({ name: file.name, upload });
    });
    if (opened) await this.open(opened.run, { push: true });
    this.opened = file.name;
  }
}
