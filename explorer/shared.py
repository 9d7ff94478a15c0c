"""Shared runs: a folder of trace files under names that nobody guesses, which stay until somebody deletes them."""

import gzip
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

from engine.errors import FileError, RequestError, TraceError
from engine.machine.files import cause_of, replace_file
from engine.recorder import MAX_NOTE_LENGTH
from engine.requests.limits import shown
from engine.trace import Trace, dumps, encode_record, load, loads
from explorer.claims import PlainComparison
from explorer.runs import RunLog, Runs

MAX_SHARED_RUNS, MAX_SHARED_BYTES = 500, 2**30
MAX_FILE_BYTES = 32 * 2**20  # so that it can be opened again as a file
MAX_LENGTHS = {"title": 120, "comment": 500}
NAME = re.compile(r"shared-[0-9a-f]{32}")
# in comparisons that earlier versions wrote
LEGACY_WORDS = ((b'"standing": ', b'"outcome": '), (b': "alike"', b': "similar"'), (b': "cut"', b': "interrupted"'))
INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]+")  # or turning text


def with_words(trace: Trace, query: Mapping[str, Any]) -> Trace:
    """Return the trace with the ``title`` and ``comment`` that somebody gave it; RequestError if they are too long."""
    words = {}
    for name, maximum in MAX_LENGTHS.items():
        text = str(query.get(name) or "")
        if len(text) > maximum:
            raise RequestError(f"The {name} {shown(text)} has {len(text):,} characters; it may have {maximum} at most.")
        words[name] = " ".join(INVISIBLE.sub(" ", text).split())
    header = trace.header
    note = " ".join(filter(None, [words["comment"], header.note]))[:MAX_NOTE_LENGTH]
    return replace(trace, header=replace(header, title=words["title"] or header.title, note=note))


class SharedRuns:
    """The shared runs of a folder, which is made if there is none. FileError if that is not possible."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded = Runs()
        self._lock = Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"Shared runs cannot be kept in {folder}: {cause_of(error)}; name another folder with "
                            "--shared.") from error

    def keep(self, trace: Trace, comparison: PlainComparison | None) -> str:
        """Keep a run and return its name. RequestError if there is no room, or if it could not be opened again."""
        header = trace.header
        data = gzip.compress(dumps(replace(trace, header=replace(
            header, recorded=header.recorded or date.today().isoformat()))), mtime=0)
        if len(data) > MAX_FILE_BYTES:
            raise RequestError(f"The run has {len(data) >> 20} MiB, and a shared one may have at most "
                               f"{MAX_FILE_BYTES >> 20}; ask for fewer tokens or a smaller node budget.")
        name = f"shared-{token_hex(16)}"
        try:
            run = RunLog.recorded(name, loads(data, "The run"), comparison)
        except TraceError as error:
            raise RequestError(f"The run cannot be shared: {str(error).rstrip('.')}; ask for fewer tokens or a "
                               "smaller node budget.") from error
        with self._lock:
            sizes = []
            for path in self._folder.glob("shared-*.jsonl.gz"):
                with suppress(OSError):  # deleted meanwhile, or a link that leads nowhere
                    sizes.append(path.stat().st_size)
            if len(sizes) >= MAX_SHARED_RUNS or sum(sizes) + len(data) > MAX_SHARED_BYTES:
                raise RequestError(f"This server keeps up to {MAX_SHARED_RUNS} shared runs in {MAX_SHARED_BYTES >> 20} "
                                   "MiB, and has no room for another; delete one, or share the run as one file.")
            self._loaded.store(run)
            try:
                replace_file(self._trace(name), data)
                replace_file(self._measured(name), json.dumps(comparison and encode_record(comparison)).encode())
            except FileError as error:
                with suppress(RequestError):
                    self.delete(name)
                raise RequestError(f"The run could not be kept on this server: {str(error).rstrip('.')}; share it as "
                                   "one file, or ask whoever runs the server to make room.") from error
        return name

    def find(self, name: str) -> RunLog | None:
        """Return a shared run; None for a name of another form, RequestError if it was deleted or is damaged."""
        if not NAME.fullmatch(name):
            return None
        run = self._loaded.get(name)
        if not self._trace(name).is_file():
            raise RequestError("This shared run was deleted; ask whoever sent you the link.")
        if run is None:
            run = RunLog.recorded(name, load(self._trace(name)), self._comparison(name))
            self._loaded.store(run)
        return run

    def delete(self, name: str) -> None:
        """Delete the run of that name, if there is one. RequestError if that is not possible."""
        if not NAME.fullmatch(name):
            return
        self._loaded.remove(name)
        try:
            for path in (self._trace(name), self._measured(name)):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise RequestError(f"The shared run cannot be deleted: {cause_of(error)}; ask whoever runs the "
                               "server.") from error

    def _comparison(self, name: str) -> PlainComparison | None:
        from pydantic import TypeAdapter  # noqa: PLC0415 - the first page does without

        try:
            written = self._measured(name).read_bytes()
            for legacy, current in LEGACY_WORDS:
                written = written.replace(legacy, current)
            return TypeAdapter(PlainComparison | None).validate_json(written)
        except (OSError, ValueError):
            return None

    def _trace(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl.gz"

    def _measured(self, name: str) -> Path:
        return self._folder / f"{name}.json"
