"""Files that arrive in pieces, each in a request of its own, so that no request has to be large."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any
from uuid import uuid4

from engine.errors import RequestError

MAX_AT_ONCE = 4  # files that are arriving
UPLOAD_TIMEOUT_SECONDS = 60.0  # without a piece
DAMAGED = "The file did not arrive whole; open it again."


@dataclass
class Arriving:
    """The pieces so far, and when the latest came, in seconds."""

    heard: float
    pieces: list[bytes] = field(default_factory=list)


class Uploads:
    """Files of at most ``most_bytes`` by the names that they were given here, which cannot be guessed."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = Lock()
        self._arriving: dict[str, Arriving] = {}

    def take(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """One piece, {"upload": empty for the first of a file, "data": base64}, gives {"upload": the file's name}.
        RequestError if it is damaged, too much, or of a file that was given up."""
        piece = self._decoded(wanted)
        with self._lock:
            name = str(wanted.get("upload") or "") or self._begin()
            if (file := self._arriving.get(name)) is None:
                raise RequestError(DAMAGED)
            file.pieces.append(piece)
            file.heard = self._clock()
            if sum(map(len, file.pieces)) > self._most_bytes:
                del self._arriving[name]
                raise self._too_large()
        return {"upload": name}

    def take_complete(self, given: Mapping[str, Any]) -> bytes:
        """The bytes of {"upload": a file that has arrived}, which is handed over and forgotten, or of {"data": base64},
        a file of one piece. RequestError if there is none."""
        if "upload" not in given:
            if len(data := self._decoded(given)) > self._most_bytes:
                raise self._too_large()
            return data
        name = str(given["upload"])
        with self._lock:
            if name not in self._arriving:
                raise RequestError(DAMAGED)
            return b"".join(self._arriving.pop(name).pieces)

    def _decoded(self, given: Mapping[str, Any]) -> bytes:
        try:
            return base64.b64decode(str(given.get("data") or ""), validate=True)
        except ValueError as error:
            raise RequestError(DAMAGED) from error

    def _too_large(self) -> RequestError:
        return RequestError(
            f"The file is larger than {self._most_bytes // 2**20} MiB, which is the most that is taken.")

    def _begin(self) -> str:
        since = self._clock() - UPLOAD_TIMEOUT_SECONDS
        self._arriving = {name: file for name, file in self._arriving.items() if file.heard > since}
        if len(self._arriving) >= MAX_AT_ONCE:
            raise RequestError("Other files are arriving just now; send yours again in a minute.")
        self._arriving[name := uuid4().hex] = Arriving(self._clock())
        return name
