"""Servers whose replies a test writes, over HTTP or behind a client without a network."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from engine.servers.client import Client

ANSWERS = Path(__file__).parent / "answers"
CHAT = "/v1/chat/completions"
Reply = Callable[[BaseHTTPRequestHandler], None]


def says(body: bytes | str, kind: str = "application/json", status: int = 200, **headers: str) -> Reply:
    """Return a reply that sends the complete body at once."""
    data = body.encode() if isinstance(body, str) else body

    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)
    return say


def streams(*parts: bytes | Callable[[], Any], kind: str = "text/event-stream; charset=utf-8") -> Reply:
    """Return a reply that streams these parts, calls functions between them, and closes the connection."""
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.end_headers()
        for part in parts:
            if callable(part):
                part()
            else:
                handler.wfile.write(part)
                handler.wfile.flush()
    return say


def drips(beginning: bytes, piece: bytes, seconds: float = 0.1, gone: Callable[[], object] = bool) -> Reply:
    """Return a reply that sends raw bytes and then a piece every ``seconds``, until the client is gone."""
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(beginning)
        with suppress(OSError):
            while True:
                handler.wfile.write(piece)
                time.sleep(seconds)
        gone()
    return say


def event(**values: Any) -> bytes:
    """Return an event of a stream."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def chunk(text: str, *listed: str, **choice: Any) -> bytes:
    """Return an event with a text and its listed tokens."""
    tokens = [{"token": token, "logprob": -0.5, "bytes": list(token.encode())} for token in listed]
    logprobs = {"logprobs": {"content": tokens}} if tokens else {}
    return event(choices=[{"index": 0, "delta": {"content": text}, **logprobs, **choice}])


def one(token: str, **choice: Any) -> bytes:
    """Return an event with one token."""
    return chunk(token, token, **choice)


def models(owner: str = "somebody", **more: Any) -> str:
    """Return the list of one model."""
    return json.dumps({"data": [{"id": "m", "owned_by": owner, **more}]})


DONE = b"data: [DONE]\n\n"
MODELS = says(models())


def answers(name: str) -> bytes:
    """Return a recorded answer of vLLM 0.32.0 on the demo target."""
    return (ANSWERS / f"vllm-0.32.0-{name}").read_bytes()


def vllm(chat: str = "trial.txt") -> dict[str, Any]:
    """Return the recorded replies of vLLM."""
    return {"models": says(answers("models.json")), "version": says(answers("version.json")),
            "metrics": says(answers("metrics.txt"), "text/plain"), "chat": streams(answers(chat))}


def offline_client(replies: Mapping[str, bytes]) -> Client:
    """Return a client without a network, whose server answers from ``replies`` by path."""
    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        yield data

    def say(request: httpx.Request) -> httpx.Response:
        kind = "text/event-stream" if request.url.path == CHAT else "application/json"
        return httpx.Response(200, headers={"Content-Type": kind}, content=pieces(replies.get(request.url.path, b"{}")))

    return Client("http://127.0.0.1:9", httpx.MockTransport(say))


@dataclass
class Script:
    """Hold the reply at each path, and the requests so far: (path, headers, body)."""

    replies: dict[str, Reply]
    address: str = ""
    asked: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # connections; a client that finds the queue full retries after a second


@contextmanager
def scripted(port: int = 0, **replies: Reply) -> Iterator[Script]:
    """Serve these replies; the names ``models``, ``chat``, ``metrics`` and ``version`` stand for paths."""
    paths = {"models": "/v1/models", "chat": CHAT}
    script = Script({paths.get(name, f"/{name}"): reply for name, reply in replies.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers["Content-Length"] or 0)
            script.asked.append((self.path, dict(self.headers), json.loads(self.rfile.read(size) or "null")))
            script.replies.get(self.path, says("{}", status=404))(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", port), Handler)
    script.address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
