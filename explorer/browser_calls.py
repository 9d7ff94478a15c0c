"""Functions that the browser calls by name: a failure comes back as a value, like every other answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from engine.errors import CanopyError, RequestError

Call = Callable[..., Any]

UNFIT = (TypeError, ValueError, LookupError, AttributeError, OverflowError)

log = logging.getLogger("canopy")


def named_fields(value: Any) -> Mapping[str, Any]:
    """What was sent, as named fields; RequestError where it is anything else."""
    if not isinstance(value, Mapping):
        raise RequestError(f"What was asked is {str(value)[:40]!r}; it has to be an object with named fields.")
    return value


def browser_call(name: str, ask: Callable[[Any], Any], taken: Callable[[Any], Any] = named_fields) -> Call:
    """``ask`` under the name that the browser calls it by: a failure comes back as {"error": its sentence}. ``taken``
    turns what was sent into the argument of ``ask``."""
    def answer(wanted: Any = None) -> Any:
        try:
            return ask(taken(wanted or {}))  # a call without an argument sends []
        except CanopyError as error:
            return {"error": str(error).encode("utf8", "backslashreplace").decode()}  # it may name a file
        except Exception as error:
            log.exception("The server could not answer %s.", name)
            return {"error": f"The server could not answer ({type(error).__name__}); its log has the details."}
    answer.__name__ = name
    return answer


def bar_call(fill: Call) -> Call:
    """``fill``, which sets the values of the bar: it may be sent anything, and what does not fit is refused in a
    sentence."""
    @wraps(fill)
    def filled(*values: Any, **named: Any) -> Any:
        try:
            return fill(*values, **named)
        except UNFIT as error:
            import gradio as gr  # noqa: PLC0415 - this module is imported before Gradio

            raise gr.Error(
                "What was sent does not fit the controls of the page; reload it.", print_exception=False) from error
    return filled
