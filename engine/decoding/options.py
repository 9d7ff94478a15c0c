"""Parse and validate run options against their declarations in ``records.py``.

Every entry point (``rig.generate``, command line, page, presets, HTTP) uses ``prompt_request``.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, fields
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from engine.decoding.budget_policy import AUTO, MAX_AUTO_NODES, PACES
from engine.decoding.methods import METHODS, SERVED
from engine.errors import RequestError
from engine.recorder import MAX_NAME_LENGTH
from engine.records import MAX_INT32, Option, PromptRequest, RunOptions, Sampling
from engine.requests.limits import check_choice, check_int, check_number, shown
from engine.requests.prompts import THINKING, Turn, check_text, turns_from

HINTS = {name: get_args(hint) for record in (RunOptions, Sampling, PromptRequest)  # (int, Option(…)) by name
         for name, hint in get_type_hints(record, include_extras=True).items() if get_origin(hint) is Annotated}
OPTIONS: Mapping[str, Option] = MappingProxyType({"prompt": HINTS["prompt"][1], **{
    name: option for name, (_, option) in HINTS.items()}})  # the prompt first
DEFAULTS: Mapping[str, Any] = MappingProxyType({
    field.name: field.default for field in (*fields(Sampling), *fields(PromptRequest))
    if field.name in OPTIONS and field.default is not MISSING})
CHOICES: Mapping[str, Collection[str]] = MappingProxyType({
    "method": METHODS, "pace": PACES, "thinking": THINKING,
    "split": tuple(dict.fromkeys(split for row in METHODS.values() for split in row.split_rules))})
LEGACY_NAMES = MappingProxyType({"heads": "drafters"})  # still accepted

MAX_CONVERSATION_LENGTH = 100_000  # characters of all turns, over the network
MAX_DRAFTERS = max(row.drafter_count for row in METHODS.values())
MAX_BIASES = 300  # tokens, as in the OpenAI API


def max_value(name: str, page: bool) -> float:
    """Return the upper bound of an option; the page has tighter ones."""
    option = OPTIONS[name]
    return min(option.high, option.page_high) if page else option.high


def check_option(name: str, value: Any, page: bool = False) -> Any:
    """Validate and convert one option. ``page`` applies the tighter bounds for network clients.

    Raises RequestError with the value and the allowed range.
    """
    option, kind = OPTIONS[name], HINTS[name][0]
    if kind is int:
        return check_int(option.name, value, int(option.low), int(max_value(name, page)))
    if kind is float:
        return check_number(option.name, value, option.low, max_value(name, page), inclusive=option.inclusive,
                            or_zero=option.or_zero)
    if name in CHOICES:
        served = page and (name, value) == ("method", SERVED)
        return value if served else check_choice(option.name, value, CHOICES[name])
    return {"prompt": _prompt, "drafters": _drafters, "turns": _turns, "logit_bias": _logit_bias,
            "forced": _forced}[name](value, page)


def check_options(options: RunOptions) -> None:
    """Raise RequestError for the first invalid option."""
    for name, value in options_of(options).items():
        check_option(name, value)


def options_of(options: RunOptions) -> dict[str, Any]:
    """Return a request's options by name."""
    values = {field.name: getattr(options, field.name) for field in fields(options)} | asdict(options.sampling)
    return {name: values[name] for name in OPTIONS if name in values}


def prompt_request(options: Mapping[str, Any], page: bool = False) -> PromptRequest:
    """Build a request from options by name. A budget of "auto" also sets the pace; ``sampling`` may be a ``Sampling``.

    Raises RequestError for the first unknown or invalid option.
    """
    values = {LEGACY_NAMES.get(name, name): value for name, value in options.items()}
    if unknown := values.keys() - {*OPTIONS, "sampling"}:
        raise RequestError(f"There is no option {shown(min(unknown))}; choose from {', '.join(OPTIONS)}.")
    sampling = values.pop("sampling", Sampling())
    if not isinstance(sampling, Sampling):
        raise RequestError(f"The sampling is {shown(sampling)}; it has to be a Sampling, or give "
                           f"{', '.join(asdict(Sampling()))} as options of their own.")
    if values.get("budget") == AUTO:
        values |= {"budget": MAX_AUTO_NODES, "pace": AUTO}
    checked = {name: check_option(name, value, page)
               for name, value in {"prompt": None, **asdict(sampling), **values}.items()}
    return PromptRequest(sampling=Sampling(**{name: checked.pop(name) for name in asdict(sampling)}), **checked)


def _prompt(value: Any, page: bool) -> str:
    text, limit = check_text("The prompt", value), max_value("prompt", page)
    if not text.strip():
        raise RequestError("The prompt is empty; write at least one character.")
    if len(text) > limit:
        raise RequestError(f"The prompt has {len(text):,} characters; at most {limit:,} are taken, so shorten it.")
    return text


def _drafters(value: Any, page: bool) -> tuple[str, ...]:
    """Accept one name or a list of names. Whether they exist, and how many the method takes, is checked by the rig."""
    names = (value,) if isinstance(value, str) else () if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The drafters are {shown(value)}; they have to be a list of names.")
    if len(names) > MAX_DRAFTERS:
        raise RequestError(f"There are {len(names)} drafters; at most {MAX_DRAFTERS} draft in any method.")
    if long := [name for name in names if len(name) > MAX_NAME_LENGTH]:
        raise RequestError(f"There is no drafter {shown(long[0])}; a name has at most {MAX_NAME_LENGTH} characters.")
    return tuple(names)


def _forced(value: Any, page: bool) -> tuple[int, ...]:
    """Accept token ids in a list, or as typed on a command line."""
    ids = value.replace(",", " ").split() if isinstance(value, str) else value or ()
    if not isinstance(ids, list | tuple):
        raise RequestError(f"The forced tokens are {shown(value)}; they have to be a list of token ids.")
    if len(ids) > (limit := max_value("forced", page)):
        raise RequestError(f"There are {len(ids)} forced tokens; at most {limit} are taken.")
    return tuple(check_int("A forced token", token, 0, MAX_INT32) for token in ids)


def _logit_bias(value: Any, page: bool) -> tuple[tuple[int, float], ...]:
    """Accept a mapping, pairs, or text such as ``42:-5, 7:1``."""
    if isinstance(value, str):
        value = [pair.split(":") for pair in value.replace(",", " ").split()]
    pairs = list(value.items()) if isinstance(value, Mapping) else value or ()
    if not isinstance(pairs, list | tuple) or not all(
            isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise RequestError(f"The logit bias is {shown(value)}; it has to be token ids with a bias each, as in 42:-5.")
    if len(pairs) > MAX_BIASES:
        raise RequestError(f"The logit bias has {len(pairs)} tokens; at most {MAX_BIASES} are taken.")
    option = OPTIONS["logit_bias"]
    biases = {check_int("A token id of the logit bias", token, 0, MAX_INT32):
              check_number(option.name, bias, option.low, option.high) for token, bias in pairs}
    return tuple(sorted(biases.items()))


def _turns(value: Any, page: bool) -> tuple[Turn, ...]:
    turns, limit = turns_from(value), max_value("turns", page)
    if len(turns) > limit:
        raise RequestError(f"There are {len(turns)} turns; at most {limit} are taken, so leave the first out.")
    length, max_length = sum(len(text) for _, text in turns), MAX_CONVERSATION_LENGTH if page else math.inf
    if length > max_length:
        raise RequestError(f"The turns have {length:,} characters; at most {max_length:,} are taken, so leave the "
                           "first out.")
    for number, (_, text) in enumerate(turns, start=1):
        check_text(f"Turn {number}", text)
    return turns
