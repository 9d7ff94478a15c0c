"""Files that arrive in pieces, each in a request of its own, so that no request has to be large."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any
from uuid import uuid4

from engine.errors import RequestError
from explorer.view import View

MOST_AT_ONCE = 4  # files that are arriving
LAPSE_SECONDS = 60.0  # without a piece


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

    def take(self, wanted: Mapping[str, Any]) -> View:
        """One piece, {"upload": empty for the first of a file, "data": base64}, gives {"upload": the file's name}.
        RequestError where it is damaged, too much, or of a file that was given up."""
        piece = _decode(wanted.get("data"))
        with self._lock:
            name = self._begin() if not wanted.get("upload") else str(wanted["upload"])
            arriving = self._known(name)
            arriving.pieces.append(piece)
            arriving.heard = self._clock()
            if (size := sum(map(len, arriving.pieces))) > self._most_bytes:
                del self._arriving[name]
            self._check(size)
        return {"upload": name}

    def whole(self, given: Mapping[str, Any]) -> bytes:
        """The bytes of {"upload": a file that has arrived}, which is handed over and forgotten, or of {"data": base64},
        a small file at once. RequestError where there is none."""
        if "upload" not in given:
            data = _decode(given.get("data"))
            self._check(len(data))
            return data
        with self._lock:
            self._known(name := str(given["upload"]))
            return b"".join(self._arriving.pop(name).pieces)

    def _check(self, size: int) -> None:
        if size > self._most_bytes:
            raise RequestError(f"The file is larger than {self._most_bytes // 2**20} MiB, which is the most that is "
                               "taken.")

    def _begin(self) -> str:
        since = self._clock() - LAPSE_SECONDS
        self._arriving = {name: upload for name, upload in self._arriving.items() if upload.heard > since}
        if len(self._arriving) >= MOST_AT_ONCE:
            raise RequestError("Other files are arriving just now; send yours again in a minute.")
        self._arriving[name := uuid4().hex] = Arriving(self._clock())
        return name

    def _known(self, name: str) -> Arriving:
        if name not in self._arriving:
            raise RequestError("The file did not arrive whole; open it again.")
        return self._arriving[name]


def _decode(data: object) -> bytes:
    try:
        return base64.b64decode(str(data or ""), validate=True)
    except ValueError as error:
        raise RequestError("The file did not arrive whole; open it again.") from error
