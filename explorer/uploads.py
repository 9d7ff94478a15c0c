"""Receives files in pieces, one per request, so that no request has to be large."""

import base64
from collections.abc import Mapping
from threading import Lock
from typing import Any
from uuid import uuid4

from engine.errors import RequestError
from explorer.bounded_dict import BoundedDict

MAX_INCOMPLETE_FILES = 4  # beyond it, the file that has waited longest for a piece is dropped
DAMAGED = "The file did not arrive whole; open it again."


class Uploads:
    """Files of at most ``max_bytes`` under unguessable names."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._arriving = BoundedDict[str, list[bytes]](MAX_INCOMPLETE_FILES)

    def receive(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Receive one piece: {"upload": empty for the first of a file, "data": base64} gives {"upload": the file's
        name}. Raises RequestError if it is damaged, too large, or of a file that was dropped."""
        piece = _decoded(query)
        with self._lock:
            name = str(query.get("upload") or "")
            if name and name not in self._arriving:
                raise RequestError(DAMAGED)
            pieces = [*(self._arriving.pop(name) if name else ()), piece]
            self._check(sum(map(len, pieces)))
            name = name or uuid4().hex
            self._arriving[name] = pieces
        return {"upload": name}

    def collect(self, query: Mapping[str, Any]) -> bytes:
        """Return an uploaded file and forget it: {"upload": its name} if it came in pieces, else {"data": base64}.
        Raises RequestError if there is none."""
        if "upload" not in query:
            data = _decoded(query)
            self._check(len(data))
            return data
        with self._lock:
            if (pieces := self._arriving.pop(str(query["upload"]), None)) is None:
                raise RequestError(DAMAGED)
        return b"".join(pieces)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise RequestError(
                f"The file is larger than {self._max_bytes // 2**20} MiB, which is the most that is taken.")


def _decoded(query: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(query.get("data") or ""), validate=True)
    except ValueError as error:
        raise RequestError(DAMAGED) from error
