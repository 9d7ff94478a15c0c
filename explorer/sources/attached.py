"""A running server in a rig's place: it answers prompts, and what it reported becomes rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from engine.errors import RequestError
from engine.methods import SERVED
from engine.recorder import UNKNOWN_TOKEN
from engine.records import Ask, Request
from engine.servers.answer import AnswerReader, Token
from engine.servers.client import Client
from engine.servers.report import Report
from engine.servers.rounds import chain_round, rounds_of
from engine.servers.server import Server, open_server
from engine.servers.steps import Step, steps_of_chunks, steps_of_report
from engine.trace import End, Entry, Header, Line, Piece
from explorer.rig import LoadedRig
from explorer.source import Source
from explorer.sources.answering import Tell
from explorer.sources.replay import NoInstruments

DRAFTER = "its drafter"
UNKNOWN_PIECE = "⟨?⟩"


@dataclass
class Written:
    """An answer as far as it has come: its tokens, and of every chunk how many and when they arrived."""

    text: list[Token] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # since the first token
    report: Report | None = None

    def add(self, tokens: Sequence[Token], now: float) -> None:
        """A chunk. The text's first token came from reading the prompt and is in no step."""
        self.sizes.append(len(tokens) - (not self.text))
        self.seconds.append(now)
        self.text.extend(tokens)

    def at(self, token: int) -> float:
        """When that token of the text arrived."""
        reached = 1
        for size, seconds in zip(self.sizes, self.seconds, strict=True):
            reached += size
            if reached > token:
                return seconds
        return self.seconds[-1]


class AttachedServer:
    """See ``explorer.source.Source``. One way to run: the one that the server was started with."""

    methods: Sequence[str] = (SERVED,)
    heads = (DRAFTER,)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.rig = f"{server.model} at {server.client.address}"
        self.hardware = server.title
        self.good_at = server.tells(server.trial)

    def usual_heads(self, method: str) -> Sequence[str]:
        """See ``explorer.source.Source``: the server has chosen."""
        return ()

    def run(self, ask: Ask) -> Iterator[Line]:
        """See ``explorer.source.Source``. A second header tells the run anew: by the steps that the server reported at
        its end, where these are others than its chunks."""
        if ask.method not in self.methods:
            raise RequestError(f"{self.rig} runs what it was started with; choose the method {SERVED}.")
        return self._lines(ask)

    def _lines(self, ask: Ask) -> Iterator[Line]:
        reader, written, shown = AnswerReader(), Written(), list[Step]()
        with self.server.answer(ask) as events:
            began = 0.0
            for event in events:
                tokens = reader.take(event)
                written.report = self.server.kind.report(event) or written.report
                if tokens:
                    began = began or perf_counter()
                    if not written.text:
                        yield self._header(ask, reader, self.server.trial)
                    yield from self._chunk(reader, written, tokens, perf_counter() - began, shown)
        if not written.text:
            raise RequestError(f"{self.rig} wrote nothing; ask something else, or change the temperature.")
        exact = steps_of_report(written.sizes, written.report) if written.report else None
        if exact is not None and exact != shown:
            yield from self._anew(ask, reader, written, exact)
        yield self._end(reader, written, exact or shown)

    def _chunk(self, reader: AnswerReader, written: Written, tokens: Sequence[Token], now: float,
               shown: list[Step]) -> Iterator[Line]:
        written.add(tokens, now)
        for step in steps_of_chunks(written.sizes[-1:], self.server.width):
            place = len(written.text) - step.written - 1
            made = chain_round(len(shown), len(reader.prompt_ids) + place, written.text[place:], step.drafted)
            shown.append(step)
            yield Entry(made, _pieces(written.text[place:]), now)

    def _anew(self, ask: Ask, reader: AnswerReader, written: Written, steps: Sequence[Step]) -> Iterator[Line]:
        yield self._header(ask, reader, written.report)
        reached = 0
        for made, step in zip(rounds_of(len(reader.prompt_ids), written.text, steps), steps, strict=True):
            tokens = written.text[reached:reached + step.written + 1]
            reached += step.written
            yield Entry(made, _pieces(tokens), written.at(reached))

    def _header(self, ask: Ask, reader: AnswerReader, report: Report | None) -> Header:
        note = f"{self.server.tells(report)} Times are those at which the text arrived here."
        request = Request(reader.prompt_ids, SERVED, report.width if report else 0, ask.max_tokens, ask.sampling)
        return Header(
            request, ask.prompt, self.rig, self.heads, self.hardware, "", self.server.context_limit,
            {UNKNOWN_TOKEN: UNKNOWN_PIECE}, {self.server.kind.title: self.server.version}, turns=ask.turns,
            note=note, engine=self.server.title)

    def _end(self, reader: AnswerReader, written: Written, steps: Sequence[Step]) -> End:
        said = written.report.said if written.report else ""
        reason = reader.finish if reader.finish in ("stop", "length") else "stop"
        return End(reason, len(steps), written.seconds[-1], said=said)

    def close(self) -> None:
        """See ``explorer.source.Source``."""
        self.server.client.close()


def _pieces(tokens: Sequence[Token]) -> dict[int, Piece]:
    return {token.id: token.piece for token in tokens}


def server_of(source: Source) -> Server | None:
    """The server behind a source; None where it is a rig of this page's own."""
    return source.server if isinstance(source, AttachedServer) else None


def attach(address: str, tell: Tell, client: Client | None = None) -> LoadedRig:
    """The server at that address as a rig; ServerError or RigError says why it cannot be one."""
    client = client or Client(address)
    tell(f"Asking {client.address} what it is …", None)
    source = AttachedServer(open_server(client))
    reason = (f"{source.good_at} In the lab the tab Server measures it; all other measurements need a rig that this "
              "page opened itself.")
    return LoadedRig(source, NoInstruments(source, reason, client.address))
