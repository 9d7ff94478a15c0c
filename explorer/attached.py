"""A running server in place of a rig: it answers prompts, and what it reports becomes rounds."""

from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter

from engine.decoding.methods import SERVED
from engine.errors import RequestError, ServerError
from engine.machine.progress import ReportProgress
from engine.recorder import UNKNOWN_TOKEN
from engine.records import PromptRequest, Request
from engine.requests.rig_names import MODEL_MARK
from engine.servers.answer import Answer, ServerReport, Token
from engine.servers.client import Client
from engine.servers.server import Server, open_server
from engine.servers.steps import ServerStep, chain_round, steps_of_chunks, steps_of_report
from engine.trace import End, Entry, Header, Line
from explorer.recordings import NoInstruments
from explorer.rig import Source

MAX_CONCURRENT_RUNS = 8  # of this page; the server has a queue of its own
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
        self.good_at = server.describe(server.trial)

    def default_drafters(self, method: str) -> Sequence[str]:
        return self.drafters

    def prepare(self, request: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                cache_key: str | None = "") -> "ServerRun":
        """See ``Source``."""
        if request.method not in self.methods:
            raise RequestError(f"{self.name} runs what it was started with; choose the method {SERVED}.")
        return ServerRun(self, request)

    def close(self) -> None:
        self.server.client.close()


class ServerRun:
    """One answer of a server, as it becomes rounds. The text's first token came from reading the prompt and is in no
    step."""

    share = 1 / MAX_CONCURRENT_RUNS

    def __init__(self, source: AttachedServer, request: PromptRequest) -> None:
        self._source, self._server, self._request = source, source.server, request
        self._answer = Answer(self._server.kind, request.max_tokens)
        self._text: list[Token] = []
        self._seconds: list[float] = []  # when each token arrived, after the first
        self._sizes: list[int] = []  # of every chunk, in tokens of its steps
        self._began = 0.0
        self._shown: list[ServerStep] = []

    def lines(self) -> Generator[Line | None, None, None]:
        """See ``PendingRun``. If the steps that the server reports at its end differ from its chunks, a second header
        begins the run again, with those steps."""
        server, answer = self._server, self._answer
        # until the report comes, chunks are shown as rounds, and called chunks unless they are known to be steps
        chunked = not (server.kind.chunk_is_step or server.trial and server.trial.accepted_per_step)
        try:
            with server.answer(self._request) as events:
                for tokens in answer.chunks(events):
                    if tokens is None:
                        yield None
                    if not tokens:
                        continue
                    if not self._text:
                        yield self._header(server.trial, chunked)
                    self._add(tokens)
                    if not answer.finish:  # the last chunk waits for the report, which follows at once
                        yield from self._entries(steps_of_chunks(self._sizes[-1:], server.width))
        except ServerError:
            yield from self._entries(steps_of_chunks(self._sizes, server.width)[len(self._shown):])
            raise
        if not self._text:
            raise RequestError(f"{self._source.name} wrote nothing; ask something else, or change the temperature.")
        yield from self._ending(chunked)

    def _ending(self, was_chunked: bool) -> Iterator[Line]:
        """Yield the steps that the final report adds, or restart with all of them if it contradicts earlier ones, then
        the end."""
        server, report = self._server, self._answer.report or ServerReport()
        reported = steps_of_report(self._sizes, report)
        steps = reported or steps_of_chunks(self._sizes, server.width)
        sums = len(steps), sum(step.written - 1 for step in steps)
        chunked = not (reported or server.kind.chunk_is_step or (report.steps, report.total_accepted) == sums)
        if chunked and self._text[-1].piece:  # no stop token, so it belongs to the text, which a bonus token does not
            self._add([Token(UNKNOWN_TOKEN, UNKNOWN_PIECE)])
            steps = steps_of_chunks(self._sizes, server.width)
        if steps[:len(self._shown)] != self._shown or chunked != was_chunked:
            yield self._header(self._answer.report, chunked)
            self._shown = []
        yield from self._entries(steps[len(self._shown):])
        note = report.sentence(server.kind.title) if self._answer.report else ""
        drafted, accepted = report.total_drafted, report.total_accepted
        if not chunked or drafted is None or accepted is None or accepted >= len(self._text):
            drafted = accepted = 0
        yield End("length" if self._answer.finish == "length" else "stop", len(steps), self._seconds[-1], note=note,
                  drafted=drafted, accepted=accepted)

    def _add(self, tokens: Sequence[Token]) -> None:
        now = perf_counter()
        self._began = self._began or now
        self._sizes.append(len(tokens) - (not self._text))
        self._text.extend(tokens)
        self._seconds.extend([now - self._began] * len(tokens))

    def _entries(self, steps: Sequence[ServerStep]) -> Iterator[Line]:
        """Yield these steps, the last ones of the text, as rounds after the shown ones."""
        reached = len(self._text) - 1 - sum(step.written for step in steps)
        for step in steps:
            tokens = self._text[reached:reached + step.written + 1]
            round_ = chain_round(len(self._shown), len(self._answer.prompt_ids) + reached, tokens, step)
            reached += step.written
            self._shown.append(step)
            yield Entry(round_, {token.id: token.piece for token in tokens}, self._seconds[reached])

    def _header(self, report: ServerReport | None, chunked: bool) -> Header:
        prompt_request, server = self._request, self._server
        request = Request(self._answer.prompt_ids, method=SERVED, budget=report.width if report else 0,
                          max_tokens=prompt_request.max_tokens, sampling=prompt_request.sampling)
        return Header(
            request, prompt_request.prompt, self._source.name, self._source.drafters, self._source.hardware, "",
            server.context_limit, {UNKNOWN_TOKEN: UNKNOWN_PIECE}, {server.kind.title: server.version},
            turns=prompt_request.turns, engine=server.title, chunked=chunked,
            note=f"{server.describe(report)} Times are those at which the text arrived here.")


def server_of(source: Source) -> Server | None:
    """Return the server of a source; None if the source is a rig of this page."""
    return source.server if isinstance(source, AttachedServer) else None


def attach(address: str, report: ReportProgress, client: Client | None = None) -> NoInstruments:
    """Attach the server at an address in a rig's place; ServerError if it cannot be one."""
    client = client or Client(address)

    def report_progress() -> None:
        report(f"Asking {client.address} what it is …", None)

    report_progress()
    source = AttachedServer(open_server(client, report_progress))
    reason = (f"{source.good_at} In the lab the tab Load measures it; all other measurements need a rig that this "
              "page opened itself.")
    model = f"{MODEL_MARK}{client.model}" if client.model else ""
    return NoInstruments(source, reason, f"{client.address}{model}")
