"""Server functions and named endpoints for recordings and runs, besides streaming. Long results are paginated."""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import gradio as gr
from gradio.events import api

from engine.decoding.options import prompt_request
from engine.errors import CanopyError, RequestError, TraceError
from engine.records import MAX_TOKENS, PromptRequest
from engine.requests.admission import MAX_PENDING_RUNS
from engine.requests.limits import check_int
from engine.trace import RunText, Trace, committed_ids, encode_line, encode_record, known_tau, loads
from explorer.browser_calls import Call, browser_call, named_fields
from explorer.claims import PlainComparison
from explorer.export import export
from explorer.follow import Follow
from explorer.recordings import Library, RecordingSummary
from explorer.runs import RunLog, Runner, Runs
from explorer.security.clients import Requester, current_requester
from explorer.shared import SharedRuns, with_words
from explorer.uploads import Uploads

FILE_PREFIX = "file-"  # starts the id of every run that was opened from a file
NO_DATE = "in a file"  # the date of a file that has none
MAX_UPLOAD_BYTES = 32 * 2**20
MAX_ADDRESS_LENGTH = 1000  # characters
MAX_ANSWER_BYTES = 2 * 2**20  # a longer trace file comes in pieces
LISTENER_TIMEOUT_SECONDS = 30.0  # a program's run that nobody read for longer ends


class Endpoints:
    """Recordings and remembered runs by name, for the browser and as named endpoints."""

    def __init__(self, library: Library, runs: Runs, runner: Runner, follow: Follow | None = None,
                 shared: SharedRuns | None = None) -> None:
        self._library, self._runs, self._runner, self._follow, self._shared = library, runs, runner, follow, shared
        self._uploads = Uploads(MAX_UPLOAD_BYTES)

    def functions(self) -> list[Call]:
        """Return the functions that the browser calls by name."""
        return [browser_call("upload", self._uploads.receive), browser_call("open_trace", self._open_file),
                browser_call("export", self._export), browser_call("share", self._share),
                browser_call("unshare", self._unshare)]

    def run_of(self, name: str) -> RunLog:
        """Return a recording, a shared run, a followed file as far as it is written, or a run of this server. An opened
        file is shown as a recording. Raises RequestError if there is none of that name."""
        if shared := self._shared and self._shared.find(name):
            return shared
        if name in self._library.recordings:
            return RunLog.recorded(name, self._library.recordings[name].trace, self._library.comparison(name))
        followed = self._follow.trace(name) if self._follow else None
        if followed or name.startswith(FILE_PREFIX):
            trace = followed or self._runs.trace(name)
            date = trace.header.recorded or ("" if followed else NO_DATE)
            return RunLog.recorded(name, replace(trace, header=replace(trace.header, recorded=date)))
        return self._runs.find(name)

    def trace_of(self, name: str) -> Trace:
        if name in self._library.recordings:
            return self._library.recordings[name].trace
        shared = self._shared and self._shared.find(name)
        followed = self._follow.trace(name) if self._follow else None
        return (shared and shared.trace()) or followed or self._runs.trace(name)

    def speed_of(self, name: str) -> dict[str, Any]:
        """Return the run's measured speed-up (``claims.PrintedSpeed``) as a dict; empty if it was not measured."""
        run = self._runs.get(name) or (self._shared and self._shared.find(name))
        compared = run.about.get("comparison") if run else self._library.comparison(name)
        return {} if compared is None or compared.state == "measuring" else encode_record(compared.speed)

    def _open_file(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Store a trace file as a run: {"name", and what ``Uploads.collect`` takes} gives {"run": its name}."""
        name, file = str(query.get("name", "the file"))[:80], self._uploads.collect(query)
        trace, run = loads(file, name), FILE_PREFIX + uuid4().hex[:12]
        if not trace.entries:
            raise TraceError(f"{name} has an end and no round; nothing of it can be shown.")
        self._runs.store(RunLog.recorded(run, trace))
        gc.freeze()  # exempt the trace from garbage collection: scanning its millions of objects stalls every request
        return {"run": run}

    def _export(self, query: Mapping[str, Any]) -> bytes:
        """Export a run: {"kind", "run", "round": from 0, and for a replay page "title", "comment" and "view"} gives
        {"name", "media", "data": base64} as JSON."""
        number, (trace, comparison) = check_int("The round", query.get("round", 0), 0, MAX_TOKENS), self._worded(query)
        run = RunLog.recorded(str(query.get("run")), trace, comparison)  # without the runs that shared its rounds
        view = str(query.get("view") or "")[:MAX_ADDRESS_LENGTH]
        return export(str(query.get("kind"))[:40], run, number, view).as_json()

    def _share(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Share a run: {"run", "title", "comment"} gives {"run": its name}. Anybody with the name may open and delete
        it."""
        if self._shared is None:
            raise RequestError("This server keeps no shared runs; whoever runs it can start it with --shared DIR.")
        return {"run": self._shared.keep(*self._worded(query))}

    def _unshare(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Delete a shared run: {"run"}."""
        if self._shared:
            self._shared.delete(str(query.get("run")))
        return {}

    def _worded(self, query: Mapping[str, Any]) -> tuple[Trace, PlainComparison | None]:
        """Return a run with the title and comment that somebody gives it, and its comparison with plain decoding."""
        name = str(query.get("run"))
        return with_words(self.trace_of(name), query), self.run_of(name).about.get("comparison")

    def publish(self) -> None:
        """Declare the named endpoints for other programs, while the page is being built."""
        api(self._generate, api_name="generate", concurrency_id="engine", concurrency_limit=MAX_PENDING_RUNS)
        api(self._recordings, api_name="recordings")
        api(self._recordings, api_name="lessons")  # its former name
        api(self._trace, api_name="trace")

    def _generate(
        self, prompt: str, method: str | None = None, budget: int | None = None, temperature: float = 0.0,
        options: dict[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Run a prompt, with the rig's own method and node budget if none are named. Yields {run, state, message,
        text, token_ids, rounds, tau} as rounds are made. ``options`` may hold any other option of a run
        (``records.PromptRequest``): drafters are names of the rig's, turns the conversation before the prompt, each
        [role, text] or {role, content}."""
        with _refusal():
            arguments = {"method": method or None, "budget": budget, "temperature": temperature}
            fields = {**self._runner.default_setting(),
                     **{name: value for name, value in arguments.items() if value is not None},
                     **named_fields(options or {}), "prompt": prompt}
            yield from self._summaries(prompt_request(fields, page=True), current_requester())

    def _summaries(self, request: PromptRequest, requester: Requester) -> Iterator[dict[str, Any]]:
        run = self._runner.start(request, requester.address, requester.cache_key)
        sent, connected_at = None, monotonic()
        try:
            with run.reading():
                while True:
                    ended, progress = run.ended, (len(run.lines), run.state_line)
                    if requester.is_connected():
                        connected_at = monotonic()
                    elif monotonic() - connected_at > LISTENER_TIMEOUT_SECONDS:
                        raise RequestError("The client disconnected, so the run was stopped; send the request again.")
                    if run.state_line["state"] == "error":
                        raise RequestError(run.state_line["message"])
                    if progress != sent:
                        sent = progress
                        yield summary(run)
                    if ended:
                        return
                    sleep(self._runner.pause())
        finally:
            run.stop()

    def _recordings(self) -> list[RecordingSummary]:
        """Return the recordings: name, title, note, method, budget, rounds, tau, tokens_per_second, recorded."""
        return self._library.summaries()

    def _trace(self, name: str, first: int = 0) -> str:
        """Return the trace file of a recording or run, as JSON lines, from line ``first`` (from 0) on. A long one comes
        in pieces; the last line of the last piece begins with {"end"."""
        with _refusal():
            return trace_lines(self.trace_of(str(name)), check_int("The first line", first, 0, MAX_TOKENS))


@contextmanager
def _refusal() -> Iterator[None]:
    """Raise errors as Gradio's, so that other programs get the message."""
    try:
        yield
    except CanopyError as error:
        raise gr.Error(str(error), print_exception=False) from error


def summary(run: RunLog) -> dict[str, Any]:
    """Return a run's state, text and token ids so far, without trees."""
    trace = run.trace()
    rounds = trace.rounds if trace else []
    return {**run.state_line, "rounds": len(rounds), "tau": known_tau(trace.header, rounds) if trace else 0.0,
            "token_ids": committed_ids(rounds), "text": str(RunText(trace.lines[:-1])) if trace else ""}


def trace_lines(trace: Trace, first: int) -> str:
    """Return the lines of a trace file from line ``first`` on, up to ``MAX_ANSWER_BYTES``."""
    lines, size = list[str](), 0
    for line in islice(trace.lines, first, None):
        lines.append(json.dumps(encode_line(line), separators=(",", ":")) + "\n")
        size += len(lines[-1])
        if size > MAX_ANSWER_BYTES:
            return "".join(lines[:-1] or lines)
    return "".join(lines)
