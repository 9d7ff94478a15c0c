"""What the page and other programs may ask of the server besides the stage's own stream."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import gradio as gr
from gradio.events import api

from engine.errors import CanopyError, RequestError, TraceError
from engine.trace import Trace, committed_ids, dumps, loads, tau
from explorer.asking import Form, ask_from
from explorer.lessons import Library
from explorer.runs import Runs, Stream, known_trace
from explorer.share import export, joined, pieces_of
from explorer.view import View

LARGEST_UPLOAD = 32 * 2**20  # bytes of a trace file
LARGEST_TRACE = 256 * 2**20  # bytes of it unpacked


def spoken(name: str, ask: Callable[[Any], View]) -> Callable[[Any], View]:
    """For the browser, which calls it by ``name``: a failure comes back as its sentence."""
    def answer(wanted: Any) -> View:
        try:
            return ask(wanted)
        except CanopyError as error:
            return {"error": str(error)}
    answer.__name__ = name
    return answer


@contextmanager
def _refusal() -> Iterator[None]:
    """For other programs: a failure comes back as an error with its sentence."""
    try:
        yield
    except CanopyError as error:
        raise gr.Error(str(error), print_exception=False) from error


def _inflated(data: bytes, name: str) -> bytes:
    """The file without its gzip, where that can be read and stays within bounds; else as it is, to be refused."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    with suppress(OSError, EOFError, zlib.error), gzip.open(io.BytesIO(data)) as file:
        text = file.read(LARGEST_TRACE + 1)
        if len(text) > LARGEST_TRACE:
            raise TraceError(
                f"{name} unpacks to more than {LARGEST_TRACE // 2**20} MiB, which is the most that is taken.")
        return text
    return data


def _form(prompt: str, method: str, budget: int, temperature: float, options: dict[str, Any]) -> Form:
    known = {"max_tokens", "seed", "top_k", "top_p", "split", "pace", "heads", "turns"}
    if unknown := set(options) - known:
        raise RequestError(f"There is no option {min(unknown)!r}; choose from {', '.join(sorted(known))}.")
    return Form(prompt, method, budget, temperature=temperature, **options)


def summary(view: View, runs: Runs) -> View:
    """A stage value for programs: the text and its token ids so far, without the trees."""
    trace = runs.trace(view["run"])
    rounds = [entry.round for entry in trace.entries][:view["from"] + len(view["rounds"])] if trace else []
    token_ids = committed_ids(rounds)
    return {"run": view["run"], "state": view["state"], "message": view["message"], "rounds": len(rounds),
            "tau": tau(rounds), "token_ids": token_ids, "text": joined(pieces_of(trace), token_ids) if trace else ""}


class Service:
    """Recordings and remembered runs by name, for the browser and as named endpoints."""

    def __init__(self, library: Library, runs: Runs, stream: Stream) -> None:
        self._library = library
        self._runs = runs
        self._stream = stream
        self.replay = spoken("replay", self.view_of)
        self.open_trace = spoken("open_trace", self.opened)
        self.export = spoken("export", self.exported)

    def trace_of(self, name: str) -> Trace:
        """The recording or the remembered run of that name."""
        if name in self._library.lessons:
            return self._library.lessons[name].trace
        return known_trace(str(name), self._runs)

    def view_of(self, name: str) -> View:
        """The stage value of a recording or of a remembered run."""
        return self._library.with_baseline(str(name), self.trace_of(str(name)))

    def opened(self, upload: dict[str, str]) -> View:
        """The stage value of a trace file: {"name", "data": its bytes as base64}. It is remembered like a run."""
        name, data = str(upload.get("name", "the file"))[:80], str(upload.get("data", ""))
        if len(data) * 3 // 4 > LARGEST_UPLOAD:
            raise TraceError(f"{name} is larger than {LARGEST_UPLOAD // 2**20} MiB, which is the most that is taken.")
        try:
            trace = loads(_inflated(base64.b64decode(data, validate=True), name), name)
        except binascii.Error as error:
            raise TraceError(f"{name} did not arrive whole; open it again.") from error
        run = uuid4().hex[:12]
        self._runs.begin(run).extend((trace.header, *trace.entries, trace.end))
        return self.view_of(run)

    def exported(self, wanted: dict[str, Any]) -> View:
        """A file of a run: {"kind", "run", "round": from 0} gives {"name", "media", "data": base64}."""
        run = str(wanted.get("run", ""))
        return export(str(wanted.get("kind")), run, self.trace_of(run), int(wanted.get("round", 0))).as_json()

    def publish(self) -> None:
        """Declare the named endpoints of the page that is being built."""
        api(self._generate, api_name="generate", concurrency_id="engine")
        api(self._lessons, api_name="lessons")
        api(self._replay, api_name="replay")
        api(self._trace, api_name="trace")

    def _generate(
        self, prompt: str, method: str = "ddtree", budget: int = 64, temperature: float = 0.0,
        options: dict | None = None,  # type: ignore[type-arg]
    ) -> Iterator[dict]:  # type: ignore[type-arg]
        """Run a prompt. Yields {run, state, message, text, token_ids, rounds, tau} as rounds are made. ``options``
        may hold max_tokens, seed, top_k, top_p, split, pace, heads (names of the rig's) and turns (the conversation
        before the prompt, each [role, text] or {role, content})."""
        with _refusal():
            for view in self._stream.watch(ask_from(_form(prompt, method, budget, temperature, options or {}))):
                if view["state"] == "error":
                    raise RequestError(view["message"])
                yield summary(view, self._runs)

    def _lessons(self) -> list[dict]:  # type: ignore[type-arg]
        """The recordings: name, title, note, method, budget, rounds, tau, tokens_per_second, recorded."""
        return self._library.summaries()

    def _replay(self, name: str) -> dict:  # type: ignore[type-arg]
        """The stage value of a recording or run: header, rounds, end; arrays are {dtype, shape, data: base64}."""
        with _refusal():
            return self.view_of(name)

    def _trace(self, name: str) -> str:
        """The trace file of a recording or run, as JSON lines."""
        with _refusal():
            return dumps(self.trace_of(name)).decode()
