// Plays rounds at reading speed. The engine's own times are in the figures, not in this pace.

const ROUND_MS = 1000; // at speed 1
const MAX_LIVE_ROUND_MS = 320; // slow enough to read
const CATCH_UP_MS = 3000; // the time in which all waiting rounds are shown
const MIN_ANIMATED_MS = 200; // a round that is shown for less is not animated
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];

export class Player {
  playing = false;
  speed = 1;
  liveRoundMs = MAX_LIVE_ROUND_MS;
  timer = 0;

  constructor(/** @type {Stage} */ stage) {
    this.stage = stage;
    stage.on("requested run", () => this.pause());
    stage.on("arrived", () => { // a live run is played at reading speed; faster the more rounds wait
      if (this.playing) return;
      this.liveRoundMs = MAX_LIVE_ROUND_MS;
      this.setPlaying(true);
      this.showNext();
    });
    stage.on("refused cancelled", () => stage.playsBehind && !stage.live && this.skip()); // the run before stays, and is timed
    stage.on("mode", ({ moved }) => moved && this.playing && stage.following && this.skip());
  }

  toggle() {
    const { playing } = this;
    this.go(this.stage.current, {});
    if (!playing) this.play();
  }

  play() {
    const { stage } = this;
    if (stage.rounds.length < 2) return;
    if (stage.current >= stage.rounds.length - 1) stage.go(0, { animate: true });
    this.setPlaying(true);
    this.scheduleNext();
  }

  pause() {
    clearTimeout(this.timer);
    if (this.playing) this.setPlaying(false);
  }

  setPlaying(/** @type {boolean} */ playing) {
    this.playing = playing;
    this.stage.emit("play");
  }

  // To the newest round of a live run, and to its end if it has ended.
  skip() {
    const { stage } = this;
    stage.go(stage.rounds.length - 1, { follow: true });
    if (!stage.live) this.finish();
  }

  scheduleNext() {
    clearTimeout(this.timer);
    const { current, following, rounds } = this.stage;
    if (following) this.liveRoundMs = Math.min(this.liveRoundMs, CATCH_UP_MS / Math.max(1, rounds.length - 1 - current));
    this.timer = setTimeout(() => this.showNext(), following ? this.liveRoundMs : ROUND_MS / this.speed);
  }

  showNext() {
    const { stage, stage: { following } } = this;
    const last = stage.current >= stage.rounds.length - 1;
    if (last && !stage.live) return this.finish();
    if (!last) stage.go(stage.current + 1, { animate: following ? this.liveRoundMs > MIN_ANIMATED_MS : this.speed <= 2, follow: following });
    this.scheduleNext();
  }

  finish() {
    this.pause();
    this.stage.emit("playEnded");
  }

  // A step by hand ends playback.
  step(/** @type {number} */ by) {
    this.go(this.stage.current + by, { animate: true });
  }

  go(/** @type {number} */ index, /** @type {Parameters<Stage["go"]>[1]} */ how) {
    this.pause();
    this.stage.emit("takeover");
    this.stage.go(index, how);
  }

  changeSpeed(/** @type {number} */ by) {
    this.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(this.speed) + by))];
    this.stage.emit("play");
    if (this.playing) this.scheduleNext();
  }
}
