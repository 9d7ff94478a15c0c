// The tab Check: what is wrong or unusual with each drafter; what is fine is folded.

import { foldIn } from "./forms.js";
import { Begin, Tool } from "./tools.js";
import { html } from "../shared/ink.js";
import { counted } from "../shared/round.js";

/** @import { DoctorFinding } from "../types.d.ts" */

/** @type {Record<string, string>} */
const GLYPHS = { wrong: "✕", suspicious: "▲", fine: "✓" };

export class Check extends Tool {
  /** @param {Lab} lab @param {HTMLElement} pane */
  constructor(lab, pane) {
    super(lab, pane);
    this.begin = new Begin(this, { label: "Examine the rig", title: "Runs every drafter as configured and with each common mistake in its configuration; can take minutes", act: () => this.examine() });
    this.box = html("section", { class: "lab-card lab-findings", tabIndex: 0, "aria-label": "Findings" }, pane);
    html("p", "lab-note", this.box, "Is a drafter set up as it was trained? This runs each with its configuration and with common mistakes in it, and names what is wrong (one to some minutes).");
  }

  async examine() {
    const { result } = await this.begin.run("lab_doctor", {});
    if (!result) return;
    const fine = result.findings.filter(({ status }) => status === "fine");
    const odd = result.findings.filter(({ status }) => status !== "fine");
    this.box.replaceChildren();
    if (!odd.length) html("h3", "", this.box, "Nothing is wrong or unusual.");
    this.addFindings(this.box, odd);
    if (!fine.length) return;
    this.addFindings(foldIn(this.box, `${counted(fine.length, "check")} ${fine.length === 1 ? "is" : "are"} fine`), fine);
  }

  /** The findings under the name of their drafter. @param {Element} parent @param {DoctorFinding[]} findings */
  addFindings(parent, findings) {
    for (const drafter of new Set(findings.map((finding) => finding.drafter))) {
      html("h3", "", parent, drafter ? `Drafter ${drafter}` : "The target");
      const list = html("ul", "", parent);
      for (const { name, status, seen, advice } of findings.filter((finding) => finding.drafter === drafter)) {
        const item = html("li", "lab-finding", list);
        item.dataset.status = status;
        html("span", { class: "lab-verdict-glyph", title: status }, item, GLYPHS[status]);
        const text = html("div", "", item);
        html("strong", "", text, name);
        html("span", "lab-tag", text, status);
        html("p", "", text, seen);
        if (advice) html("p", "lab-advice", text, `→ ${advice}`);
      }
    }
  }
}
