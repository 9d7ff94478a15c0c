// What the scripts share, for the type checker; none of this is shipped. A script adds what it defines to the global
// Canopy, and Gradio, which is not ours, decides what its elements are.
declare const Canopy: any;

interface Window {
  Canopy: any;
  Plotly: any;
  gradio_config: any;
}

/** An element that Plotly has drawn in. */
interface PlotlyElement extends HTMLDivElement {
  on(event: string, listener: (event: any) => void): void;
}

// A selector says which kind of element it finds; `document.querySelector` cannot know.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}

interface Document {
  readonly activeElement: HTMLElement | null;
}

// ---- Drawing

type Attributes = Record<string, string | number | boolean | null | undefined>;
/** An element of an SVG: its tag, its attributes, and its text or the marks in it. */
type Mark = [tag: string, attributes: Attributes, inside?: string | Mark[]];
/** A part of a drawing; `weight`: how much a tip may not cover a pixel of it. */
type Box = { x: number; y: number; width: number; height: number; weight?: number };

// ---- A round as panels draw it

type Origin = "root" | "drafter1" | "drafter2" | "both";
type NumberArray = Int32Array | Float32Array;
/** A token's text, or its bytes if they are no text by themselves. */
type Piece = string | number[];

/** A draft tree: arrays by node, node 0 is the root. `drafters` is a bit mask of who proposed a node. */
interface Tree {
  n: number;
  tokens: Int32Array;
  parents: Int32Array;
  depths: Int32Array;
  children: number[][];
  logprobs: NumberArray;
  drafters: Int32Array;
}

/** What one drafter proposed, (depth, rows, k). `follow`: the row of the next depth that a cell leads to, if rows differ. */
interface Draft {
  depth: number;
  rows: number;
  k: number;
  tokens: Int32Array;
  logprobs: NumberArray;
  follow: Int32Array | null;
}

/** The rows of one run in a pass that several share. */
interface PassBlock {
  seat: number;
  parents: Int32Array;
  keep: number[];
  poolsRows: boolean;
}

interface Round extends Tree {
  index: number;
  start: number;
  elapsed: number;
  keep: number[];
  kept: Set<number>;
  fate: ("root" | "accepted" | "rejected")[];
  bonus: number;
  /** The target's most likely tokens after each kept row, if they were recorded. */
  alternatives: { token: number, p: number }[][] | null;
  trials: { nodes: Int32Array; chances: NumberArray; draws: NumberArray } | null;
  // What the target says at each node: its choice, and what it gives the drafted token.
  choice: Int32Array;
  choiceLogprobs: NumberArray;
  entropy: NumberArray;
  gap: NumberArray;
  offered: NumberArray;
  rejectedTrees: (Tree & { drafter: number })[];
  drafts: Draft[];
  scores: number[];
  seconds: Record<string, number>;
  spent: number;
  shared: { runs: number; own: number; blocks: PassBlock[] } | null;
  method: string;
  budget: number | null;
  split: string;
  engine: string;
  chunked: boolean;
  drafterNames: string[];
  path(node: number): number[];
  text(id: number): string;
  show(id: number): string;
  origin(node: number): Origin;
}

/** A node of the shown round that a person points at or has pinned; another round, if the pointer is on one of its tokens. */
type NodeSelection = { node: number | null; pinned: boolean; round: number | null };

// ---- Panels

/** An entry of a legend, shown if `when` holds and if the run's trees have nodes of `origin`. */
interface LegendEntry {
  glyph: string;
  label: string;
  title?: string;
  color?: string;
  origin?: Origin;
  when?(stage: Stage): boolean;
}

interface PanelView {
  draw(round: Round | null): void;
  select(selection: NodeSelection): void;
  resize?(): void;
  /** The host's size as it was read last; null: it may have changed. */
  hostSize?: Pick<HTMLElement, "clientWidth" | "clientHeight"> | null;
  svg?(): string | null;
  fit?(): void;
  /** Leaves a part of the drawing for all of it. Returns whether there was more to see. */
  widen?(): boolean;
  /** Whether the tree is an icicle; null: if it is large. */
  asIcicle?: boolean | null;
  /** Which part of the drawing is seen, as text for an address. */
  camera?: { text(): string; restore(text: string | null): boolean };
}

interface PanelDefinition {
  name: string;
  title: string;
  caption: string;
  legend?: LegendEntry[];
  /** The row ("upper" is beside the text) and the share of its width against its neighbours'. */
  place?: { row: "upper" | "lower"; share: number };
  /** Whether the panel is there at all. */
  when?(stage: Stage): boolean;
  create(host: HTMLElement, stage: Stage): PanelView;
}

/** What lies under the pointer; `node` is null if no node stands for it. */
type Pointed = { node: number | null };

/** A node in a line of several: the line's column, the distance from it, the room of its name; without room it is among the `unnamed`
 *  of the first such one, where their number stands. No edge leads to one that `follows` another run. */
type RunItem = { node: number, column: number, offset: number, room: number, unnamed: number[], follows: boolean };
type RunLine = { items: RunItem[], reach: number }; // how many further columns it covers

/** Where the nodes of a tree lie: columns are depths. */
type Layout = {
  columns: Int32Array, rows: Float64Array, places: Map<number, RunItem>, children: number[][], columnCount: number, rowCount: number,
};

/** How the labels of the kept path stand: side by side, in turn on two lines, or aslant. */
type LabelForm = "flat" | "staggered" | "slanted";

/** A token at a depth of a lattice and the row of the next depth that it leads to. `mass` is its probability over all
 *  prefixes of the lattice, `node` the tree's node that stands for it, if there is one. */
interface Candidate {
  token: number;
  row: number;
  depth: number;
  mass: number;
  before: { from: Candidate, chance: number }[];
  after: { to: Candidate, chance: number }[];
  node: number | null;
}

/** What follows a candidate, beside what follows on average (null if nothing else leads to any of them). */
type Change = { to: Candidate, chance: number, average: number | null };

/** A place of the marginals that reacts to the pointer with the lines of a tip: a guess of a drafter, or what is said beside the guesses. */
interface Hit extends Box {
  node: number | null;
  lines: () => string[];
  id?: number;
  drafter?: number;
  depth?: number;
  transition?: { candidate: Candidate, drawing: import("./panels/lattice.js").LatticeDrawing };
}

// ---- A run as the server sends it

/** What was asked of which rig: a header line, the request's fields among its own. */
type Header = Omit<import("./types.d.ts").Header, "request"> & Omit<import("./types.d.ts").Request, "sampling" | "budget"> &
  import("./types.d.ts").Sampling & { budget: number | null, options: import("./types.d.ts").Options };

/** The run that is shown, and how it stands. */
interface RunValue {
  run: string;
  state: "empty" | "queued" | "running" | "starting" | "stopped" | "done" | "error" | "lost";
  message: string;
  followed: boolean;
}

/** The lines of a run as they arrive, several at a time, until the signal ends it. */
type RunLines = (signal: AbortSignal) => AsyncIterable<StreamLine[]>;

/** A run's figures at its budget. `speed`: null if its speed-up is withheld, and then `doubt` says why; `printed`: as every view prints it; `ratio` and `range`: beside plain decoding. */
interface RunPoint {
  method: string;
  run: string;
  title?: string;
  prompt?: string;
  budget: number;
  tau: number;
  speed: number | null;
  printed: string;
  doubt?: string;
  ratio?: number;
  range?: string;
  machine: string;
  /** What it was asked with, its text, the seconds until its first round, and the share of its tokens that were drafted. */
  options?: Setting;
  answer?: string;
  first?: number;
  drafted?: number;
  state?: string;
  /** Whether this browser keeps its file. */
  starred?: boolean;
  /** Tokens and seconds of its rounds, if it is laid over another run. */
  lengths?: number[];
  spent?: number[];
}

// ---- The server's functions, which Gradio puts on the component: each takes one object

type Failed = { error: string };
type StreamLine = import("./types.d.ts").StreamLine;
type StateLine = import("./types.d.ts").StateLine;
type About = import("./types.d.ts").About;

type SavedFile = { name: string; media: string; data: string };

interface Server {
  rig_state(asked: object): Promise<RigState | Failed>;
  rig_choose(asked: object): Promise<RigState | Failed>;
  rig_cancel(asked: object): Promise<RigState | Failed>;
  rig_retry(asked: object): Promise<RigState | Failed>;
  export(asked: { kind: string; run: string; round: number; title?: string; comment?: string; view?: string }): Promise<SavedFile | Failed>;
  share(asked: { run: string; title: string; comment: string }): Promise<{ run: string } | Failed>;
  unshare(asked: { run: string }): Promise<object | Failed>;
  upload(piece: { upload: string; data: string }): Promise<{ upload: string; error?: string }>;
  open_trace(asked: { name: string; upload: string }): Promise<{ run: string } | Failed>;
  budgets(asked: { run: string; live: boolean }): Promise<BudgetForecast>;
  round_at(asked: { run: string; round: number; budget: number }): Promise<import("./types.d.ts").Entry | Failed>;
  two_runs(asked: { first: { run: string }; second: { run: string } }): Promise<import("./types.d.ts").TwoRuns | Failed>;
  compare(asked: { run: string }): Promise<{ job: string } | Failed>;
  compared(asked: { job: string }): Promise<{ state: string; message: string; result?: PlainComparison | null } | Failed>;
}

// ---- The lab

type Lab = import("./lab/mount.js").Lab;
type Figure = import("./types.d.ts").Figure;
type TableRow = import("./types.d.ts").TableRow;
type TableView = import("./types.d.ts").TableView;
type LabSetup = import("./types.d.ts").LabSetup;
type LabCurves = import("./types.d.ts").LabCurves;
type LabConcurrency = import("./types.d.ts").LabConcurrency;
type AcceptanceView = import("./types.d.ts").AcceptanceView;
type MachinePrediction = import("./types.d.ts").MachinePrediction;
type CountersView = import("./types.d.ts").CountersView;
type RaceView = import("./types.d.ts").RaceView;
type SweepProgress = import("./types.d.ts").SweepProgress;
type SweepLine = import("./types.d.ts").SweepLine;
type DoctorFinding = import("./types.d.ts").DoctorFinding;
type Estimate = import("./types.d.ts").Estimate;
type LabPrompts = { chosen: string; sets: import("./types.d.ts").PromptSet[] };

/** What the server's functions for the lab answer; a job's result comes later, see `JobResults`. */
interface LabAnswers {
  lab_setup: LabSetup;
  lab_plotly: string;
  lab_progress: SweepProgress;
  lab_curves: LabCurves;
  lab_concurrency: LabConcurrency;
  lab_start: { sweep: number };
  lab_control: { sweep: number };
  lab_delete: object;
  lab_prompts: LabPrompts;
  lab_upload: { upload: string };
  lab_acceptance: AcceptanceView;
  lab_predict_on_machine: MachinePrediction;
  lab_report: SavedFile;
  lab_job: import("./types.d.ts").JobView;
  lab_server_counters: CountersView;
  lab_what_if: { job: string };
  lab_race: { job: string };
  lab_doctor: { job: string };
  lab_server_concurrency: { job: string };
}

interface JobResults {
  lab_what_if: import("./types.d.ts").PredictionResult;
  lab_race: RaceView;
  lab_doctor: { findings: DoctorFinding[] };
  lab_server_concurrency: import("./types.d.ts").ServerSpeed;
}

type LabServer = { [Name in keyof LabAnswers]: (wanted: object) => Promise<LabAnswers[Name] | Failed | null> };

/** What the parts of the lab hear: how far the measurement is, or new curves with their table. */
interface LabEvents {
  progress: void;
  table: void;
}

// ---- The stage

type Stage = import("./stage/stage.js").Stage;
type Player = import("./stage/player.js").Player;
type Recordings = import("./stage/recordings.js").Recordings;
type Notices = import("./stage/notices.js").Notices;
type Rigs = import("./stage/rigs.js").Rigs;
type Setting = import("./types.d.ts").Options;
type Turns = [role: string, text: string][];
type RigState = import("./types.d.ts").RigState;
type VettedPrompt = import("./types.d.ts").VettedPrompt;
type Recording = import("./types.d.ts").RecordingSummary;
type Band = import("./types.d.ts").Band;
/** What a run's drafts would have kept at other budgets, or why that is not known. */
type BudgetForecast = import("./types.d.ts").BudgetForecast & { error?: string };
type Ratio = import("./panels/fastest.js").Ratio;
type PlainComparison = import("./types.d.ts").PlainComparison;
type PrintedSpeed = import("./types.d.ts").PrintedSpeed;
type RunFigures = ReturnType<typeof import("./shared/round.js").figuresOf>;

/** The parts of the page, once it is put together; what needs a server is null in a replay file. */
interface Parts {
  stage: Stage;
  player: Player;
  frames: import("./stage/frames.js").Frames;
  search: import("./stage/search.js").Search;
  timeline: import("./stage/timeline.js").Timeline;
  recordings: Recordings;
  save: import("./stage/save.js").Save;
  notices: Notices;
  film: import("./stage/film.js").Film;
  runs: import("./stage/runs.js").RunList | null;
  conversation: import("./stage/conversation.js").Conversation | null;
  rigs: Rigs | null;
  tour: import("./stage/tour.js").Tour | null;
  lost: import("./stage/notices.js").ConnectionMonitor | null;
  keys: import("./stage/keys.js").Keys;
  address: import("./stage/address.js").Address;
  /** Whether the view that the address names is shown. */
  ready: boolean;
  help: import("./shared/overlays.js").Sheet;
  /** Runs one of the presenter's prompts. */
  ask?(place: number): void;
}

/** The detail of an event, or of any of several, with spaces between. */
type DetailOf<Events, Names> = Names extends keyof Events ? Events[Names]
  : Names extends `${infer First} ${infer Rest}` ? DetailOf<Events, First> | DetailOf<Events, Rest> : never;

/** The events of the stage, each with its detail, who emits it and what it means. `stage.on("run lines", …)` listens to both. */
interface StageEvents {
  requested: void; // stage: a run was requested
  refused: string; // stage: the request failed, and why
  cancelled: void; // stage: stopped before its first round
  disconnected: void; // stage, recordings: a run's lines stopped arriving
  serverLost: void; // stage: the server is gone
  rigLoaded: void; // rigs: the bar asks what the rig can do
  rigs: void; // rigs: which rigs there are
  opened: { push?: boolean }; // recordings, mount: a recording or former run was opened
  run: void; // stage: another run is shown
  lines: { other: boolean }; // stage: the shown run has more lines
  state: void; // stage: queued, running, ended
  recordings: void; // recordings: their list has arrived
  ticked: void; // runs, controls: other runs were ticked, to overlay
  remeasure: void; // slowdown: compare again
  compared: void; // stage, slowdown: news of the comparison with plain decoding
  round: { moved: boolean; push: boolean }; // stage: another round is shown
  arrived: void; // stage: a new round, to play at reading speed
  playEnded: void; // player: all rounds were played
  play: void; // player: playing started or stopped
  select: NodeSelection; // stage: another node
  pin: number | null; // stage: a node's details stay open (the node)
  mode: { moved?: boolean; push: boolean }; // stage, mount: story, workbench or lab
  tab: string; // stage: another tab of the lab
  fullscreen: string | null; // frames: a panel fills the window (its name)
  camera: void; // tree: another part of the tree is visible
  scene: void; // film: another scene of the film
  takeover: void; // player, text: the person takes over
  hits: void; // search, mask: the tree has other nodes to mark
  options: void; // controls: the bar's options changed
  budget: number; // budget: put this budget into the bar
  fillBar: Setting; // slowdown: put these options into the bar
  offerRerun: Setting; // runs, mount: fillBar for a run that the server no longer has
  editPrompt: { turns: Turns; prompt: string }; // text: put a prompt back into the bar
  answerAgain: { point: RunPoint; options: Setting | null }; // text: answer a turn again
  openRun: RunPoint; // text: open an answer as its run
  otherAnswer: void; // conversation: another answer to the turn is shown
  branch: number; // tree: run on from this node
  alternative: { node: number, token: number }; // verifier: run on with another token after it
  unbranch: void; // text: back to the run before the branch
}
