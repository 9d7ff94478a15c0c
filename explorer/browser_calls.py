"""Functions that the browser calls by name: a failure comes back as a value, like every other answer.

Each call runs and serialises its result in a worker thread, so that the event loop never blocks. Long calls are limited
to ``MAX_CONCURRENT_SLOW_CALLS`` at a time. Gradio is imported lazily, because that takes seconds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from starlette.responses import Response, StreamingResponse

from engine.errors import CanopyError, RequestError

Call = Callable[..., Any]

INPUT_ERRORS = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
SLOW_CALLS = frozenset({"open_trace", "export", "share", "two_runs", "budgets", "lab_acceptance", "lab_curves",
                  "lab_concurrency", "lab_predict_on_machine", "lab_plotly", "lab_prompts", "lab_report"})
MAX_CONCURRENT_SLOW_CALLS = 2
CHUNK_BYTES = 2**18  # of a long answer, sent at a time

log = logging.getLogger("canopy")


def named_fields(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is an object; RequestError if it is anything else."""
    if not isinstance(value, Mapping):
        raise RequestError(f"What was asked is {str(value)[:40]!r}; it has to be an object with named fields.")
    return value


def browser_call(name: str, ask: Callable[[Mapping[str, Any]], Any]) -> Call:
    """Wrap ``ask`` as the browser function ``name``; errors come back as {"error": message}."""
    def answer(query: Any = None) -> Any:
        try:
            return ask(named_fields(query or {}))  # a call without an argument sends []
        except CanopyError as error:
            return {"error": str(error).encode("utf8", "backslashreplace").decode()}  # it may name a file
        except Exception as error:
            log.exception("The server could not answer %s.", name)
            return {"error": f"The server could not answer ({type(error).__name__}); its log has the details."}
    answer.__name__ = name
    return answer


def bar_call(fill: Call) -> Call:
    """Wrap a Gradio handler of the bar so that invalid input shows an error message."""
    @wraps(fill)
    def filled(*values: Any, **named: Any) -> Any:
        try:
            return fill(*values, **named)
        except INPUT_ERRORS as error:
            import gradio as gr  # noqa: PLC0415 - see the top

            raise gr.Error(
                "What was sent does not fit the controls of the page; reload it.", print_exception=False) from error
    return filled


def as_json_calls(calls: Iterable[Call]) -> list[Call]:
    """Wrap functions so that they answer with a JSON response, long ones in a thread."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_SLOW_CALLS)

    def limited(call: Call) -> Call:
        @wraps(call)
        async def answer(query: Any = None) -> Response:
            async with slots:
                return await asyncio.to_thread(_response, call, query)
        return answer

    def immediate(call: Call) -> Call:
        return wraps(call)(lambda query=None: _response(call, query))
    return [limited(call) if call.__name__ in SLOW_CALLS else immediate(call) for call in calls]


def _response(call: Call, query: Any) -> Response:
    """Call and return the answer as JSON; bytes are JSON already."""
    from gradio.routes import ORJSONResponse  # noqa: PLC0415 - see the top

    if not isinstance(value := call(query), bytes):
        written: Response = ORJSONResponse(value)
        return written
    return StreamingResponse(_chunks(value), media_type="application/json", headers={"Content-Length": str(len(value))})


async def _chunks(answer: bytes) -> AsyncIterator[bytes]:
    """Yield a long answer in pieces, so that other requests are answered between them."""
    for begin in range(0, len(answer), CHUNK_BYTES):
        yield answer[begin:begin + CHUNK_BYTES]
        await asyncio.sleep(0)
