"""A family of functions: one behaviour in several wordings, names and body styles, made into a task."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from string import Template

from engine.recipes.corpus.code_arguments import KINDS, sample_value
from engine.recipes.corpus.code_frame import FunctionTask

CASE_COUNT = 4  # the example and three assertions
LONGEST_PRINTED = 40  # characters
ATTEMPTS = 40

LOCAL_NAMES = {
    "item": ("value", "item", "current", "entry"),
    "total": ("total", "result", "answer", "running"),
    "count": ("count", "tally", "hits", "found"),
    "out": ("result", "output", "collected", "built"),
    "best": ("best", "top", "chosen", "winner"),
    "char": ("char", "character", "ch", "c"),
    "part": ("part", "piece", "token", "w"),
    "index": ("i", "index", "position", "j"),
}


@dataclass(frozen=True)
class Family:
    """One behaviour.

    ``behaviours`` and ``bodies`` are ``string.Template`` texts over the argument slots, the constants and the
    keys of ``LOCAL_NAMES``; ``bodies`` are pairs of hint and source; ``arguments`` pairs of slot and kind;
    ``constants`` pairs of slot and choices; ``$self`` in a body is
    the function's own name; ``reference`` takes the arguments, then the constants.
    """

    family: str
    names: tuple[str, ...]
    behaviours: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    returns: str
    bodies: tuple[tuple[str, str], ...]
    reference: Callable[..., object]
    constants: tuple[tuple[str, tuple[object, ...]], ...] = ()


def _argument_names(family: Family, random: random.Random) -> dict[str, str]:
    """A distinct name for each argument slot."""
    chosen: dict[str, str] = {}
    for slot, kind in family.arguments:
        free = [name for name in KINDS[kind].names if name not in chosen.values()]
        chosen[slot] = random.choice(free)
    return chosen


def _local_names(taken: set[str], random: random.Random) -> dict[str, str]:
    """A distinct name for each local, none of which is an argument's."""
    chosen: dict[str, str] = {}
    for role, names in LOCAL_NAMES.items():
        free = [name for name in names if name not in taken]
        chosen[role] = random.choice(free)
        taken = taken | {chosen[role]}
    return chosen


def sample_cases(
    kinds: tuple[str, ...], evaluate: Callable[..., object], random: random.Random
) -> tuple[tuple[tuple[object, ...], ...], tuple[object, ...]]:
    """Four argument tuples and their values, the first with a short printed value that says something."""
    cases: list[tuple[object, ...]] = []
    values: list[object] = []
    for attempt in range(ATTEMPTS):
        arguments = tuple(sample_value(kind, random) for kind in kinds)
        value = evaluate(*copy.deepcopy(arguments))
        telling = value not in ("", None, [], {}) and len(str(value)) <= LONGEST_PRINTED
        if cases or telling or attempt > ATTEMPTS // 2:
            cases.append(arguments)
            values.append(value)
        if len(cases) == CASE_COUNT:
            break
    return tuple(cases), tuple(values)


def make_task(family: Family, random: random.Random) -> FunctionTask:
    """One task of the family, all choices drawn from ``random``."""
    slots: dict[str, object] = dict(_argument_names(family, random))
    argument_names = [str(slots[slot]) for slot, _ in family.arguments]
    constants = {slot: random.choice(choices) for slot, choices in family.constants}
    slots.update(_local_names(set(argument_names), random))
    slots.update(constants)
    name = slots["self"] = Template(random.choice(family.names)).substitute(slots)
    hint, body = random.choice(family.bodies)
    kinds = tuple(kind for _, kind in family.arguments)
    cases, values = sample_cases(kinds, lambda *a: family.reference(*a, *constants.values()), random)
    wordings = [Template(text).substitute(slots) for text in family.behaviours]
    return FunctionTask(
        family=family.family,
        name=name,
        parameters=tuple(zip(argument_names, (KINDS[kind].type_name for kind in kinds), strict=True)),
        returns=family.returns,
        behaviour=random.choice(wordings),
        docstring=docstring_of(random.choice(wordings)),
        hint=hint if random.random() < 0.6 else "",
        body=Template(body).substitute(slots),
        cases=cases,
        expected=values,
    )


def docstring_of(behaviour: str) -> str:
    """The behaviour as a docstring: its verb in the imperative, a capital letter and a full stop."""
    verb, _, rest = behaviour.partition(" ")
    verb = verb.removesuffix("s")
    return f"{verb[0].upper()}{verb[1:]} {rest}."
