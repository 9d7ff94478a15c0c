/** The parts of the page, once it is put together; what needs a server is null in a replay file. */
interface Parts {
  stage: Stage;
  player: import("./player.js").Player;
  frames: import("./frames.js").Frames;
  search: import("./keys.js").Search;
  lessons: import("./lessons.js").Lessons;
  save: import("./save.js").Save;
  notices: import("./notices.js").Notices;
  film: import("./film.js").Film;
  conversation: import("./conversation.js").Conversation | null;
  rigs: import("./rigs.js").Rigs | null;
  tour: import("./tour.js").Tour | null;
  help: import("./keys.js").Help;
  /** Runs one of the presenter's prompts. */
  ask?(place: number): void;
}
