"""Checks every call of the page's functions: that the function exists, and that the number of values fits it.

Gradio looks at this too, but deep inside, and answers what does not fit with an internal error; and it keeps whatever
name a session has, however long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.security.bodies import Refusal

if TYPE_CHECKING:
    import gradio as gr

API = "/gradio_api/"
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_SHOWN = 40
MOST_DIGITS = 400  # of a whole number; Python takes a second for a thousand of 4,200


@dataclass(frozen=True)
class Function:
    """What a function takes: a number of values in a list, and how many of them a program sends; or values by name, and
    which of the names are required."""

    values: int
    given: int
    names: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


class Calls:
    """The functions of a page."""

    def __init__(self, page: gr.Blocks) -> None:
        named = page.get_api_info(all_endpoints=True)["named_endpoints"]
        self._by_number = {number: _function(function, named) for number, function in page.fns.items()
                           if function.fn is not None}
        self._by_name = {function.api_name: self._by_number[number] for number, function in page.fns.items()
                         if number in self._by_number and f"/{function.api_name}" in named}
        self._of_parts = {(number, name) for number, part in page.blocks.items() for name in dir(part)
                          if getattr(getattr(part, name, None), "_is_server_fn", False)}

    def check(self, path: str, body: bytes) -> None:
        """Refusal where the body of a POST is no JSON object that can be answered."""
        value = _object(body)
        session = value.get("session_hash")
        if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
            raise Refusal(422, f"The session_hash is {_seen(session)}; it has to be 1 to 64 letters, digits, - and _.")
        where, _, name = path.removeprefix(API).strip("/").rpartition("/")
        if name == "component_server":
            self._check_part(value, session)
        elif where == "call/v2":
            self._check_named(self._named(name), value)
        elif where == "call":
            _check_count(self._named(name).given, value)
        elif where in ("queue", "run") and (name == "join" or where == "run"):
            self._check_numbered(value, name)

    def _check_part(self, value: Mapping[str, Any], session: object) -> None:
        place = value.get("component_id"), value.get("fn_name")
        if session is None or "data" not in value:
            raise Refusal(422, "The request lacks its session_hash or its data.")
        if type(place[0]) is not int or type(place[1]) is not str or place not in self._of_parts:
            raise Refusal(404, f"There is no function {_seen(place[1])} of a part {_seen(place[0])}.")

    def _check_numbered(self, value: Mapping[str, Any], name: str) -> None:
        number = value.get("fn_index")
        function = self._named(name) if number is None and name != "join" else None
        if function is None and type(number) is int:
            function = self._by_number.get(number)
        if function is None:
            raise Refusal(404, f"There is no function {_seen(number)}.")
        _check_count(function.values, value)

    def _check_named(self, function: Function, value: Mapping[str, Any]) -> None:
        if unknown := sorted(set(value) - function.names):
            there = ", ".join(sorted(function.names))
            raise Refusal(422, f"There is no parameter {_seen(unknown[0])}; there are {there}.")
        if missing := sorted(function.needed - set(value)):
            raise Refusal(422, f"The parameter {missing[0]} is missing.")

    def _named(self, name: str) -> Function:
        if name not in self._by_name:
            raise Refusal(404, f"There is no function {_seen(name)}; there are {', '.join(sorted(self._by_name))}.")
        return self._by_name[name]


def _function(function: Any, named: Mapping[str, Any]) -> Function:
    parameters = named.get(f"/{function.api_name}", {"parameters": []})["parameters"]
    names = {parameter["parameter_name"]: not parameter["parameter_has_default"] for parameter in parameters}
    given = sum(not getattr(part, "skip_api", False) for part in function.inputs)
    return Function(len(function.inputs), given, frozenset({*names, "session_hash"}),
                    frozenset(name for name, needed in names.items() if needed))


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is, in whole characters and finite numbers."""
    try:
        value = json.loads(body, parse_int=_whole_number)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "The request's body is no JSON of whole characters and finite numbers in UTF-8, of at most "
                      f"{MOST_DIGITS} digits each.") from error
    if not isinstance(value, dict):
        raise Refusal(422, f"The request's body is {_seen(value)}; it has to be an object with named fields.")
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _check_count(count: int, value: Mapping[str, Any]) -> None:
    data = value.get("data")
    if not isinstance(data, list) or len(data) < count:
        seen = f"{len(data)} values" if isinstance(data, list) else _seen(data)
        raise Refusal(422, f"The data of the call are {seen}; they have to be a list of {count} values.")


def _seen(value: object) -> str:
    text = ascii(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
