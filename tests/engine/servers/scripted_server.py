"""An HTTP server that says what a test wrote: what servers do wrong. What they do right is recorded from real ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from engine.servers.client import Client

ANSWERS = Path(__file__).parent / "answers"
CHAT = "/v1/chat/completions"
Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Script:
    """The reply at each path, and what was asked: (path, headers, body)."""

    replies: dict[str, Reply]
    address: str = ""
    asked: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)


def says(body: bytes | str, kind: str = "application/json", status: int = 200, **headers: str) -> Reply:
    """The whole body at once."""
    data = body.encode() if isinstance(body, str) else body

    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)
    return say


def streams(*parts: bytes | Callable[[], Any]) -> Reply:
    """Parts of a stream, one after the other, a function called between them; then the connection is closed."""
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.end_headers()
        for part in parts:
            if callable(part):
                part()
            else:
                handler.wfile.write(part)
                handler.wfile.flush()
    return say


def event(**values: Any) -> bytes:
    """An event of a stream."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def chunk(text: str, **choice: Any) -> bytes:
    """An event with text."""
    return event(choices=[{"index": 0, "delta": {"content": text}, **choice}])


DONE = b"data: [DONE]\n\n"
MODELS = says('{"data": [{"id": "m", "owned_by": "somebody"}]}')


def answers(name: str) -> bytes:
    """What a real server said, or what its documents say that it does."""
    return (ANSWERS / name).read_bytes()


class Unwired(Client):
    """A client whose server is what ``replies`` holds by path: thousands of answers without a network."""

    def __init__(self, replies: Mapping[str, bytes]) -> None:
        super().__init__("http://127.0.0.1:9")
        self.replies = replies

    @contextmanager
    def _answer(self, path: str, *_: Any, **__: Any) -> Iterator[Iterator[bytes]]:
        yield iter([self.replies.get(path, b"{}")])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # of a browser's or a load's connections; one that finds it full tries again after a second


@contextmanager
def scripted(port: int = 0, **replies: Reply) -> Iterator[Script]:
    """A server at an address of its own, or at that port; paths are named as words: ``models``, ``chat``, ``metrics``,
    ``version``."""
    paths = {"models": "/v1/models", "chat": CHAT}
    script = Script({paths.get(name, f"/{name}"): reply for name, reply in replies.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def answer(self, body: Any) -> None:
            script.asked.append((self.path, dict(self.headers), body))
            script.replies.get(self.path, says("{}", status=404))(self)

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
