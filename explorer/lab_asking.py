"""From the lab's form to a plan: every field checked, one sentence for the first that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError
from engine.lab.planning import BUDGETS, Choice, check, settings
from engine.lab.settings import BASELINE, Laboratory, SweepPlan
from engine.pace import AUTO, MOST_AUTO
from engine.records import Sampling
from explorer.asking import number, whole
from explorer.lab_prompts import PromptSets

MOST_PROMPTS, MOST_REPEATS, MOST_TOKENS = 1000, 100, 4096
OFFERED = (AUTO, *BUDGETS)  # as chips of the form; any other number can be typed


@dataclass(frozen=True)
class Defaults:
    """What the form opens with: small enough to be through in well under a minute on the demo rig."""

    methods: tuple[str, ...] = (BASELINE, "dflash", "ddtree", "routed", "merged", "joint")
    budgets: tuple[int | str, ...] = (AUTO, 16, 32, 64)
    set: str = "all"
    prompts: int = 6  # as few as have a 95 % interval
    repeats: int = 1
    max_tokens: int = 128


def plan_from(form: Mapping[str, Any], sets: PromptSets, laboratory: Laboratory, rig: str) -> SweepPlan:
    """The checked plan of a sweep; RequestError says which field is wrong, what was seen and what is allowed.

    ``rig`` is the name that the command line opens it by.
    """
    name = str(form.get("set") or Defaults().set)
    prompts = sets.named(name)[:whole("How many prompts", form.get("prompts"), 1, MOST_PROMPTS)]
    plan = SweepPlan(
        prompts=prompts, settings=settings(_choice(form)),
        repeats=whole("Repeats", form.get("repeats"), 1, MOST_REPEATS),
        max_tokens=whole("Max tokens", form.get("max_tokens"), 1, MOST_TOKENS),
        rig=rig, dtype=laboratory.conditions.dtype, prompt_set=sets.origin(name))
    check(plan, laboratory.methods)
    return plan


def _choice(form: Mapping[str, Any]) -> Choice:
    methods = tuple(str(name) for name in _items(form, "methods"))
    if not set(methods) - {BASELINE}:
        raise RequestError(f"No method besides {BASELINE} is chosen; choose at least one that drafts.")
    asked = _items(form, "budgets")
    budgets = tuple(whole("A node budget", each, 0, 4096) for each in asked if each != AUTO)
    sampling = Sampling(number("The temperature", form.get("temperature"), 0, 2))
    return Choice(methods, budgets, str(form.get("split") or "total"), sampling=sampling,
                  auto_budget=MOST_AUTO if AUTO in asked else 0)


def _items(form: Mapping[str, Any], name: str) -> list[Any]:
    given = form.get(name)
    if not isinstance(given, list):
        raise RequestError(f"The {name} are {str(given)[:40]!r}; they have to be a list.")
    return given
