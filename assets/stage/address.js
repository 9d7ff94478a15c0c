// The address bar holds the view: #trace=…&round=…&node=…&mode=…&tab=…&panel=…&zoom=…&method=…&budget=…&tried=…&runs=…;
// rounds and nodes as shown. Of a run of one's own also what it was asked with (ask), for a server that does not have the run any more.

const MAX_REQUEST_LENGTH = 16000; // characters of what a run was asked with; a longer conversation is left out

function read() {
  const named = new URLSearchParams(window.location.hash.slice(1));
  const integer = (/** @type {string} */ name) => (/^\d+$/.test(named.get(name) || "") ? Number(named.get(name)) : null);
  return {
    ask: parsedRequest(named.get("ask")), trace: named.get("trace"), round: integer("round"), node: integer("node"), mode: named.get("mode"), panel: named.get("panel"),
    method: named.get("method"), budget: integer("budget"), tried: integer("tried"), tab: named.get("tab"), zoom: named.get("zoom"),
    runs: (named.get("runs") ?? "").split(",").filter(Boolean),
  };
}

/** @param {string | null} text @returns {Setting | null} */
function parsedRequest(text) {
  try {
    const options = JSON.parse(text ?? "");
    const isTurn = (/** @type {unknown} */ turn) => Array.isArray(turn) && turn.length === 2 && turn.every((part) => typeof part === "string");
    const turns = Array.isArray(options.turns) && options.turns.every(isTurn) ? options.turns : []; // a link may hold anything
    return typeof options.prompt === "string" ? { ...options, turns } : null;
  } catch {
    return null;
  }
}

// What the latest run of one's own was asked with; "" if that is too long for an address.
function requestOf(/** @type {Stage} */ { pending, incoming, header }) {
  const made = pending ? incoming.run.header : header;
  const text = made && !made.recorded && !made.engine ? JSON.stringify(made.options) : "";
  return text.length < MAX_REQUEST_LENGTH ? text : "";
}

export class Address {
  timer = 0;
  suspended = true; // nothing is written until the first view has been restored

  /** @param {Stage} stage @param {Parts["recordings"]} recordings @param {Parts["frames"]} frames */
  constructor(stage, recordings, frames) {
    this.stage = stage;
    this.frames = frames;
    this.tree = frames.entries.get("tree")?.panel;
    this.recordings = recordings;
    this.defaultMode = stage.mode; // the mode of an address that names none
    stage.on("round mode opened", ({ push = false }) => this.write(push));
    stage.on("fullscreen", (name) => this.write(Boolean(name))); // Back leaves the full screen, not the page
    stage.on("pin options tab camera state", () => this.write(false));
    window.addEventListener("popstate", () => this.restore());
  }

  text() {
    const { stage, stage: { pending, live, following, pinned, mode, tab, budgetPreview, settings: { method, budget } } } = this;
    const run = pending?.run || (stage.round && stage.value.run);
    const named = {
      trace: run,
      round: run && !(live && following) && stage.current + 1, // else whoever opens it follows it
      node: pinned,
      mode,
      tab: mode === "lab" && tab,
      runs: mode === "lab" && tab === "compare" && window.Canopy.laboratory?.compare.sides.map((/** @type {{ run: string }} */ { run }) => run),
      tried: budgetPreview.budget,
      panel: this.frames.filledPanel,
      zoom: mode !== "lab" && this.tree?.camera?.text(),
      method,
      budget: Number.isInteger(budget) ? budget : null,
      ask: run && requestOf(stage),
    };
    const present = Object.entries(named).filter(([, value]) => value || value === 0);
    return `#${new URLSearchParams(present.map(([name, value]) => [name, String(value)]))}`;
  }

  // Browsers refuse more than a hundred changes in half a minute, so while a run plays the address is written less often.
  write(/** @type {boolean} */ push) {
    if (this.suspended) return;
    if (push) return this.updateHistory("pushState");
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.updateHistory("replaceState");
    }, 350);
  }

  updateHistory(/** @type {"pushState" | "replaceState"} */ how) {
    const text = this.text();
    if (text !== window.location.hash) window.history[how](window.history.state, "", text);
  }

  // Shows the view that the address names; a run other than the one shown is fetched.
  async restore() {
    const { stage, frames, recordings } = this;
    const { mode, tab, trace, round, node, panel, zoom, tried, runs } = read();
    this.suspended = true;
    clearTimeout(this.timer); // it would write the view from before
    this.timer = 0;
    try {
      stage.setMode(mode || this.defaultMode);
      if (tab) stage.setTab(tab);
      if (trace && trace !== stage.value.run) await recordings.open(trace, { still: true });
      const isShown = !trace || trace === stage.value.run;
      if (isShown && round !== null) stage.go(round - 1, {});
      if (isShown && tried !== null) await stage.tryBudget(tried);
      if (isShown && node !== null && node !== stage.pinned) stage.pin(node);
      if (panel !== frames.filledPanel) frames.fillWindow(panel);
      if (this.tree?.camera?.restore(zoom)) this.tree.resize?.();
      stage.linkedRuns = runs;
      stage.emit("ticked");
      return isShown && (round !== null || stage.live);
    } finally {
      this.suspended = false;
    }
  }
}

// The address as the page was opened: it restores the controls, however late they load, after the address was rewritten.
Address.read = read;
Address.opened = read();
