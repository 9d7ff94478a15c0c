// Puts the page together: on the live page over Gradio's props, in a replay file over the data inside it.
(function (Canopy) {
  "use strict";

  function build(stage, header, host, given) {
    const { html } = Canopy.ink;
    const root = html("div", "cs-stage", host);
    const notices = new Canopy.Notices(stage, root);
    new Canopy.Story(stage, root);
    new Canopy.Metrics(stage, root);
    const player = new Canopy.Player(stage);
    const frames = new Canopy.Frames(stage, root);
    const text = arrange(stage, frames);
    new Canopy.Timeline(stage, player, root);
    const help = new Canopy.Help(document.body);
    const search = new Canopy.Search(frames, frames.area);
    const lessons = new Canopy.Lessons(stage, player, notices, given.lessons);
    const save = new Canopy.Save(stage, frames, lessons, notices);
    const parts = { stage, player, frames, help, search, lessons, save, notices };
    parts.conversation = stage.server ? new Canopy.Conversation(stage, text) : null;
    parts.rigs = stage.server ? new Canopy.Rigs(stage, notices, document.body) : null;
    parts.tour = Canopy.Tour && stage.server ? new Canopy.Tour(parts) : null;
    const keys = parts.keys = new Canopy.Keys(parts);
    help.fill(keys.table);
    new Canopy.Bar(stage, header, parts);
    parts.address = new Canopy.Address(stage, lessons, frames);
    dress(stage, root);
    return parts;
  }

  function arrange(stage, frames) {
    const text = frames.frame(frames.upper, "text", 0.72, {
      title: "Text", caption: "The output, each token in the colour of where it came from; a click goes to its round.",
      legend: [
        { glyph: "■", label: "target", color: "--target" }, { glyph: "■", label: "head 1", color: "--head1" },
        { glyph: "■", label: "head 2", color: "--head2" }, { glyph: "■", label: "both", color: "--both" },
      ],
    });
    new Canopy.TextPanel(stage, text.body);
    frames.panel(frames.upper, "tree", 1.5);
    const rest = { marginals: 1.35, mask: 1, verifier: 1.15, cache: 1 };
    for (const name in rest) frames.panel(frames.lower, name, rest[name]);
    return text.frame;
  }

  // The mode and the state as attributes, for the style sheet; the stage's height is what the window has left.
  function dress(stage, root) {
    const mark = () => {
      document.body.dataset.canopyMode = root.dataset.mode = stage.mode;
      document.body.dataset.canopyState = root.dataset.state = stage.value.state;
    };
    const fit = () => {
      const top = root.getBoundingClientRect().top + window.scrollY;
      root.style.setProperty("--cs-left", `${Math.max(0, window.innerHeight - top)}px`);
    };
    stage.on("mode", () => {
      mark();
      fit();
    });
    stage.on("state", mark);
    window.addEventListener("resize", fit);
    new ResizeObserver(fit).observe(root.parentElement.closest(".gradio-container") || document.body);
    for (const controls of document.querySelectorAll("#canopy-ask, #canopy-settings")) {
      new ResizeObserver(fit).observe(controls);
    }
    mark();
    fit();
  }

  async function begin(parts, value, name) {
    const { stage, address, lessons } = parts;
    const asked = Canopy.Address.opened;
    stage.settings = { method: asked.method, budget: asked.budget };
    if (asked.mode) stage.setMode(asked.mode);
    if (value && value.header && (!asked.trace || asked.trace === name)) stage.show({ ...value, run: name });
    const restored = await address.restore();
    if (!stage.rounds.length && value && value.header) stage.show({ ...value, run: name });
    if (!restored) lessons.start();
    stage.tell("mode", { push: false });
    parts.ready = true;
  }

  Canopy.open = function open(element, props, watch, server, adopt) {
    if (element.querySelector(".cs-stage")) return;
    Canopy.theme.apply();
    const stage = new Canopy.Stage();
    stage.server = server;
    const header = document.querySelector("#canopy-header .canopy-host") || element;
    const parts = build(stage, header, element.querySelector(".canopy-host"), { lessons: plain(props.lessons) });
    Canopy.controls.stage = stage;
    // A recording that a person opens fills the bar, so that Run repeats it live.
    stage.on("opened", ({ push }) => {
      const { prompt, method, budget, temperature, split, top_k, top_p, seed, max_tokens, pace, heads } = stage.header;
      const asked = { prompt, method, budget, temperature, split, top_k, top_p, seed, max_tokens, pace, heads };
      if (!push && Canopy.Address.opened.method) return;
      adopt(asked);
      parts.conversation.take(stage.header.turns);
    });
    Canopy.parts = parts;
    watch("value", () => stage.show(plain(props.value)));
    begin(parts, plain(props.value), props.opening);
  };

  Canopy.openReplay = function openReplay() {
    Canopy.theme.apply();
    const stage = new Canopy.Stage();
    const find = (id) => document.getElementById(id);
    const parts = build(stage, find("canopy-header"), find("canopy-stage"), { lessons: [] });
    Canopy.parts = parts;
    const value = JSON.parse(find("canopy-data").textContent);
    begin(parts, value, value.run);
  };

  // A stage value travels as text; other props are proxies, of which a copy of the outermost level is enough.
  function plain(value) {
    if (typeof value === "string") return value ? JSON.parse(value) : null;
    return Array.isArray(value) ? Array.from(value) : value;
  }
})(window.Canopy = window.Canopy || {});
