"""Requests to an ASGI app in this process, as a server would send them."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

Headers = Iterable[tuple[str, str]]
CLIENT = ("127.0.0.1", 50_000)


@dataclass
class Answer:
    """Hold a response; the body of a stream may be incomplete. ``raised`` is the exception that left the app."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raised: BaseException | None = None
    seconds: float = 0.0  # of processor time of the thread that answers


async def ask(  # as many parts as a request has
        app: Any, method: str, url: str, headers: Headers = (), body: bytes = b"", seconds: float = 20) -> Answer:
    """Send one request; after ``seconds`` disconnect, as a browser that leaves does."""
    answer, gone = Answer(), asyncio.Event()
    parts = urlsplit(url)
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
        "root_path": "", "client": CLIENT, "server": ("127.0.0.1", 7860), "state": {},
        "headers": [(name.lower().encode("latin1"), value.encode("latin1", "replace")) for name, value in headers]}
    pieces = [body]

    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if gone.is_set():
            return
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode("latin1"): value.decode("latin1") for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    task: asyncio.Task[None] = asyncio.ensure_future(app(scope, receive, send))
    done, _ = await asyncio.wait([task], timeout=seconds)
    if not done:
        gone.set()
        await asyncio.wait([task], timeout=5)
        task.cancel()
    with suppress(asyncio.CancelledError):
        answer.raised = (await asyncio.gather(task, return_exceptions=True))[0]
    return answer


async def start_app(app: Any) -> asyncio.Task[None]:
    """Run the app's startup, as a server does; it ends with the loop."""
    ready = asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            ready.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(live())
    await asyncio.wait_for(ready.wait(), 60)
    return task
