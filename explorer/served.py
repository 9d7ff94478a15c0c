"""The functions of the page as Gradio serves them: each in a thread that also writes its answer as JSON, since what is
written where all requests are answered keeps all of them waiting. Those that may take long wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from gradio.routes import ORJSONResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from explorer.browser_calls import Call

LONG = frozenset({"replay", "open_trace", "export", "two_runs", "budgets", "lab_anatomy", "lab_curves",
                  "lab_concurrency", "lab_plotly",
                  "lab_prompts", "lab_report", "lab_shapes"})
MOST_LONG = 2  # at once
STEP = 2**18  # bytes of an answer that are handed on at a time


def served(calls: Iterable[Call]) -> list[Call]:
    """The same functions, answering with a response."""
    room = asyncio.Semaphore(MOST_LONG)
    return [_patient(call, room) if call.__name__ in LONG else _prompt(call) for call in calls]


def _prompt(call: Call) -> Call:
    def answer(wanted: Any = None) -> Response:
        return _response(call, wanted)
    answer.__name__ = call.__name__
    return answer


def _patient(call: Call, room: asyncio.Semaphore) -> Call:
    async def answer(wanted: Any = None) -> Response:
        async with room:
            return await asyncio.to_thread(_response, call, wanted)
    answer.__name__ = call.__name__
    return answer


def _response(call: Call, wanted: Any) -> Response:
    """The answer as JSON; bytes are JSON already."""
    value = call(wanted)
    return LongResponse(value, media_type="application/json") if isinstance(value, bytes) else ORJSONResponse(value)


class LongResponse(Response):
    """A response that leaves in steps, between which others are answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for place in range(0, len(self.body), STEP):
            await send({"type": "http.response.body", "body": self.body[place:place + STEP], "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
