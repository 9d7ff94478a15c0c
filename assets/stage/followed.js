// Runs that another program writes: the newest is followed as it grows, the others in its folder are listed.
(function (Canopy) {
  "use strict";

  class Followed {
    constructor(stage, lessons, notices) {
      this.stage = stage;
      this.lessons = lessons;
      this.notices = notices;
      this.listed = [];
      stage.on("followed", (value) => this.note(value));
    }

    // While another run is shown, the growing one waits, and one notice says so.
    note(value) {
      if (value.listed) this.listed = value.listed;
      this.latest = value;
      if (!this.stage.elsewhere || !value.header) this.told = false;
      else if (!this.told) {
        this.told = true;
        this.notices.news(`${value.run} goes on.`, "Follow it", () => this.follow(value.run));
      }
    }

    // Back to the growing run: its rounds so far, and then every round as it arrives.
    async follow(run) {
      const whole = await this.lessons.answer(() => Canopy.wholeRun(this.stage.server, run));
      if (!whole) return;
      this.stage.elsewhere = false;
      this.notices.told.hidden = true;
      const { state, end } = this.latest.run === run ? this.latest : whole;
      this.stage.show({ ...whole, run, state, end, followed: true });
      this.stage.go(this.stage.rounds.length - 1, { follow: true });
    }

    // For the list of recordings.
    entries() {
      const open = (name, place) => (place ? this.lessons.open(name, { push: true }) : this.follow(name));
      const made = this.listed.map(({ name, title }, place) => ({
        label: title, note: place ? "" : "the newest, followed", act: () => open(name, place) }));
      return made.length ? [{ heading: "Runs in the folder that is followed" }, ...made] : made;
    }
  }

  Canopy.Followed = Followed;
})(window.Canopy = window.Canopy || {});
