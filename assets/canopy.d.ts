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
/** A part of a drawing that reacts to the pointer. */
type Box = { x: number; y: number; width: number; height: number };

// ---- A round as the server sends it

interface PackedArray {
  dtype: "<i4" | "<i2" | "<f4";
  shape: number[];
  data: string;
}

type TreeView = Record<"tokens" | "parents" | "logprobs" | "drafters", PackedArray>;

interface RoundView {
  index: number;
  start: number;
  elapsed: number;
  pieces: Record<string, Piece>;
  texts?: Record<string, Piece>;
  tree: TreeView;
  rejected_trees: (TreeView & { drafter: number })[];
  scores: (number | null)[];
  drafts: { tokens: PackedArray; logprobs: PackedArray; follow?: PackedArray }[];
  verification: Record<"choice" | "logprobs" | "entropy" | "gap" | "offered", PackedArray>;
  keep: number[];
  bonus: number;
  trials: Record<"nodes" | "chances" | "draws", PackedArray> | null;
  seconds: Record<string, number>;
  shared?: { runs: number; own: number; blocks: { seat: number; parents: PackedArray; keep: number[]; pools_rows: boolean }[] };
}

// ---- A round as panels draw it

type Origin = "root" | "drafter1" | "drafter2" | "both";
type NumberArray = Int32Array | Int16Array | Float32Array;
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
  engine: string;
  chunked: boolean;
  drafterNames: string[];
  path(node: number): number[];
  text(id: number): string;
  show(id: number): string;
  origin(node: number): Origin;
}

/** A node that a person points at or has pinned. */
type NodeSelection = { node: number | null; pinned: boolean };

// ---- Panels

/** An entry of a legend; `origin`, `lattice`, `rejectedTree`: only if the run's trees have one. */
interface LegendEntry {
  glyph: string;
  label: string;
  title?: string;
  color?: string;
  origin?: Origin;
  lattice?: boolean;
  rejectedTree?: boolean;
}

interface PanelView {
  draw(round: Round | null): void;
  select(selection: NodeSelection): void;
  resize?(): void;
  svg?(): string | null;
  fit?(): void;
  search?(text: string): { count: number; place: number; node: number | null };
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

// ---- The stage, as panels see it

/** What was asked of which rig, and how it was sent. */
interface Header {
  method: string;
  budget: number | null;
  pace: string;
  drafters: string[];
  engine: string;
  chunked: boolean;
  recurrent_layers?: number;
}

/** A run's figures at its budget; `speed` is null if it is withheld, `printed` how every view prints it. */
interface RunPoint {
  run: string;
  title?: string;
  budget: number;
  tau: number;
  speed: number | null;
  printed: string;
}

type Band = { mean: number[]; low: number[]; high: number[] };

/** What a run's drafts would have kept at other budgets, with the range that holds eight times in ten. */
interface BudgetForecast {
  error?: string;
  budgets: number[];
  rounds: number;
  tau: Band | null;
  speed: Band | null;
  plain: number;
  withheld: string;
}

interface StageEvents {
  select: NodeSelection;
  round: { moved: boolean; push: boolean };
  begin: unknown;
  settings: unknown;
  pins: unknown;
}

interface Stage {
  value: { run: string; end: { reason: string } | null };
  header: Header | null;
  rounds: Round[];
  round: Round | null;
  /** The round that is shown as it was run, whatever budget is tried out on it. */
  actual: Round | null;
  selection: NodeSelection;
  mode: string;
  scene: string;
  live: boolean;
  animate: boolean;
  reducedMotion: boolean;
  present: { shared: boolean };
  settings: { method?: string; budget?: number };
  tried: number | null;
  tuneError: string;
  kept: RunPoint[];
  pins: Record<string, RunPoint>;
  measured: { tau: number };
  speed: { text: string; value: number | null };
  against: { plain_speed: string } | null;
  withheld: string;
  server: { budgets(asked: { run: string; live: boolean }): Promise<BudgetForecast> } | null;
  on<Event extends keyof StageEvents>(event: Event, listener: (detail: StageEvents[Event]) => void): void;
  on(events: string, listener: () => void): void;
  tell(event: string, detail?: unknown): void;
  hover(node: number | null): void;
  pin(node: number | null): void;
  tune(budget: number | null): void;
}
