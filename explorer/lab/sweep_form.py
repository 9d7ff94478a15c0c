"""From the lab's form to a plan: every field checked, one sentence for the first that does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from engine.decoding.budget_policy import AUTO, MOST_AUTO
from engine.errors import RequestError
from engine.lab.planning import Choice, check, settings
from engine.lab.settings import BASELINE, Laboratory, SweepPlan
from engine.records import Sampling
from engine.requests.limits import MOST_NODES, MOST_TOGETHER, TRIED_BUDGETS
from explorer.form_fields import (
    LONGEST_ANSWER,
    MOST_TEMPERATURE,
    MaxTokensField,
    TemperatureField,
    asked_for,
    whole,
    whole_in,
)
from explorer.lab.prompts import PromptSets
from explorer.view import View

MOST_PROMPTS, MOST_SWEEP_REPEATS = 1000, 100
MOST_RUNS = 20_000  # of a sweep; at a second each, they take as long as anybody's patience
MOST_ITEMS = 64  # of a list in the form
OFFERED = (AUTO, *TRIED_BUDGETS)  # as chips of the form; any other number can be typed


def _methods(value: Any) -> tuple[str, ...]:
    methods = tuple(map(str, listed("methods", value)))
    if not set(methods) - {BASELINE}:
        raise RequestError(f"No method besides {BASELINE} is chosen; choose at least one that drafts.")
    return methods


def _budgets(value: Any) -> tuple[int | str, ...]:
    return tuple(each if each == AUTO else whole("A node budget", each, 0, MOST_NODES)
                 for each in listed("budgets", value))


def _together(value: Any) -> tuple[int, ...]:
    return tuple(whole("A number of requests at once", each, 1, MOST_TOGETHER)
                 for each in listed("numbers of requests at once", value))


def listed(name: str, value: Any) -> Sequence[Any]:
    """The items of a field that is a list; RequestError where it is none."""
    if not isinstance(value, list | tuple):
        raise RequestError(f"The {name} are {str(value)[:40]!r}; they have to be a list.")
    if len(value) > MOST_ITEMS:
        raise RequestError(f"There are {len(value):,} {name}; at most {MOST_ITEMS} are taken.")
    return value


class SweepForm(BaseModel):
    """The lab's form. What it opens with is ``OPENING``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    set: Annotated[str, BeforeValidator(lambda value: str(value or "all"))] = "all"
    prompts: Annotated[int, whole_in("How many prompts", 1, MOST_PROMPTS)] = asked_for()
    methods: Annotated[tuple[str, ...], BeforeValidator(_methods)] = asked_for()
    budgets: Annotated[tuple[int | str, ...], BeforeValidator(_budgets)] = asked_for()
    together: Annotated[tuple[int, ...], BeforeValidator(_together)] = (1,)
    split: Annotated[str, BeforeValidator(lambda value: str(value or "total"))] = "total"
    temperature: TemperatureField = asked_for()
    repeats: Annotated[int, whole_in("Repeats", 1, MOST_SWEEP_REPEATS)] = asked_for()
    max_tokens: MaxTokensField = asked_for()

    def choice(self) -> Choice:
        """The settings that it asks for."""
        fixed = tuple(budget for budget in self.budgets if isinstance(budget, int))
        return Choice(self.methods, fixed, self.split, sampling=Sampling(self.temperature),
                      auto_budget=MOST_AUTO if AUTO in self.budgets else 0, together=self.together)


# Small enough to be through in well under a minute on the embedded rig; six prompts are as few as have a 95 % interval.
OPENING = SweepForm(
    set="all", prompts=6, methods=(BASELINE, "dflash", "ddtree", "routed", "merged", "joint"),
    budgets=(AUTO, 16, 32, 64), temperature=0.0, repeats=1, max_tokens=128)


def limits() -> View:
    """The most that each number of the form may be, for the browser's fields."""
    return {"prompts": MOST_PROMPTS, "repeats": MOST_SWEEP_REPEATS, "max_tokens": LONGEST_ANSWER,
            "temperature": MOST_TEMPERATURE, "budget": MOST_NODES}


def plan_from(form: Mapping[str, Any], sets: PromptSets, laboratory: Laboratory, rig: str) -> SweepPlan:
    """The checked plan of a sweep; RequestError says which field is wrong, what was seen and what is allowed.

    ``rig`` is the name that the command line opens it by.
    """
    filled = SweepForm.model_validate(dict(form))
    plan = SweepPlan(
        prompts=sets.named(filled.set)[:filled.prompts], settings=settings(filled.choice()), repeats=filled.repeats,
        max_tokens=filled.max_tokens, rig=rig, dtype=laboratory.conditions.dtype, prompt_set=sets.origin(filled.set))
    if len(plan) > MOST_RUNS:
        raise RequestError(f"The sweep has {len(plan):,} runs (prompts × settings × repeats); at most {MOST_RUNS:,} "
                           "are taken, so choose fewer of them.")
    check(plan, laboratory.methods, laboratory.drafters)
    return plan
