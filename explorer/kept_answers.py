"""Answers that take long to make, kept: whoever asks again is not served by the same work once more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class KeptAnswers:
    """The latest answers, as bytes, up to ``most_bytes`` of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, tuple[object, bytes]] = OrderedDict()
        self._bytes = 0

    def of(self, key: Hashable, about: object, make: Callable[[], bytes]) -> bytes:
        """The answer to ``key``, made where it is not kept. It holds as long as ``about`` is the same object."""
        with self._lock:
            known = self._kept.get(key)
            if known and known[0] is about:
                self._kept.move_to_end(key)
                return known[1]
        answer = make()
        with self._lock:
            former = self._kept.pop(key, (None, b""))[1]
            self._kept[key] = about, answer
            self._bytes += len(answer) - len(former)
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1][1])
        return answer
