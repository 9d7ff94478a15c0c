"""A running server in place of a rig: it answers prompts, and what it reports becomes rounds."""

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from engine.decoding.methods import SERVED
from engine.errors import RequestError, ServerError
from engine.recorder import UNKNOWN_TOKEN
from engine.records import PromptRequest, Request
from engine.servers.answer import AnswerReader, ServerStep, Token, chain_round, fits, steps_of_chunks, steps_of_report
from engine.servers.client import Client
from engine.servers.kind import ServerReport
from engine.servers.server import Server, open_server
from engine.trace import End, Entry, Header, Line
from explorer.recordings import NoInstruments
from explorer.rig import Source, Tell

MOST_AT_ONCE = 8  # runs of this page that a server answers
DRAFTER = "its drafter"
UNKNOWN_PIECE = "⟨?⟩"


@dataclass
class Written:
    """An answer so far: its tokens, and for every chunk how many tokens it brought and when, in seconds since the first
    chunk. The text's first token came from reading the prompt and is in no step."""

    text: list[Token] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    report: ServerReport | None = None
    _began: float = 0.0
    _ends: list[int] = field(default_factory=list)  # the place of each chunk's last token
    _seconds: list[float] = field(default_factory=list)

    def add(self, tokens: Sequence[Token]) -> None:
        """A chunk that has just arrived, or nothing."""
        if not tokens:
            return
        now = perf_counter()
        self._began = self._began or now
        self.sizes.append(len(tokens) - (not self.text))
        self.text.extend(tokens)
        self._ends.append(len(self.text) - 1)
        self._seconds.append(now - self._began)

    def at(self, token: int) -> float:
        """When that token of the text arrived."""
        return self._seconds[bisect_left(self._ends, token)]


class AttachedServer:
    """See ``Source``. It has one method: the one that the server was started with."""

    methods: Sequence[str] = (SERVED,)
    drafters = (DRAFTER,)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.rig = f"{server.model} at {server.client.address}"
        self.hardware = server.title
        self.good_at = server.tells(server.trial)

    def usual_drafters(self, method: str) -> Sequence[str]:
        """See ``Source``: the server has chosen."""
        return self.drafters

    def share(self, ask: PromptRequest) -> float:
        """See ``Source``: how many fit is for the server to say, and it has a line of its own."""
        return 1 / MOST_AT_ONCE

    def run(self, ask: PromptRequest) -> Generator[Line | None, None, None]:
        """See ``Source``. Where the steps that the server reports at its end differ from its chunks, a
        second header begins the run again, with those steps."""
        if ask.method not in self.methods:
            raise RequestError(f"{self.rig} runs what it was started with; choose the method {SERVED}.")
        return self._lines(ask)

    def _lines(self, ask: PromptRequest) -> Generator[Line | None, None, None]:
        reader, written, shown = AnswerReader(ask.max_tokens), Written(), list[ServerStep]()
        try:
            yield from self._streamed(ask, reader, written, shown)
        except ServerError:
            yield from self._entries(reader, written, shown, self._by_chunks(written)[len(shown):])
            raise
        if not written.text:
            raise RequestError(f"{self.rig} wrote nothing; ask something else, or change the temperature.")
        yield from self._ending(ask, reader, written, shown)

    def _streamed(self, ask: PromptRequest, reader: AnswerReader, written: Written,
                  shown: list[ServerStep]) -> Iterator[Line | None]:
        with self.server.answer(ask) as events:
            for event in events:
                if event is None:
                    yield None
                    continue
                tokens = reader.take(event)
                written.report = self.server.kind.report(event) or written.report
                if tokens and not written.text:
                    yield self._header(ask, reader, self.server.trial, self._guessed())
                written.add(tokens)
                if tokens and not reader.finish:  # the last chunk waits for the report, which follows at once
                    steps = steps_of_chunks(written.sizes[-1:], self.server.width)
                    yield from self._entries(reader, written, shown, steps)

    def _by_chunks(self, written: Written) -> list[ServerStep]:
        return steps_of_chunks(written.sizes, self.server.width)

    def _ending(self, ask: PromptRequest, reader: AnswerReader, written: Written,
                shown: list[ServerStep]) -> Iterator[Line]:
        told = steps_of_report(written.sizes, written.report) if written.report else None
        steps = told or self._by_chunks(written)
        chunked = not (told or self.server.kind.a_chunk_is_a_step or fits(steps, written.report))
        if chunked and written.text[-1].piece:  # no stop token, so it belongs to the text, which a bonus token does not
            written.add([Token(UNKNOWN_TOKEN, UNKNOWN_PIECE)])
            steps = self._by_chunks(written)
        if steps[:len(shown)] != shown or chunked != self._guessed():
            yield self._header(ask, reader, written.report, chunked)
            shown = []
        yield from self._entries(reader, written, shown, steps[len(shown):])
        yield self._end(reader, written, len(steps), chunked)

    def _guessed(self) -> bool:
        """Whether the rounds of a run that goes on stand for its chunks alone."""
        trial = self.server.trial
        return not (self.server.kind.a_chunk_is_a_step or trial and trial.accepted)

    def _entries(self, reader: AnswerReader, written: Written, shown: list[ServerStep],
                 steps: Sequence[ServerStep]) -> Iterator[Line]:
        """The steps at the end of the text, which join those that were shown."""
        reached = len(written.text) - 1 - sum(step.written for step in steps)
        for step in steps:
            tokens = written.text[reached:reached + step.written + 1]
            round_ = chain_round(len(shown), len(reader.prompt_ids) + reached, tokens, step)
            reached += step.written
            shown.append(step)
            yield Entry(round_, {token.id: token.piece for token in tokens}, written.at(reached))

    def _header(self, ask: PromptRequest, reader: AnswerReader, report: ServerReport | None, chunked: bool) -> Header:
        note = f"{self.server.tells(report)} Times are those at which the text arrived here."
        request = Request(reader.prompt_ids, method=SERVED, budget=report.width if report else 0,
                          max_tokens=ask.max_tokens, sampling=ask.sampling)
        return Header(
            request, ask.prompt, self.rig, self.drafters, self.hardware, "", self.server.context_limit,
            {UNKNOWN_TOKEN: UNKNOWN_PIECE}, {self.server.kind.title: self.server.version}, turns=ask.turns,
            note=note, engine=self.server.title, chunked=chunked)

    def _end(self, reader: AnswerReader, written: Written, rounds: int, chunked: bool) -> End:
        report = written.report or ServerReport("")
        reason = reader.finish if reader.finish in ("stop", "length") else "stop"
        known = chunked and report.tried is not None and report.kept is not None and report.kept < len(written.text)
        totals = {"drafted": report.tried or 0, "accepted": report.kept or 0} if known else {}
        return End(reason, rounds, written.at(len(written.text) - 1), said=report.said, **totals)

    def close(self) -> None:
        self.server.client.close()


def server_of(source: Source) -> Server | None:
    """The server of a source; None where the source is a rig of this page."""
    return source.server if isinstance(source, AttachedServer) else None


def attach(address: str, tell: Tell, client: Client | None = None) -> NoInstruments:
    """The server at that address as a rig; ServerError or RigError says why it cannot be one."""
    client = client or Client(address)

    def look() -> None:
        tell(f"Asking {client.address} what it is …", None)

    look()
    source = AttachedServer(open_server(client, look))
    reason = (f"{source.good_at} In the lab the tab Server measures it; all other measurements need a rig that this "
              "page opened itself.")
    return NoInstruments(source, reason, client.address)
