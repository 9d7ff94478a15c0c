"""What the browser calls by name: every answer is a value, a failure too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import CanopyError, RequestError

Call = Callable[..., Any]

log = logging.getLogger("canopy")


def named_fields(value: Any) -> Mapping[str, Any]:
    """What was sent, as named fields; RequestError where it is anything else."""
    if not isinstance(value, Mapping):
        raise RequestError(f"What was asked is {str(value)[:40]!r}; it has to be an object with named fields.")
    return value


def browser_call(name: str, ask: Callable[[Any], Any]) -> Call:
    """``ask`` under the name that the browser calls it by: a failure comes back as {"error": its sentence}."""
    def answer(wanted: Any = None) -> Any:
        try:
            return ask(wanted if wanted is not None else {})
        except CanopyError as error:
            return {"error": str(error)}
        except Exception as error:
            log.exception("The server could not answer %s.", name)
            return {"error": f"The server could not answer ({type(error).__name__}); its log has the details."}
    answer.__name__ = name
    return answer
