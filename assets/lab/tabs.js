// Tabs, and the list of earlier measurements.
(function (Canopy) {
  "use strict";

  const Lab = (Canopy.lab = Canopy.lab || {});
  const STATES = { queued: "waiting", running: "measuring", paused: "paused", stopped: "stopped", done: "done", error: "error" };

  class Tabs {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      this.parent = parent;
      const bar = html("div", "lab-tabs", parent);
      this.list = html("div", "lab-tablist", bar);
      this.list.setAttribute("role", "tablist");
      this.list.setAttribute("aria-label", "Parts of the lab");
      this.list.addEventListener("keydown", (event) => this.key(event));
      lab.said = html("span", "lab-applied", bar);
      lab.said.setAttribute("role", "status");
      this.made = new Map();
    }

    add(name, label, title) {
      const { html } = Canopy.ink;
      const tab = html("button", "lab-tab", null, label);
      tab.type = "button";
      tab.title = title;
      tab.id = `lab-tab-${name}`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", `lab-pane-${name}`);
      tab.addEventListener("click", () => this.go(name));
      this.list.append(tab);
      const pane = html("div", `lab-pane lab-pane-${name}`, this.parent);
      pane.id = `lab-pane-${name}`;
      pane.setAttribute("role", "tabpanel");
      pane.setAttribute("aria-labelledby", tab.id);
      this.made.set(name, { tab, pane });
      return pane;
    }

    go(name) {
      this.current = name;
      if (name !== this.lab.stage.tab) this.lab.stage.setTab(name);
      for (const [other, { tab, pane }] of this.made) {
        const on = other === name;
        tab.setAttribute("aria-selected", String(on));
        tab.tabIndex = on ? 0 : -1;
        pane.hidden = !on;
      }
      const opened = { load: this.lab.people, shapes: this.lab.shapes, cost: this.lab.cost, race: this.lab.race, compare: this.lab.compare, doctor: this.lab.doctor, server: this.lab.served }[name];
      if (opened) opened.draw();
    }

    key(event) {
      const names = Array.from(this.made.keys());
      const to = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      const name = names[(names.indexOf(this.current) + to + names.length) % names.length];
      this.go(name);
      this.made.get(name).tab.focus();
    }
  }

  // A measurement's number and how it is called in the list.
  function named({ number, started, rig, together, state, done, total, other_rig: otherRig }) {
    if (number <= 0) return [String(number), `recorded ${started.slice(0, 10)}: ${rig}${together > 1 ? `, up to ${together} at once` : ""}`];
    const when = new Date(started).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const far = state === "done" ? `${total} runs` : `${done} of ${total} runs, ${STATES[state]}`;
    return [String(number), `${number}: ${otherRig ? `${rig}, ` : ""}${when}, ${far}`];
  }

  class History {
    constructor(lab, parent) {
      const { html } = Canopy.ink;
      this.lab = lab;
      this.box = html("section", "lab-card lab-history", parent);
      this.field = Lab.select(this.box, "Measurements", "Your measurements are kept until you delete them",
        () => lab.follow(this.field.value ? Number(this.field.value) : null));
      this.remove();
      lab.on("progress", () => this.draw());
      this.box.hidden = true;
    }

    // Asks before it deletes, since a deleted measurement cannot be restored.
    remove() {
      const { html, button } = Canopy.ink;
      this.open = button(this.box, "Delete …", "Delete the measurement that is chosen", () => this.ask(true));
      this.sure = html("div", "lab-sure", this.box);
      this.sure.setAttribute("role", "group");
      this.question = html("p", "", this.sure);
      this.question.id = "lab-sure-question";
      this.sure.setAttribute("aria-labelledby", this.question.id);
      const row = html("div", "lab-row", this.sure);
      button(row, "Delete", "Delete it for good", () => this.confirmed()).classList.add("lab-danger");
      this.keep = button(row, "Keep", "Keep the measurement", () => this.ask(false));
      this.sure.hidden = true;
    }

    ask(open) {
      const { sweep, done } = this.lab.progress;
      this.asked = open ? sweep : null;
      this.sure.hidden = !open;
      this.open.hidden = open;
      if (open) Canopy.ink.write(this.question, `Delete measurement ${sweep} with its ${done} runs? This cannot be undone.`);
      (open ? this.keep : this.open).focus();
    }

    async confirmed() {
      const { lab, asked } = this;
      this.ask(false);
      const answer = await lab.server.lab_delete({ sweep: asked });
      if (!lab.sweep.refused(answer)) await lab.follow(null);
    }

    draw() {
      const { sweeps, sweep, state, recorded } = this.lab.progress;
      this.box.hidden = sweeps.every((each) => each.number === sweep); // there is no choice
      this.open.hidden = sweep === null || Boolean(this.asked);
      this.open.disabled = Boolean(recorded) || ["queued", "running"].includes(state);
      if (this.asked && (this.asked !== sweep || this.open.disabled)) this.ask(false);
      const entries = sweeps.filter((each) => !each.other_rig).map(named);
      const apart = sweeps.filter((each) => each.other_rig).map(named);
      if (!entries.length) entries.push(["", `none of ${this.lab.given.rig}`]);
      const key = JSON.stringify([entries, apart, sweep]);
      if (key === this.key || document.activeElement === this.field) return;
      this.key = key;
      Lab.options(this.field, entries, sweep === null ? "" : String(sweep), { heading: "Other rigs", apart });
    }
  }

  Object.assign(Lab, { Tabs, History });
})(window.Canopy = window.Canopy || {});
