"""The lines of a run, statistics and texts computed from them, and an estimate of their memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.errors import TraceError
from engine.recorder import join_pieces
from engine.records import OPTIONAL, WAIT, Integers, Request, Round
from engine.requests.prompts import Turn

Piece = str | tuple[int, ...]  # a token's text, or its bytes if the token alone is not whole characters


@dataclass(frozen=True)
class MeasuredBudget:
    """The prompt at a node budget, interleaved with plain decoding: τ, and the speed-up with its 95 % interval."""

    budget: int
    tau: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Header:
    """What was run, on what, and when.

    Args:
        pieces: texts of the prompt's tokens.
        note: a sentence for the reader, such as that the prompt is unlike the rig's training.
        recorded: ISO date of a recording; empty for a live run.
        turns: the conversation before the prompt.
        engine: empty for Canopy's own.
        every: one of this many rounds was recorded.
        precision: a sentence that says why the rig runs in this dtype.
        chunked: the engine does not report rounds; each ``round`` is a chunk of its stream.
        interleaved: timed interleaved with plain decoding of the same prompt, which is recorded too.
        recurrent_layers: how many layers of the target keep one state instead of a cache row per token.
        thinking: the chat template's switch, as requested: on, off or auto.
        forced: number of tokens at the end of the prompt ids that begin the answer.
        drafter_kinds: kinds of the drafters' checkpoints, such as eagle3; empty in older traces.
        outside: the prompt is unlike the rig's training, as the note says.
        curve: the same run at several budgets, measured for a recording.
    """

    request: Request
    prompt: str
    rig: str
    drafters: tuple[str, ...]
    hardware: str
    dtype: str
    context_limit: int
    pieces: Mapping[int, Piece]
    revisions: Mapping[str, str]
    title: str = ""
    note: str = ""
    recorded: str = ""
    turns: tuple[Turn, ...] = ()
    engine: str = ""
    every: int = 1
    precision: str = ""
    chunked: bool = False
    interleaved: bool = field(default=False, metadata=OPTIONAL)
    recurrent_layers: int = 0
    thinking: str = "auto"
    forced: int = 0
    drafter_kinds: tuple[str, ...] = ()
    outside: bool = field(default=False, metadata=OPTIONAL)
    curve: tuple[MeasuredBudget, ...] = field(default=(), metadata=OPTIONAL)

    @property
    def budget(self) -> int | None:
        """The node budget; None if another engine did not report it."""
        return None if self.engine and not self.request.budget else self.request.budget


@dataclass(frozen=True)
class Block:
    """One run's rows in a shared pass: the shape of its tree and the kept rows, without text.

    ``seat`` identifies the run while it lasts; a later run may get the same. ``pools_rows``: the run shares one total
    of rows with others.
    """

    seat: int
    parents: Integers
    keep: Integers
    pools_rows: bool = False


@dataclass(frozen=True)
class SharedPass:
    """A pass that several runs shared: the number of ``runs`` on the rig, the seat of the run that this line belongs to
    (``own``), and the rows of all runs in the pass."""

    runs: int
    own: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Entry:
    """A round, with the ``pieces`` of tokens that no earlier line has, and the seconds since the run began.

    ``texts``: by position, what a committed token adds to the text if that is not its piece; most tokenizers, for
    example, drop the blank before a first word. ``shared`` is for the live display only.
    """

    round: Round
    pieces: Mapping[int, Piece]
    elapsed_seconds: float
    shared: SharedPass | None = field(default=None, metadata=OPTIONAL)
    texts: Mapping[int, Piece] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass(frozen=True)
class End:
    """The end of a run.

    Args:
        reason: ``stop`` (a stop token), ``length`` (max_tokens), ``context`` (no positions left), ``stopped``, ``cut``
            (the file ends early) or ``unknown`` (not reported to a recorder).
        dropped: rounds that a recorder had no time for; ``refused`` ones were invalid.
        note: another engine's own figures, how many runs shared rounds, or how many lines the reader left out.
        drafted, accepted: of a chunked run, tokens in all; 0 if unknown.
        prefill_seconds: until the first token; 0 if unknown.
        cached: prompt tokens taken from an earlier run's cache.
        texts: as in ``Entry``, of bytes at the end that never became a character.
    """

    reason: str
    rounds: int
    seconds: float
    dropped: int = 0
    refused: int = 0
    note: str = ""
    drafted: int = 0
    accepted: int = 0
    prefill_seconds: float = 0.0
    cached: int = 0
    texts: Mapping[int, Piece] = field(default_factory=dict, metadata=OPTIONAL)


Line = Header | Entry | End


@dataclass(frozen=True)
class Trace:
    """A finished run in memory."""

    header: Header
    entries: tuple[Entry, ...]
    end: End

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.header, *self.entries, self.end

    @property
    def rounds(self) -> list[Round]:
        return [entry.round for entry in self.entries]


def trace_from_lines(lines: Iterable[Line | None]) -> Trace:
    """Collect the lines of one finished run into a trace, without None.

    A source may send the run again at its end, with more detail, so only the lines from the last header on count.
    """
    header: Header | None = None
    end: End | None = None
    entries: list[Entry] = []
    for line in lines:
        if isinstance(line, Header):
            header, end, entries = line, None, []
        elif isinstance(line, Entry):
            entries.append(line)
        elif line is not None:
            end = line
    if header is None or end is None:
        raise TraceError("A trace is a header, its rounds and an end; this run has not ended.")
    return Trace(header, tuple(entries), end)


def committed_ids(rounds: Iterable[Round]) -> list[int]:
    """Return the token ids of the text, in order."""
    return [token for round_ in rounds for token in round_.committed.tolist()]


def mean_length(tokens: int, rounds: int) -> float:
    """Return τ: the mean of tokens committed per round, root included (paper 001, section 9); 0 without a round."""
    return tokens / rounds if rounds else 0.0


def tau(rounds: Sequence[Round]) -> float:
    """Return τ of these rounds."""
    return mean_length(sum(len(round_.acceptance.keep) for round_ in rounds), len(rounds))


def known_tau(header: Header, rounds: Sequence[Round]) -> float | None:
    """Return τ of these rounds; None if the engine did not report rounds."""
    return None if header.chunked else tau(rounds)


def shared_rounds(trace: Trace) -> int:
    """Count the rounds that the run shared with others; their times are not those of the run alone."""
    return sum(WAIT in entry.round.seconds for entry in trace.entries)


def as_recording(trace: Trace, title: str, note: str, date: str) -> Trace:
    """Return the trace as a recording, with a title, a note on what it shows, and its ISO date."""
    return replace(trace, header=replace(trace.header, title=title, note=note, recorded=date))


def pieces_of(trace: Trace) -> dict[int, Piece]:
    """Return the text of every token in the trace."""
    pieces = dict(trace.header.pieces)
    for entry in trace.entries:
        pieces |= entry.pieces
    return pieces


class RunText:
    """The text of a run, built line by line. ``pieces``: the text of each committed token, in order."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.pieces: list[Piece] = []
        self._named: dict[int, Piece] = {}
        self._places: dict[int, int] = {}  # in ``pieces``, by position
        for line in lines:
            self.add(line)

    def add(self, line: Line) -> None:
        if not isinstance(line, End):
            self._named |= line.pieces
        if isinstance(line, Entry):
            for position, token in enumerate(line.round.committed.tolist(), line.round.start):
                self._places[position] = len(self.pieces)
                self.pieces.append(self._named.get(token, f"⟨{token}⟩"))
        if not isinstance(line, Header):
            for position in line.texts.keys() & self._places.keys():
                self.pieces[self._places[position]] = line.texts[position]

    def __str__(self) -> str:
        """Return the text so far; an incomplete character at its end reads as U+FFFD."""
        return join_pieces(self.pieces)


def token_text(pieces: Mapping[int, Piece], token: int) -> str:
    """Return a token's text; bytes of an incomplete character are written as ⟨e2⟩."""
    piece = pieces.get(token, f"⟨{token}⟩")
    return piece if isinstance(piece, str) else "".join(f"⟨{byte:02x}⟩" for byte in piece)


def join_tokens(pieces: Mapping[int, Piece], token_ids: Iterable[int]) -> str:
    """Join tokens to one text; characters may span several tokens."""
    return join_pieces(pieces.get(token, f"⟨{token}⟩") for token in token_ids)


ROUND_BYTES = 2_500  # of a round's records and small arrays
PROPOSAL_BYTES = 500  # of a lattice or a candidate
STAGE_BYTES = 100  # of a stage's time
NODE_BYTES = 16  # per node of a drafted tree
VERIFIED_BYTES = 24  # per verified node, an estimate: reading the verification may have to compute it first
CELL_BYTES = 12  # of a lattice
PIECE_BYTES = 100  # of a token's text besides its characters
TOKEN_BYTES = 40


def estimate_bytes(line: Line) -> int:
    """Estimate how many bytes of memory a line takes."""
    if isinstance(line, Entry):
        round_ = line.round
        nodes = sum(map(len, (round_.tree, *round_.candidates)))
        cells = sum(draft.tokens.size for draft in round_.drafts)
        records = PROPOSAL_BYTES * (len(round_.drafts) + len(round_.candidates)) + STAGE_BYTES * len(round_.seconds)
        if round_.alternatives:
            records += 2 * round_.alternatives.tokens.nbytes
        if round_.acceptance.trials:
            records += 3 * round_.acceptance.trials.nodes.nbytes
        return (ROUND_BYTES + records + NODE_BYTES * nodes + VERIFIED_BYTES * len(round_.tree) + CELL_BYTES * cells
                + _pieces_bytes(line.pieces) + _pieces_bytes(line.texts))
    if isinstance(line, Header):
        characters = len(line.prompt) + sum(len(text) for _, text in line.turns)
        return ROUND_BYTES + 4 * characters + TOKEN_BYTES * len(line.request.prompt_ids) + _pieces_bytes(line.pieces)
    return 0


def _pieces_bytes(pieces: Mapping[int, Piece]) -> int:
    return sum(PIECE_BYTES + 4 * len(piece) for piece in pieces.values())
