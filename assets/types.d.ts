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
  thinking?: string;
}

/** The rig that answers, those that can be chosen, and the one that is being loaded. */
export interface RigState {
  rig: string;
  hardware: string;
  opened: string;
  good_at: string;
  usual: UsualSetting;
  reason: string;
  changes: number;
  closed: string;
  named: NamedRig[];
  coming: string;
  failure: string;
  retry: string;
  loading: Loading | null;
}

/** How far a job is; see ``Job``. */
export interface JobView {
  state: string;
  message: string;
  done: number;
  total: number;
  share: number | null;
  result: unknown;
}

/** A preset on a button, with the label of that. */
export interface VettedPrompt {
  label: string;
  prompt: string;
  method: string;
  budget: number;
  temperature: number;
}

/** How the page lists a recording. */
export interface LessonSummary {
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

/** What a run would have come to at other budgets, from so many of its rounds. */
export interface BudgetForecast {
  budgets: number[];
  rounds: number;
  tau: Band | null;
  speed: Band | null;
  plain: number;
  withheld: string;
}

/** Two runs compared: what is ``said`` of them and the ``rule`` of the verdict. */
export interface TwoRuns {
  said: string;
  rule: string;
  same_prompt: boolean;
  same_text: boolean;
  texts_part: number[] | null;
  rounds_part: number | null;
  sides: Side[];
}

/** The first line of a run; ``canopy_trace`` is the version of the format. */
export interface HeaderLine {
  canopy_trace: number;
  header: Header;
}

/** A round, the texts of tokens that no earlier line has given, and the seconds since the run began. */
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

/** How the run stands; ``message`` is a sentence for the reader. */
export interface StateLine {
  state: "queued" | "running" | "stopped" | "done" | "error";
  run: string;
  message: string;
}

/** What the server says about a run: all of it, each time. */
export interface AboutLine {
  about: About;
}

/** The options that a run has on a rig if it names none. */
export interface UsualSetting {
  method?: string;
  budget?: number;
}

/** A rig that can be chosen by its name. */
export interface NamedRig {
  name: string;
  note: string;
}

/** A rig that is being loaded, and the share of it that is done, if that is known. */
export interface Loading {
  name: string;
  message: string;
  share: number | null;
}

/** A value at each budget, and the range that holds eight times in ten. */
export interface Band {
  mean: number[];
  low: number[];
  high: number[];
}

/** One of two runs: ``rows`` verified in a round on average, ``lengths``, the tokens kept by each round, ``depths``: see ``accepted_by_depth``. */
export interface Side {
  tau: number;
  rounds: number;
  tokens: number;
  rows: number;
  lengths: number[];
  depths: number[];
  round?: SideRound;
}

/** What was run, on what, when. */
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
  in_turns: boolean;
  recurrent_layers: number;
  thinking: string;
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
}

/** A pass that several runs shared: how many ``runs`` shared the rig at the time, the seat of the run that it is shown to (``own``), and the rows of all runs in the pass. */
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
  said: string;
  drafted: number;
  accepted: number;
  texts?: Record<string, string | number[]>;
}

/** What the server says about a run. */
export interface About {
  dtype_words?: string;
  model_limit?: string;
  outside?: boolean;
  lossless?: boolean | null;
  remark?: string;
  repetition?: Repetition | null;
  comparison?: PlainComparison;
}

/** One round of a run: the rows that were verified, the tokens kept, and the depth of its tree. */
export interface SideRound {
  index: number;
  rows: number;
  kept: number;
  depth: number;
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

/** The rows of one run in a shared pass: its tree's shape and the rows that were kept, nothing of its text. */
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

/** A run beside plain decoding, as the page shows it; ``others`` the fastest first. */
export interface PlainComparison {
  state: "measuring" | "ended" | "cut";
  text: ComparedText;
  lanes: Lanes;
  speed: RunSpeed;
  gpu: GpuCost | null;
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

/** What the comparison of the texts came to: how many of the run's ``tokens`` are the ``same``, sentences, and the ``rule`` of the verdict if the texts part. */
export interface ComparedText {
  verdict: string;
  same: number;
  tokens: number;
  words: string;
  rule: string;
}

/** Both texts on one clock: what each token of plain decoding adds, the ``seconds`` at which the run and plain decoding had each token, and ``ends``, in how many seconds all of them, as printed. */
export interface Lanes {
  title: string;
  texts: string[];
  seconds: number[][];
  ends: string[];
}

/** A speed, and if a speed-up may be said ``tau`` and ``cost`` as printed, tau ÷ cost = times, ``how`` both were measured, and a sentence. */
export interface RunSpeed {
  speed: string;
  plain_speed: string;
  ratio: number;
  times: string;
  range: string;
  standing: string;
  withheld: string;
  again: boolean;
  how: string;
  tau: string;
  cost: string;
  words: string;
}

/** What a round costs in plain steps on the GPU of published results, draft included: as the published ``loop``, as bandwidth and operations allow (``floor``), and how good such predictions were. */
export interface GpuCost {
  name: string;
  loop: number;
  floor: number;
  caution: string;
}

/** A setting that was measured because the run was slower: ``dtype`` is empty if it is the run's own, ``drafted`` counts the rounds that verified a draft. */
export interface OtherSetting {
  method: string;
  budget: number;
  pace: string;
  dtype: string;
  rounds: number;
  drafted: number;
  ratio: number;
  times: string;
}
