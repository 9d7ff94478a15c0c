// The verifier's walk, a row per step: the node, the target's choice, and the children that the tree offered.
(function (Canopy) {
  "use strict";

  const OFFER_WIDTH = 100; // pixels that a child takes at least; as many are shown as one line holds
  const TRIAL_WIDTH = 140;
  const STEP_HEIGHT = 58; // pixels of a step at least, but for the last
  const REST_MS = 90;

  // A probability where room is short: without the zero before the decimal point.
  function brief(value) {
    return Canopy.ink.probability(value).replace("0.", ".");
  }

  class VerifierPanel {
    constructor(host, stage) {
      const { ink } = Canopy;
      this.host = host;
      this.stage = stage;
      this.selection = { node: null };
      this.rest = [];
      host.classList.add("cp-host", "cp-verifier");
      this.scroll = ink.html("div", "cp-scroll", host);
      this.list = ink.html("ol", "cp-steps", this.scroll);
      this.list.setAttribute("aria-label", "The verifier's walk");
      this.empty = new ink.Empty(host);
      for (const name of ["mouseover", "focusin"]) this.list.addEventListener(name, (event) => this.hover(event));
      this.list.addEventListener("mouseleave", () => stage.hover(null));
      this.list.addEventListener("click", (event) => this.pin(event));
    }

    draw(round) {
      this.round = round;
      this.scroll.hidden = !round;
      if (!round) {
        this.empty.say("No round yet", "Here you see how the target walks through the tree, choice by choice.");
        return;
      }
      this.empty.hide();
      const width = this.host.clientWidth || 360;
      const free = width * (width < 660 ? 1 : 0.64) - 50;
      this.room = Math.max(2, Math.floor(free / (round.trials ? TRIAL_WIDTH : OFFER_WIDTH)));
      this.list.classList.toggle("has-trials", Boolean(round.trials));
      const steps = Canopy.walkOf(round);
      const seen = Math.ceil((this.host.clientHeight || 600) / STEP_HEIGHT);
      this.list.replaceChildren(...steps.slice(0, seen).map((step) => this.step(step)));
      this.rest = steps.slice(seen);
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.finish(), REST_MS);
      this.select(this.selection);
    }

    // What lies below the fold follows once the drawing rests, so that scrubbing pays for what is seen.
    finish() {
      clearTimeout(this.waiting);
      if (!this.rest.length) return;
      this.list.append(...this.rest.map((step) => this.step(step)));
      this.rest = [];
      this.select(this.selection);
    }

    token(id, origin, parent, node) {
      const { ink } = Canopy;
      const made = ink.html("span", `cp-token o-${origin}`, parent, this.round.show(id));
      if (node !== null) made.dataset.node = node;
      return made;
    }

    stat(parent, name, value, title) {
      const { ink } = Canopy;
      const made = ink.html("span", "cp-stat", parent);
      made.title = title;
      ink.html("span", "cp-stat-name", made, name);
      ink.html("span", "", made, value);
    }

    step(step) {
      const { ink } = Canopy;
      const { round } = this;
      const row = ink.html("li", `cp-step is-${step.outcome}`);
      row.tabIndex = 0;
      row.dataset.node = step.node;
      const line = ink.html("div", "cp-step-line", row);
      ink.html("span", "cp-step-number", line, String(step.place + 1));
      this.token(round.tokens[step.node], round.origin(step.node), line, step.node);
      ink.html("span", "cp-arrow", line, "→");
      this.verdict(step, line);
      const stats = ink.html("span", "cp-stats", line);
      if (step.chance !== null) {
        this.stat(stats, "p", ink.probability(step.chance),
          "The target's probability of the token that it chose here, at temperature 1, before top-k and top-p");
      }
      this.stat(stats, "gap", Number.isFinite(step.gap) ? step.gap.toFixed(2) : "–",
        "How far the target's most likely token leads the second: the difference of their log probabilities, in nats, at temperature 1");
      this.stat(stats, "H", ink.nats(step.entropy),
        "Entropy of the target's distribution here, in nats, at temperature 1");
      if (step.offers.length) this.offers(step, row);
      return row;
    }

    verdict(step, line) {
      const { ink } = Canopy;
      const { round } = this;
      const origin = step.next === null ? "root" : round.origin(step.next);
      const chosen = this.token(step.choice, origin, line, step.next === null ? step.node : step.next);
      if (step.outcome === "match") {
        chosen.classList.add("is-kept");
        ink.html("span", `cp-verdict o-${origin}`, line, "✓");
        return;
      }
      const words = step.outcome === "end" ? "the text ends before this token"
        : step.offers.length === 0 ? "bonus: the tree ends here"
          : round.trials ? "bonus: every child was rejected" : "bonus: no child is this token";
      ink.html("span", "cp-verdict o-root", line, step.outcome === "end" ? "■" : "◆");
      ink.html("span", "cp-verdict-words", line, words);
    }

    offers(step, row) {
      const { ink } = Canopy;
      const box = ink.html("div", "cp-offers", row);
      const tried = step.offers.filter((child) => child.trial).length;
      const shown = Math.max(tried, Math.min(step.offers.length, this.room));
      const chip = (child) => (child.trial ? this.trial(child) : this.offer(child));
      box.append(...step.offers.slice(0, shown).map(chip));
      const more = step.offers.length - shown;
      if (more > 0) ink.html("span", "cp-more", box, `+${more} more`);
    }

    chip(child) {
      const { ink } = Canopy;
      const fate = child.kept ? "is-kept" : child.match ? "is-twin" : "";
      const made = ink.html("span", `cp-offer ${fate} o-${this.round.origin(child.node)}`);
      made.dataset.node = child.node;
      const name = ink.html("span", "cp-offer-token", made);
      name.textContent = ink.short(this.round.show(child.token), 68, `11px ${ink.MONO}`);
      if (child.kept) ink.html("span", "cp-offer-tick", made, "✓");
      return made;
    }

    meter(parent, name, value, className) {
      const { ink } = Canopy;
      const box = ink.html("span", "cp-meter-box", parent);
      const words = ink.html("span", "cp-meter-words", box);
      ink.html("span", "cp-meter-name", words, name);
      ink.html("span", "", words, brief(value));
      const track = ink.html("span", "cp-track", box);
      ink.html("span", className, track).style.width = `${Math.min(100, 100 * (value || 0)).toFixed(1)}%`;
      return track;
    }

    offer(child) {
      const { ink } = Canopy;
      const made = this.chip(child);
      const twin = child.match && !child.kept ? "; the token that the target chose, but not on the accepted path" : "";
      made.title = `row ${child.node}: the drafter gives it q ${ink.probability(child.q)}, `
        + `the target p ${ink.probability(child.p)}${twin}`;
      this.meter(made, "q", child.q, "cp-bar is-q");
      this.meter(made, "p", child.p, "cp-bar is-p");
      return made;
    }

    // A trial passes when its draw lies below its chance: the mark stands inside the bar.
    trial(child) {
      const { ink } = Canopy;
      const made = this.chip(child);
      const { chance, draw, passed, turn } = child.trial;
      made.classList.add("is-tried");
      if (!passed) ink.html("span", "cp-offer-cross", made, "✗");
      made.title = `trial ${turn + 1}, row ${child.node}: draw ${draw.toFixed(4)} ${passed ? "<" : "≥"} chance `
        + `${chance.toFixed(4)}: ${passed ? "accepted" : "rejected"}; `
        + `q ${ink.probability(child.q)}, p ${ink.probability(child.p)}`;
      const track = this.meter(made, "chance", chance, "cp-bar is-p");
      ink.html("span", "cp-draw", track).style.left = `${(100 * draw).toFixed(1)}%`;
      const words = ink.html("span", "cp-meter-words", ink.html("span", "cp-meter-box", made));
      ink.html("span", "cp-meter-name", words, "draw");
      ink.html("span", "", words, brief(draw));
      return made;
    }

    nodeOf(event) {
      const mark = event.target.closest("[data-node]");
      return mark && this.list.contains(mark) ? Number(mark.dataset.node) : null;
    }

    hover(event) {
      const node = this.nodeOf(event);
      this.stage.hover(node === null ? null : { node });
    }

    pin(event) {
      const node = this.nodeOf(event);
      this.stage.pin(node === null ? null : { node });
    }

    select(selection) {
      this.selection = selection || { node: null };
      for (const mark of this.list.querySelectorAll("[data-node]")) {
        mark.classList.toggle("is-selected", Number(mark.dataset.node) === this.selection.node);
      }
    }

    resize() {
      this.draw(this.round);
    }

    svg() {
      if (!this.round) return null;
      this.finish();
      return Canopy.still.ofHtml(this.list);
    }
  }

  Canopy.define({
    name: "verifier",
    title: "Verifier walk",
    place: { row: "lower", share: 1.15 },
    caption: "The target's choices, step by step.",
    legend: [
      { glyph: "✓", label: "goes on", title: "A child is the token that the target chose: the walk goes on to it" },
      { glyph: "◆", label: "bonus", color: "--target", title: "No child is that token: it ends the round as the target's own" },
      { glyph: "q", label: "drafter", title: "The drafter's probability of this token" },
      { glyph: "p", label: "target", title: "The target's probability of the same token" },
    ],
    create: (host, stage) => new VerifierPanel(host, stage),
  });
})(window.Canopy = window.Canopy || {});
