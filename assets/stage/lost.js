// A server that stops answering while a run is waited for or goes on: one sentence and Retry. The page loads again as
// soon as it answers, with the text that was there, the prompt and the turns before it.
(function (Canopy) {
  "use strict";

  const SILENT_MS = 1200; // without an update, before the server is asked whether it is there
  const BETWEEN_LOOKS_MS = 600;
  const GONE = "The server does not answer any more; what it wrote stays here, and this page goes on as soon as it is back.";
  const RUNS_THEN = "The server does not answer yet; your prompt runs as soon as it is back.";

  class Lost {
    constructor(stage, notices) {
      this.stage = stage;
      this.notices = notices;
      this.gone = false;
      this.heard = 0;
      this.goesOn = ""; // what the page does by itself once the server is back
      stage.on("value", () => { this.heard = Date.now(); });
      stage.on("asked", () => { this.heard = Date.now(); });
      stage.on("state", () => this.watch());
      window.addEventListener("pagehide", () => this.gone && this.keep());
      document.addEventListener("click", (event) => this.click(event));
    }

    // Looks while there is something to wait for.
    watch() {
      if (this.timer || !(this.stage.busy || this.gone)) return;
      this.timer = setTimeout(async () => {
        await this.look();
        this.timer = 0;
        this.watch();
      }, BETWEEN_LOOKS_MS);
    }

    async look() {
      if (!this.gone && Date.now() - this.heard < SILENT_MS) return;
      const there = await answers();
      if (this.gone && there) window.location.reload();
      else if (!there && (this.stage.busy || this.gone)) this.lose();
    }

    lose() {
      if (this.gone) return;
      this.gone = true;
      document.body.classList.add("canopy-lost");
      this.stage.lose(GONE);
      this.notices.lose(GONE, () => this.retry());
    }

    async retry() {
      if (await answers()) window.location.reload();
      else this.notices.brief("The server still does not answer.");
    }

    // Gradio takes no Run any more, so it is remembered for when the page is loaded again.
    click(event) {
      if (!this.gone || !event.target.closest("#canopy-run")) return;
      this.goesOn = "runs";
      this.notices.lose(RUNS_THEN, () => this.retry());
    }

    keep() {
      const { stage, goesOn } = this;
      Canopy.controls.keep(stage.views.length ? stage.whole() : null, goesOn);
    }
  }

  async function answers() {
    try {
      return (await fetch("gradio_api/app_id", { cache: "no-store" })).ok;
    } catch {
      return false;
    }
  }

  Canopy.Lost = Lost;
})(window.Canopy = window.Canopy || {});
