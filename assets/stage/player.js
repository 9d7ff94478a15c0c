// Playing: one round after the other at a pace for the eye. The engine's own times are in the figures, not in the pace.
(function (Canopy) {
  "use strict";

  const PACE_MS = 1000; // a round at speed 1
  const FINALE_MS = 11000; // for the end of the story, before it starts over
  const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];

  class Player {
    constructor(stage) {
      this.stage = stage;
      this.playing = false;
      this.speed = 1;
      for (const event of ["asked", "begin"]) stage.on(event, () => this.pause());
    }

    toggle() {
      if (this.playing) this.pause();
      else this.play();
    }

    play() {
      const { stage } = this;
      if (stage.rounds.length < 2) return;
      if (stage.current >= stage.rounds.length - 1) stage.go(0, { animate: true });
      this.playing = true;
      this.stage.tell("play", this);
      this.wait();
    }

    pause() {
      clearTimeout(this.timer);
      if (!this.playing) return;
      this.playing = false;
      this.stage.tell("play", this);
    }

    wait() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tick(), PACE_MS / this.speed);
    }

    tick() {
      const { stage } = this;
      const last = stage.current >= stage.rounds.length - 1;
      if (last && !stage.live) {
        this.finish();
        return;
      }
      if (!last) stage.go(stage.current + 1, { animate: this.speed <= 2 });
      this.wait();
    }

    // The story shows its outcome and starts over by itself; in the other views a run is played once.
    finish() {
      if (this.stage.mode !== "story") {
        this.pause();
        return;
      }
      this.stage.tell("finale");
      this.timer = setTimeout(() => this.playing && this.play(), FINALE_MS);
    }

    // A step by hand ends playback.
    step(by) {
      this.pause();
      this.stage.step(by);
    }

    go(index, how) {
      this.pause();
      this.stage.go(index, how);
    }

    faster(by) {
      const place = SPEEDS.indexOf(this.speed) + by;
      this.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))];
      this.stage.tell("play", this);
      if (this.playing) this.wait();
    }
  }

  Canopy.Player = Player;
})(window.Canopy = window.Canopy || {});
