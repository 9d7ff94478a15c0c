"""Asks a server over HTTP, within limits of time and size, and only at the given address.

    client = Client("http://127.0.0.1:8000")
    client.ask("/v1/models")                              # an object of JSON
    with client.stream("/v1/chat/completions", body) as events: ...

Redirects are refused, proxies and passwords of the environment are not used, and the key in ``SERVER_KEY`` is sent to
that address only. Every failure is a ServerError of one sentence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import httpx

from engine.errors import ServerError
from engine.requests.rig_names import SERVER_KEY, server_address
from engine.servers.events import events, parsed
from engine.servers.refusals import refusal, unanswered

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # the longest wait for the first piece of an answer, and between two pieces
ANSWER_SECONDS, STREAM_SECONDS = 20.0, 1800.0  # for a whole answer, for a whole stream
ANSWER_BYTES, STREAM_BYTES, REFUSAL_BYTES = 4 * 2**20, 256 * 2**20, 64 * 2**10
MOST_CONNECTIONS = 20


class Client:
    """One server. Several threads may ask at once."""

    def __init__(self, address: str) -> None:
        self.address = server_address(address)
        self._key = _key()
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=5.0)
        self._http = httpx.Client(headers={"Accept-Encoding": "identity", **key}, timeout=timeout, limits=limits,
                                  follow_redirects=False, trust_env=False)

    def ask(self, path: str, body: Mapping[str, Any] | None = None,
            seconds: float = ANSWER_SECONDS) -> Mapping[str, Any]:
        """The JSON object at a path; a ``body`` is posted to it."""
        with self._answered(path, body, "application/json") as response:
            return parsed(self._whole(response, ANSWER_BYTES, seconds))

    def text(self, path: str) -> str:
        """The text at a path."""
        with self._answered(path, None, "text/plain") as response:
            return self._whole(response, ANSWER_BYTES, ANSWER_SECONDS).decode("utf8", "replace")

    @contextmanager
    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Iterator[Mapping[str, Any]]]:
        """The events of a stream as they arrive; leaving the block ends the stream and the server's work on it."""
        with self._answered(path, body, "text/event-stream") as response:
            yield events(self._pieces(response, STREAM_BYTES, STREAM_SECONDS))

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    @contextmanager
    def _answered(self, path: str, body: Mapping[str, Any] | None, kind: str) -> Iterator[httpx.Response]:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": kind, **({"Content-Type": "application/json"} if content else {})}
        try:
            with self._http.stream("POST" if content else "GET", self.address + path, content=content,
                                   headers=headers) as response:
                self._check(response, path, kind)
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise unanswered(self.address, error, SILENT_SECONDS) from error

    def _check(self, response: httpx.Response, path: str, kind: str) -> None:
        if response.status_code != 200:
            said = b"" if response.is_redirect else self._whole(response, REFUSAL_BYTES, ANSWER_SECONDS)
            if self._key:
                said = said.replace(self._key.encode(), "…".encode())
            raise refusal(self.address, path, response, said)
        coded = response.headers.get("content-encoding", "identity")
        if coded.lower() != "identity":
            raise ServerError(f"{self.address} sends its answer packed as {coded[:20]!r}, which was not asked for.")
        seen = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in ("text/plain", seen):
            raise ServerError(f"{self.address} answers {path} as {seen[:40] or 'nothing named'!r}, where {kind} is "
                              "expected; name the address of an OpenAI-compatible server.")

    def _whole(self, response: httpx.Response, most_bytes: int, seconds: float) -> bytes:
        return b"".join(self._pieces(response, most_bytes, seconds))

    def _pieces(self, response: httpx.Response, most_bytes: int, seconds: float) -> Iterator[bytes]:
        until, size = monotonic() + seconds, 0
        for piece in response.iter_raw():
            size += len(piece)
            if size > most_bytes:
                raise ServerError(f"{self.address} sent more than {most_bytes / 2**20:g} MiB, the most that is taken.")
            if monotonic() > until:
                raise ServerError(f"{self.address} had not finished its answer after {seconds:g} s, which is the "
                                  "longest wait.")
            yield piece


def _key() -> str:
    key = os.environ.get(SERVER_KEY, "").strip()
    if not (key.isascii() and (key.isprintable() or not key)):
        raise ServerError(f"The key in {SERVER_KEY} has characters that a header may not have; check it.")
    return key
