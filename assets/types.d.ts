// Written by `make types` from the records of engine/ and explorer/. Change those.

/** An array: little-endian numbers of that dtype in base64. */
export interface Packed<Dtype extends "<i4" | "<f4"> {
  dtype: Dtype;
  shape: number[];
  data: string;
}

export type StreamLine = HeaderLine | Entry | EndLine | StateLine | AboutLine;

/** The options of a run, as a program names them; what is left out has its default. */
export interface Options {
  method?: string;
  budget?: number;
  max_tokens?: number;
  split?: string;
  pace?: string;
  temperature?: number;
  top_k?: number;
  top_p?: number;
  seed?: number;
  min_p?: number;
  repetition_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  logit_bias?: [number, number][];
  prompt?: string;
  drafters?: string[];
  turns?: [string, string][];
  forced?: number[];
  thinking?: string;
}

/** The rig that answers, those that can be chosen, and the one that is being loaded. */
export interface RigState {
  rig: string;
  hardware: string;
  opened_as: string;
  good_at: string;
  defaults: DefaultSetting;
  gains: Record<string, string>;
  reason: string;
  generation: number;
  choice_disabled: string;
  named: NamedRig[];
  first_load: string;
  failure: string;
  retry: string;
  loading: Loading | null;
}

/** A job's progress, for the browser. */
export interface JobView {
  state: string;
  message: string;
  done: number;
  total: number;
  share: number | null;
  result: unknown;
}

/** A preset and the label of its button. */
export interface VettedPrompt {
  label: string;
  prompt: string;
  method: string;
  budget: number;
  temperature: number;
}

/** How the page lists a recording. */
export interface RecordingSummary {
  name: string;
  title: string;
  note: string;
  rounds: number;
  method: string;
  budget: number | null;
  drafters: string[];
  rig: string;
  hardware: string;
  recorded: string;
  tau: number | null;
  tokens_per_second: number;
  won: string;
}

/** Predicted τ and speed at the budgets that the run's drafts fill, from ``rounds`` sampled rounds; ``candidates``: the nodes that these hold on average. */
export interface BudgetForecast {
  budgets: number[];
  rounds: number;
  candidates: number;
  tau: Band | null;
  speed: Band | null;
  plain: number;
  withheld: string;
  measured: MeasuredCurve | null;
}

/** The comparison of two runs. */
export interface TwoRuns {
  summary: string;
  rule: string;
  same_prompt: boolean;
  same_text: boolean;
  first_difference: number[] | null;
  sides: Side[];
}

/** What the lab shows first, and what there is to choose from. */
export interface LabSetup {
  rig: string;
  initial_recording: string;
  reason: string;
  server: boolean;
  defaults: SweepForm;
  methods: string[];
  budgets: (number | string)[];
  concurrency: number[];
  limits: Record<string, number>;
  sets: PromptSet[];
}

/** Curves and table of a sweep at one concurrency, over the prompts of a ``category`` ("" for all), and the cost of a pass. */
export interface LabCurves {
  curves: RunCurves;
  cost: CostView | null;
  table: TableView | null;
  counts: number[];
  concurrency: number;
  categories: string[];
  category: string;
  kinds: Record<string, TableRow>;
  command: string;
  seconds_per_run: number | null;
}

/** The figures. */
export interface LabConcurrency {
  lines: string[];
  line: string;
  words: string[];
  columns: string[];
  rows: CellRow[];
  heat: Figure | null;
  recorded: string;
}

/** The selected sweep, None if there is none, and the list of sweeps. */
export interface SweepProgress {
  sweep: number | null;
  sweeps: SweepLine[];
  state: string;
  message: string;
  done: number;
  total: number;
  failed: number;
  seconds_left: number | null;
  recorded: string;
  other_rig: string;
  other_sweep_running: boolean;
  command: string;
}

/** The figures, None if the rounds lack their data. */
export interface AcceptanceView {
  lengths?: Figure;
  map?: Figure;
  calibration?: Figure | null;
  rows?: Figure | null;
  nodes?: Figure | null;
  trees?: Figure | null;
  words?: Record<string, string[]>;
}

/** A run predicted on another machine. */
export interface MachinePrediction {
  elsewhere: Figure | null;
  too_large: string;
  flags: Flags[];
  cost_on: string;
  read_in: string;
  caution: string;
  models: string[];
  devices: string[];
  model: string;
  device: string;
}

/** A finished prediction: the run's name, and at how many positions a plain pass chooses another token. */
export interface PredictionResult {
  what_if: string;
  departures: number;
}

/** A race. */
export interface RaceView {
  seconds: number;
  tracks: TrackView[];
}

/** One check of one drafter, or of the target if ``drafter`` is empty. */
export interface DoctorFinding {
  name: string;
  drafter: string;
  status: string;
  seen: string;
  advice: string;
}

/** A server's counters now and before. */
export interface CountersView {
  about: string;
  traffic: Figure | null;
  places: Figure | null;
  silence: string;
  flags: Flags[];
}

/** An attached server's speed by requests at once, and which of them failed. */
export interface ServerSpeed {
  figure: Figure | null;
  about: string;
}

/** The first line of a run; ``canopy_trace`` is the version of the format. */
export interface HeaderLine {
  canopy_trace: number;
  header: Header;
}

/** A round, with the ``pieces`` of tokens that no earlier line has, and the seconds since the run began. */
export interface Entry {
  round: Round;
  pieces: Record<string, string | number[]>;
  elapsed_seconds: number;
  shared?: SharedPass | null;
  texts?: Record<string, string | number[]>;
}

/** The last line of a run. */
export interface EndLine {
  end: End;
}

/** The run's state, with a message for the user. */
export interface StateLine {
  state: "queued" | "running" | "stopped" | "done" | "error";
  run: string;
  message: string;
}

/** The server's comments, always complete. */
export interface AboutLine {
  about: About;
}

/** The options that a run has on a rig if it names none. */
export interface DefaultSetting {
  method?: string;
  budget?: number;
}

/** A rig that can be chosen by its name. */
export interface NamedRig {
  name: string;
  note: string;
}

/** A rig that is being loaded; ``share`` is the fraction that is done, None if unknown. */
export interface Loading {
  name: string;
  message: string;
  share: number | null;
}

/** A value at each budget, with its 80 % interval. */
export interface Band {
  mean: number[];
  low: number[];
  high: number[];
}

/** A recording's own τ and tokens/s at each budget with intervals, measured for its prompt. */
export interface MeasuredCurve {
  budgets: number[];
  tau: Band;
  speed: Band;
  plain: number;
}

/** One of two runs. */
export interface Side {
  rows: number;
  depths: number[];
}

/** What the lab's form asks for. */
export interface SweepForm {
  set: string;
  prompts: number;
  methods: string[];
  budgets: (number | string)[];
  concurrency: number[];
  split: string;
  temperature: number;
  repeats: number;
  max_tokens: number;
}

/** A set of prompts in the list of all. */
export interface PromptSet {
  name: string;
  title: string;
  count: number;
}

/** A sweep's curves, and those that a run predicts. */
export interface RunCurves {
  figure: CurvesFigure;
  count: number;
  predicted: PredictedLines;
}

/** What a pass costs and what a node gains, and how the cost was measured. */
export interface CostView {
  cost: Figure;
  gain: Figure | null;
  about: string;
}

/** The table for one concurrency, fastest first, withheld rows last. */
export interface TableView {
  rows: TableRow[];
  best: TableRow | null;
  remark: string;
  rivals: string[];
  outcome: string;
}

/** A setting and what was measured of it, see ``summary.Row``: ``total`` are the tokens/s of all requests together, ``record`` is what is printed of them. */
export interface TableRow {
  method: string;
  budget: number;
  nodes: string;
  split: string;
  pace: string;
  concurrency: number;
  label: string;
  line: string;
  lossless: boolean;
  fastest: boolean;
  runs: number;
  failed: number;
  same_text: number;
  compared: number;
  repeating: number;
  tau: Estimate;
  total: Estimate;
  speedup: Estimate | null;
  break_even: Estimate | null;
  modelled: number | null;
  record: SpeedRecord;
}

/** The cells of one number of requests, None if nothing was measured. */
export interface CellRow {
  concurrency: number;
  cells: (Cell | null)[];
  withheld: string;
}

/** What ``Plotly.react`` draws, and what a screen reader says of it. */
export interface Figure {
  data: Record<string, unknown>[];
  layout: Record<string, unknown>;
  summary: string;
}

/** A sweep in the list of sweeps. */
export interface SweepLine {
  number: number;
  rig: string;
  other_rig: boolean;
  concurrency: number;
  started: string;
  done: number;
  total: number;
  state: string;
}

/** The flags to paste for an ``engine``, and what to expect of them, in a sentence. */
export interface Flags {
  engine: string;
  flags: string;
  expected: string;
}

/** A track. */
export interface TrackView {
  label: string;
  method: string;
  seconds: number[];
  tokens: number[];
  end: string;
  parts: string[];
  failure: string;
  row: TableRow | null;
  difference: string;
}

/** What was run, on what, and when. */
export interface Header {
  request: Request;
  prompt: string;
  rig: string;
  drafters: string[];
  hardware: string;
  dtype: string;
  context_limit: number;
  pieces: Record<string, string | number[]>;
  revisions: Record<string, string>;
  title: string;
  note: string;
  recorded: string;
  turns: [string, string][];
  engine: string;
  every: number;
  precision: string;
  chunked: boolean;
  interleaved?: boolean;
  recurrent_layers: number;
  thinking: string;
  forced: number;
  drafter_kinds: string[];
  outside?: boolean;
  curve?: MeasuredBudget[];
}

/** One draft, one verify, one commit. */
export interface Round {
  index: number;
  start: number;
  drafts: Lattice[];
  candidates: DraftTree[];
  tree: DraftTree;
  verification: Verification;
  acceptance: Acceptance;
  seconds: Record<string, number>;
  alternatives?: Alternatives | null;
}

/** A pass that several runs shared: the number of ``runs`` on the rig, the seat of the run that this line belongs to (``own``), and the rows of all runs in the pass. */
export interface SharedPass {
  runs: number;
  own: number;
  blocks: Block[];
}

/** The end of a run. */
export interface End {
  reason: string;
  rounds: number;
  seconds: number;
  dropped: number;
  refused: number;
  note: string;
  drafted: number;
  accepted: number;
  prefill_seconds: number;
  cached: number;
  texts?: Record<string, string | number[]>;
}

/** The server's comments on a run: ``lossless`` (null for an unknown method), ``remark`` (what the file lacks) and ``comparison`` with plain decoding (``claims``). */
export interface About {
  dtype_words?: string;
  model_limit?: string;
  outside?: boolean;
  lossless?: boolean | null;
  remark?: string;
  repetition?: Repetition | null;
  comparison?: PlainComparison;
}

/** A figure with a logarithmic budget axis. */
export interface CurvesFigure {
  data: Record<string, unknown>[];
  layout: Record<string, unknown>;
  summary: string;
  zero: number;
  auto: number | null;
}

/** ``lines``: the curves that a what-if predicts. */
export interface PredictedLines {
  lines: string[];
  line: string;
  withheld: string;
}

/** A median over prompts. */
export interface Estimate {
  median: number;
  low: number | null;
  high: number | null;
  minimum: number;
  maximum: number;
  prompts: number;
}

/** The speeds of a run and of plain decoding in tokens per second, as printed: ``speed`` ÷ ``plain_speed`` = ``times``. */
export interface SpeedRecord {
  speed: string;
  plain_speed: string;
  ratio: number;
  times: string;
  range: string;
  outcome: string;
  withheld: string;
  again: boolean;
}

/** A cell of the table: total tokens/s, the interval with the speed of each request, and what is remarkable. */
export interface Cell {
  text: string;
  more: string;
  best: boolean;
  withheld: string;
  differs: string;
}

/** A request to the engine; ``stop_ids`` end the text and are not part of it. */
export interface Request {
  method: string;
  budget: number;
  max_tokens: number;
  sampling: Sampling;
  split: string;
  pace: string;
  prompt_ids: number[];
  stop_ids: number[];
}

/** The prompt at a node budget, interleaved with plain decoding: τ, and the speed-up with its 95 % interval. */
export interface MeasuredBudget {
  budget: number;
  tau: number;
  ratio: number;
  low: number;
  high: number;
}

/** What one drafter proposes for the positions after the root. */
export interface Lattice {
  tokens: Packed<"<i4">;
  logprobs: Packed<"<f4">;
  follow: Packed<"<i4">;
}

/** Tokens to verify: tokens, parents (n,) int32, logprobs (n,) float32 cumulative from the root (whose own is 0), drafters (n,) int32: a bit mask of the drafters that propose the node (1, 2, both 3; 0 for the root). */
export interface DraftTree {
  tokens: Packed<"<i4">;
  parents: Packed<"<i4">;
  logprobs: Packed<"<f4">;
  drafters: Packed<"<i4">;
}

/** The target's choice and statistics at each node, all (n,); nothing of the vocabulary's size leaves the device. */
export interface Verification {
  choice: Packed<"<i4">;
  logprobs: Packed<"<f4">;
  entropy: Packed<"<f4">;
  gap: Packed<"<f4">;
  offered: Packed<"<f4">;
  processed: Packed<"<f4">;
}

/** What is accepted of a tree. */
export interface Acceptance {
  keep: Packed<"<i4">;
  bonus: number;
  trials: Trials | null;
}

/** The target's most likely tokens after each kept row, the likeliest first: tokens (a, k) int32, logprobs (a, k) float32 before temperature, top-k and top-p. */
export interface Alternatives {
  tokens: Packed<"<i4">;
  logprobs: Packed<"<f4">;
}

/** One run's rows in a shared pass: the shape of its tree and the kept rows, without text. */
export interface Block {
  seat: number;
  parents: Packed<"<i4">;
  keep: Packed<"<i4">;
  pools_rows: boolean;
}

/** Where a text begins to repeat itself: the token and the round that first wrote of it, both from 0. */
export interface Repetition {
  token: number;
  round: number;
  words: string;
}

/** A run beside plain decoding, as the page shows it; ``others`` start with the fastest. */
export interface PlainComparison {
  state: "measuring" | "ended" | "interrupted";
  text: ComparedText;
  tracks: Tracks;
  speed: PrintedSpeed;
  others: OtherSetting[];
}

/** How the target turns its logits into a choice. */
export interface Sampling {
  temperature: number;
  top_k: number;
  top_p: number;
  seed: number;
  min_p: number;
  repetition_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  logit_bias: [number, number][];
}

/** The children that an acceptance rule tried, in order: nodes (t,) int32, chances (t,) float32 of acceptance, draws (t,) float32 uniform in [0, 1). */
export interface Trials {
  nodes: Packed<"<i4">;
  chances: Packed<"<f4">;
  draws: Packed<"<f4">;
}

/** The text comparison: the first ``same`` of ``tokens`` tokens are equal. */
export interface ComparedText {
  verdict: string;
  same: number;
  tokens: number;
  words: string;
  rule: string;
}

/** Both texts on one clock, for the race animation. */
export interface Tracks {
  title: string;
  texts: string[];
  seconds: number[][];
  ends: string[];
}

/** A speed. */
export interface PrintedSpeed {
  speed: string;
  plain_speed: string;
  ratio: number;
  times: string;
  range: string;
  outcome: string;
  withheld: string;
  again: boolean;
  how: string;
  tau: string;
  cost: string;
  words: string;
}

/** A setting that was timed because the run was slower. */
export interface OtherSetting {
  method: string;
  budget: number;
  pace: string;
  dtype: string;
  rounds: number;
  drafted: number;
  ratio: number;
  times: string;
  range: string;
}
