"""The HTTP API of runs, as JSON lines: POST starts a run, GET streams one, DELETE stops one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from engine.decoding.options import prompt_request
from engine.errors import CanopyError, RequestError
from engine.records import MAX_TOKENS
from engine.requests.limits import check_int
from explorer.browser_calls import named_fields
from explorer.lines import encoded
from explorer.runs import MAX_READERS_PER_RUN, RunLog, Runner
from explorer.security.bodies import RUNS
from explorer.security.clients import cache_key_of, client_key, client_of

LINES = "application/x-ndjson"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # no buffering in proxies


class LinesResponse(StreamingResponse):
    """A streaming response that closes its generator even if the client disconnects."""

    body_iterator: AsyncIterator[bytes]

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]
            await super().stream_response(send)


class RunRoutes:
    """The routes.

    ``find`` returns a run, recording or followed file by name, or raises RequestError. ``followed`` streams the newest
    followed file, then the next one.
    """

    def __init__(self, runner: Runner, find: Callable[[str], RunLog],
                 followed: Callable[[], AsyncIterator[bytes]] | None = None) -> None:
        self._runner = runner
        self._find = find
        self._followed = followed

    def routes(self) -> list[Route]:
        return [Route(RUNS, _errors_as_lines(self._begin), methods=["POST"]),
                Route(RUNS, _errors_as_lines(self._follow_newest), methods=["GET"]),
                Route(RUNS + "/{name:path}", _errors_as_lines(self._follow), methods=["GET"]),
                Route(RUNS + "/{name:path}", _errors_as_lines(self._stop), methods=["DELETE"])]

    async def _begin(self, request: Request) -> Response:
        """Start a run with the options in the body, and stream its lines."""
        options = named_fields(await request.json())
        prompt = prompt_request(options, page=True)
        return self._lines(self._runner.start(
            prompt, client_key(client_of(request.scope)), cache_key_of(request.scope)), 0)

    async def _follow(self, request: Request) -> Response:
        """Stream a run from line ``from`` on (0-based, state and about lines not counted)."""
        first = check_int("The first line", request.query_params.get("from", "0"), 0, MAX_TOKENS)
        return self._lines(await asyncio.to_thread(self._find, request.path_params["name"]), first)

    async def _follow_newest(self, _: Request) -> Response:
        if self._followed is None:
            raise RequestError("No run is followed here; start this page with --follow and --trace.")
        return LinesResponse(self._followed(), media_type=LINES, headers=HEADERS)

    async def _stop(self, request: Request) -> Response:
        (await asyncio.to_thread(self._find, request.path_params["name"])).stop()
        return Response(status_code=204)

    def _lines(self, run: RunLog, first: int) -> Response:
        if run.readers >= MAX_READERS_PER_RUN:
            raise RequestError(f"{MAX_READERS_PER_RUN} readers follow this run already; try again when one has left.")
        return LinesResponse(run.follow(first, self._runner.pause), media_type=LINES, headers=HEADERS)


def _errors_as_lines(act: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            answered: Response = await act(request)
            return answered
        except CanopyError as error:  # in a line, since browsers write other refusals to their consoles
            line = {"state": "error", "run": request.path_params.get("name", ""), "message": str(error)}
            return Response(encoded(line), media_type=LINES)
    return answer
