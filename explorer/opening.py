"""The first seconds: a page with a recording answers while Gradio is imported and the real page is built, which then
takes its place on the same sockets. Every other request waits for the real page. That tells the first page when to
reload: as soon as a request of its own is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from explorer.listening import Listening, announced, listener
from explorer.security.bodies import Refusal
from explorer.security.gate import Gate, Guard
from explorer.security.hosts import hosts_of

MOST_WAITING = 64  # requests for the real page
PATIENCE_SECONDS = 120.0  # that one of them waits


class FirstSeconds:
    """An ASGI app: ``first`` answers the page's address until ``build`` has made the app that answers everything."""

    def __init__(self, first: ASGIApp, build: Callable[[], Starlette], give_up: Callable[[], None]) -> None:
        """``build`` runs in a thread; where it fails, ``failure`` holds why, and ``give_up`` is called."""
        self.failure: Exception | None = None
        self._first, self._build, self._give_up = first, build, give_up
        self._page: ASGIApp | None = None
        self._settled, self._ended = asyncio.Event(), asyncio.Event()
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the request wait for the real page."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._page is not None:
            await self._page(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] == "/":
            await self._first(scope, receive, send)
        else:
            answer = await self._later()
            await answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        taking_over = asyncio.create_task(self._take_over())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._ended.set()
        await taking_over
        await send({"type": "lifespan.shutdown.complete"})

    async def _take_over(self) -> None:
        try:
            page = await asyncio.to_thread(self._build)
            if self._ended.is_set():
                return
            async with page.router.lifespan_context(page):
                self._page = page
                self._settled.set()
                await self._ended.wait()
        except Exception as failure:  # raised again by ``serve_at_once``
            self.failure = failure
            self._settled.set()
            self._give_up()

    async def _later(self) -> ASGIApp:
        """The app for a request that came too early: the real page, or a refusal that says why there is none."""
        if self._waiting >= MOST_WAITING:
            return _refused("Too many requests wait for this page to be built; ask again in a few seconds.")
        self._waiting += 1
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._settled.wait()
        except TimeoutError:
            return _refused("The page is still being built; ask again in a few seconds.")
        finally:
            self._waiting -= 1
        return self._page or _refused("The page could not be built; the terminal that it was started in says why.")


def _refused(sentence: str) -> ASGIApp:
    return Refusal(503, sentence, {"Retry-After": "3"}).response(programs=False)


def serve_at_once(page: str, build: Callable[[], Starlette], listening: Listening) -> None:
    """Serve the HTML ``page``, and the app that ``build`` makes as soon as it is ready, until the process is told to
    end. Raises RequestError where the address is taken or not valid, and whatever ``build`` raises."""
    def leave() -> None:
        server.should_exit = True

    async def opened(_: Request) -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    first = Gate(Starlette(routes=[Route("/", opened)]), Guard(hosts_of(listening.host, listening.allowed)))
    opening = FirstSeconds(first, build, leave)
    sockets = announced(listening)
    server = listener(opening, listening)
    server.run(sockets)
    if opening.failure:
        raise opening.failure
