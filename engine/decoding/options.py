"""What a program asks for in keyword arguments, as ``rig.generate`` takes them, checked value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from engine.decoding.budget_policy import AUTO, MAX_AUTO_NODES
from engine.errors import RequestError
from engine.records import PromptRequest, Sampling
from engine.requests.limits import MAX_NODES, MAX_TOKENS, check_int, check_sampling, shown
from engine.requests.prompts import check_text, turns_from

SAMPLING = tuple(field.name for field in fields(Sampling))
OPTIONS = (*(field.name for field in fields(PromptRequest) if field.name != "prompt"), *SAMPLING)
WORDS = ("method", "split", "pace")


def prompt_request(prompt: Any, options: Mapping[str, Any]) -> PromptRequest:
    """The request for a prompt; RequestError names the first value that is not valid. The options are the fields of
    ``PromptRequest``, and those of ``Sampling`` by themselves; a budget of "auto" sets the pace, too."""
    if unknown := options.keys() - set(OPTIONS):
        raise RequestError(f"There is no option {shown(min(unknown))}; choose from {', '.join(OPTIONS)}.")
    given = dict(options)
    chosen = {name: given.pop(name) for name in SAMPLING if name in given}
    sampling = given.pop("sampling", Sampling())
    if not isinstance(sampling, Sampling):
        raise RequestError(f"The sampling is {shown(sampling)}; it has to be a Sampling, or give "
                           f"{', '.join(SAMPLING)} as options of their own.")
    if given.get("budget") == AUTO:
        given |= {"budget": MAX_AUTO_NODES, "pace": AUTO}
    for name in WORDS:
        if not isinstance(given.get(name, ""), str):
            raise RequestError(f"The {name} is {shown(given[name])}; it has to be a text.")
    ask = PromptRequest(check_text("The prompt", prompt), **given)
    turns = turns_from(ask.turns)
    for number, (_, text) in enumerate(turns, start=1):
        check_text(f"Turn {number}", text)
    return replace(
        ask, turns=turns, drafters=_names(ask.drafters), sampling=check_sampling(replace(sampling, **chosen)),
        budget=check_int("The node budget", ask.budget, 0, MAX_NODES),
        max_tokens=check_int("max_tokens", ask.max_tokens, 1, MAX_TOKENS))


def _names(drafters: Any) -> tuple[str, ...]:
    """The names of drafters, given as one or as several."""
    names = (drafters,) if isinstance(drafters, str) else () if drafters is None else drafters
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The drafters are {shown(drafters)}; they have to be names.")
    return tuple(names)
