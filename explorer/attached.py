"""A running server in place of a rig: it answers prompts, and what it reports becomes rounds."""

from collections.abc import Generator, Iterator, Sequence
from time import perf_counter

from engine.decoding.methods import SERVED
from engine.errors import RequestError, ServerError
from engine.recorder import UNKNOWN_TOKEN
from engine.records import PromptRequest, Request
from engine.requests.rig_names import MODEL
from engine.servers.answer import AnswerReader, ServerStep, Token, chain_round, fits, steps_of_chunks, steps_of_report
from engine.servers.client import Client
from engine.servers.kind import ServerReport
from engine.servers.server import Server, open_server
from engine.trace import End, Entry, Header, Line
from explorer.recordings import NoInstruments
from explorer.rig import Source, Tell

MAX_AT_ONCE = 8  # runs of this page that a server answers; it has a line of its own
DRAFTER = "its drafter"
UNKNOWN_PIECE = "⟨?⟩"


class AttachedServer:
    """See ``Source``. It has one method: the one that the server was started with."""

    methods: Sequence[str] = (SERVED,)
    drafters = (DRAFTER,)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = f"{server.model} at {server.client.address}"
        self.hardware = server.title
        self.good_at = server.tells(server.trial)

    def usual_drafters(self, method: str) -> Sequence[str]:
        return self.drafters

    def prepare(self, ask: PromptRequest) -> "ServerRun":
        """See ``Source``."""
        if ask.method not in self.methods:
            raise RequestError(f"{self.name} runs what it was started with; choose the method {SERVED}.")
        return ServerRun(self, ask)

    def close(self) -> None:
        self.server.client.close()


class ServerRun:
    """One answer of a server, as it becomes rounds. The text's first token came from reading the prompt and is in no
    step."""

    share = 1 / MAX_AT_ONCE

    def __init__(self, source: AttachedServer, ask: PromptRequest) -> None:
        self._source, self._server, self._ask = source, source.server, ask
        self._reader = AnswerReader(ask.max_tokens)
        self._report: ServerReport | None = None
        self._text: list[Token] = []
        self._seconds: list[float] = []  # when each token arrived, after the first
        self._sizes: list[int] = []  # of every chunk, in tokens of its steps
        self._began = 0.0
        self._shown: list[ServerStep] = []
        # whether the rounds of a run that goes on stand for its chunks alone
        trial = self._server.trial
        self._guessed = not (self._server.kind.a_chunk_is_a_step or trial and trial.accepted)

    def lines(self) -> Generator[Line | None, None, None]:
        """See ``PreparedRun``. If the steps that the server reports at its end differ from its chunks, a second header
        begins the run again, with those steps."""
        try:
            yield from self._streamed()
        except ServerError:
            yield from self._entries(self._by_chunks()[len(self._shown):])
            raise
        if not self._text:
            raise RequestError(f"{self._source.name} wrote nothing; ask something else, or change the temperature.")
        yield from self._ending()

    def _streamed(self) -> Iterator[Line | None]:
        with self._server.answer(self._ask) as events:
            for event in events:
                if event is None:
                    yield None
                    continue
                tokens = self._reader.take(event)
                self._report = self._server.kind.report(event) or self._report
                if not tokens:
                    continue
                if not self._text:
                    yield self._header(self._server.trial, self._guessed)
                self._add(tokens)
                if not self._reader.finish:  # the last chunk waits for the report, which follows at once
                    yield from self._entries(steps_of_chunks(self._sizes[-1:], self._server.width))

    def _add(self, tokens: Sequence[Token]) -> None:
        now = perf_counter()
        self._began = self._began or now
        self._sizes.append(len(tokens) - (not self._text))
        self._text.extend(tokens)
        self._seconds.extend([now - self._began] * len(tokens))

    def _by_chunks(self) -> list[ServerStep]:
        return steps_of_chunks(self._sizes, self._server.width)

    def _ending(self) -> Iterator[Line]:
        reported = steps_of_report(self._sizes, self._report) if self._report else None
        steps = reported or self._by_chunks()
        chunked = not (reported or self._server.kind.a_chunk_is_a_step or fits(steps, self._report))
        if chunked and self._text[-1].piece:  # no stop token, so it belongs to the text, which a bonus token does not
            self._add([Token(UNKNOWN_TOKEN, UNKNOWN_PIECE)])
            steps = self._by_chunks()
        if steps[:len(self._shown)] != self._shown or chunked != self._guessed:
            yield self._header(self._report, chunked)
            self._shown = []
        yield from self._entries(steps[len(self._shown):])
        yield self._end(len(steps), chunked)

    def _entries(self, steps: Sequence[ServerStep]) -> Iterator[Line]:
        """The steps at the end of the text, which join those that were shown."""
        reached = len(self._text) - 1 - sum(step.written for step in steps)
        for step in steps:
            tokens = self._text[reached:reached + step.written + 1]
            round_ = chain_round(len(self._shown), len(self._reader.prompt_ids) + reached, tokens, step)
            reached += step.written
            self._shown.append(step)
            yield Entry(round_, {token.id: token.piece for token in tokens}, self._seconds[reached])

    def _header(self, report: ServerReport | None, chunked: bool) -> Header:
        ask, server = self._ask, self._server
        note = f"{server.tells(report)} Times are those at which the text arrived here."
        request = Request(self._reader.prompt_ids, method=SERVED, budget=report.width if report else 0,
                          max_tokens=ask.max_tokens, sampling=ask.sampling)
        return Header(
            request, ask.prompt, self._source.name, self._source.drafters, self._source.hardware, "",
            server.context_limit, {UNKNOWN_TOKEN: UNKNOWN_PIECE}, {server.kind.title: server.version}, turns=ask.turns,
            note=note, engine=server.title, chunked=chunked)

    def _end(self, rounds: int, chunked: bool) -> End:
        report = self._report or ServerReport("")
        reason = self._reader.finish if self._reader.finish in ("stop", "length") else "stop"
        known = chunked and report.tried is not None and report.kept is not None and report.kept < len(self._text)
        drafted, accepted = (report.tried or 0, report.kept or 0) if known else (0, 0)
        return End(reason, rounds, self._seconds[-1], said=report.sentence, drafted=drafted, accepted=accepted)


def server_of(source: Source) -> Server | None:
    """The server of a source; None if the source is a rig of this page."""
    return source.server if isinstance(source, AttachedServer) else None


def attach(address: str, tell: Tell, client: Client | None = None) -> NoInstruments:
    """The server at that address in a rig's place; ServerError says why it cannot be one."""
    client = client or Client(address)

    def look() -> None:
        tell(f"Asking {client.address} what it is …", None)

    look()
    source = AttachedServer(open_server(client, look))
    reason = (f"{source.good_at} In the lab the tab Server measures it; all other measurements need a rig that this "
              "page opened itself.")
    return NoInstruments(source, reason, f"{client.address}{MODEL}{client.model}" if client.model else client.address)
