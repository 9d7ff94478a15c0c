// The tab Check: what is wrong or unusual with each drafter; what is fine is folded.

import { foldIn } from "./forms.js";
import { JobButton, Tool } from "./tools.js";
import { html } from "../shared/ink.js";
import { counted } from "../shared/round.js";

const STORE = "canopy-checked"; // the last result: of which rig, when, and after how many seconds
const BEFORE = [
  "Is each drafter configured as it was trained? This answers a few prompts with its configuration, and with variants of "
    + "what is often wrong: chat template, hidden layers, mask token, positions, rotary form, precision, thinking.",
  "A variant that gets more tokens accepted is reported, with the field to change. It takes minutes and the machine to itself.",
];
/** @type {Record<string, string>} */
const GLYPHS = { wrong: "✕", suspicious: "▲", fine: "✓" };

export class Check extends Tool {
  constructor(/** @type {Lab} */ lab, /** @type {HTMLElement} */ pane) {
    super(lab, pane);
    this.begin = new JobButton(this, { label: "Examine the rig", title: "Tries every drafter and variants of it", act: () => this.examine() });
    this.box = html("section", { class: "lab-card lab-findings", tabIndex: 0, "aria-label": "Findings" }, pane);
    for (const words of BEFORE) html("p", "lab-note", this.box, words);
    const last = JSON.parse(localStorage.getItem(STORE) ?? "{}");
    if (last.rig === lab.setup.rig) this.show(last);
  }

  async examine() {
    const begun = Date.now();
    const { result } = await this.begin.run("lab_doctor", {});
    if (!result) return;
    const seconds = Math.round((Date.now() - begun) / 1000);
    const checked = { rig: this.lab.setup.rig, date: new Date().toLocaleString(), seconds, findings: result.findings };
    localStorage.setItem(STORE, JSON.stringify(checked));
    this.show(checked);
  }

  /** @param {{ rig: string, date: string, seconds: number, findings: DoctorFinding[] }} checked */
  show({ rig, date, seconds, findings }) {
    const fine = findings.filter(({ status }) => status === "fine");
    const odd = findings.filter(({ status }) => status !== "fine");
    this.box.replaceChildren();
    html("p", "lab-note", this.box, `${rig}, examined ${date} in ${seconds} s`);
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
