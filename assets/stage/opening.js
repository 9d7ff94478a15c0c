// The page of the first seconds, shown while the server builds the real one: the recording plays, and a prompt that is
// entered here runs on the real page.

import { button, html, pause, write } from "../shared/ink.js";
import { site } from "../shared/lines.js";
import { controls, pastTheProxy, whoAnswers } from "./controls.js";
import { openReplay } from "./mount.js";

const BETWEEN_LOOKS_MS = 500;
const STILL_MS = 1200; // without a key press, so that the page is not replaced while a person types
const WAITS = "The page is almost ready. Your run begins by itself once the rig is loaded.";

class Opening {
  constructor(parts, rig) {
    this.parts = parts;
    this.address = window.location.hash; // as it was opened: the view that the real page restores
    this.runs = false;
    this.typed = 0;
    this.lost = false; // whether the server does not answer
    this.build();
    this.badge(rig);
    this.draw();
  }

  build() {
    const form = html("form", "cs-opening", null);
    document.getElementById("canopy-stage").before(form);
    const label = html("label", "", form, "Prompt");
    this.field = html("textarea", "", label);
    this.before = this.field.value = this.parts.stage.header ? this.parts.stage.header.prompt : "";
    Object.assign(this.field, { rows: 1, placeholder: "Ask something …" });
    this.field.addEventListener("input", () => { this.typed = Date.now(); });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.run(true);
    });
    this.go = button(form, "▶ Run", "Run this prompt as soon as the rig is loaded", () => this.run(true));
    this.stop = button(form, "■ Stop", "Do not run it", () => this.run(false));
    this.go.classList.add("cs-opening-run");
    this.wait = html("p", { role: "status" }, form);
  }

  badge(rig) {
    document.querySelector(".cs-bar-tools").prepend(html("span", "cs-opening-rig", null, rig ? `Rig: ${rig}, loading …` : "Loading the rig …"));
  }

  run(wanted) {
    this.runs = wanted && Boolean(this.field.value.trim());
    this.draw();
  }

  draw() {
    this.stop.disabled = !this.runs;
    this.go.disabled = this.runs;
    this.wait.replaceChildren();
    if (!this.runs) return;
    html("progress", "", this.wait).setAttribute("aria-label", "The page is being built");
    html("span", "", this.wait, WAITS);
  }

  // The server holds this request back until the real page is built.
  async follow() {
    for (;;) {
      const who = await whoAnswers();
      const free = this.runs || !this.parts.film.running; // the film is seen to its end
      if (who === "here" && free && Date.now() - this.typed > STILL_MS) break;
      if (who === "gone") write(this.wait, pastTheProxy() || "The server does not answer; trying again.");
      else if (this.lost) this.draw(); // it answers again
      this.lost = who === "gone";
      await pause(BETWEEN_LOOKS_MS);
    }
    this.leave();
  }

  leave() {
    const { player, stage } = this.parts;
    if (this.address) window.history.replaceState(null, "", this.address);
    const asked = this.runs || this.field.value !== this.before;
    const goesOn = this.runs ? "runs" : stage.scene === "card" ? "card" : !this.address && player.playing && "plays";
    controls.handOver(asked ? this.field.value : null, goesOn);
  }
}

window.Canopy.openFirst = function openFirst(rig, root) {
  site.root = root;
  openReplay();
  window.Canopy.opening = new Opening(controls.parts, rig);
  window.Canopy.opening.follow();
};
