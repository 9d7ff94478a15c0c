"""What a person asks of the rig: the fields of the bar, each checked, and the ``Ask`` that they make."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from engine.decoding.budget_policy import FIXED, PACES
from engine.decoding.methods import METHODS, SERVED, method_named, share_named
from engine.errors import RequestError
from engine.records import Ask, Sampling
from explorer.form_fields import (
    BudgetField,
    MaxTokensField,
    PromptField,
    TemperatureField,
    TurnsField,
    asked_for,
    number,
    whole_in,
)

LARGEST_SEED = 2**31 - 1
MOST_TOP_K = 100_000
MOST_DRAFTERS = max(row.drafter_count for row in METHODS.values())
LONGEST_NAME = 200  # characters of a drafter's


def _method(value: Any) -> str:
    if value != SERVED:
        method_named(str(value))
    return str(value)


def _split(value: Any) -> str:
    return str(value or "total")


def _top_p(value: Any) -> float:
    found = number("top-p", value, 0, 1)
    if found == 0:
        raise RequestError("top-p is 0, which leaves no token to choose; it has to lie above 0 and be at most 1.")
    return found


def _pace(value: Any) -> str:
    pace = str(value or FIXED)
    if pace not in PACES:
        raise RequestError(f"There is no pace {pace[:20]!r}; choose one of {', '.join(PACES)}.")
    return pace


def _drafters(value: Any) -> tuple[str, ...]:
    """A list of names; which drafters exist, and how many a method takes, is checked by the rig."""
    names = () if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The drafters are {str(value)[:40]!r}; they have to be a list of the names of the rig's.")
    if len(names) > MOST_DRAFTERS:
        raise RequestError(f"There are {len(names)} drafters; at most {MOST_DRAFTERS} draft in any method.")
    if long := [name for name in names if len(name) > LONGEST_NAME]:
        raise RequestError(f"There is no drafter {long[0][:20]!r}…; a name has at most {LONGEST_NAME} characters.")
    return tuple(names)


OLDER_NAME = "heads"  # an earlier name of the field ``drafters``, which programs may still send


class RunForm(BaseModel):
    """The fields of a run with their defaults, for the bar, the presets and other programs. Values arrive as they were
    filled in, so a number may be missing, text, a fraction or out of range; RequestError says which field is wrong,
    what was seen and what is allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: PromptField = asked_for()
    method: Annotated[str, BeforeValidator(_method)] = asked_for()
    budget: BudgetField = asked_for()
    split: Annotated[str, BeforeValidator(_split)] = Ask.split
    temperature: TemperatureField = Sampling.temperature
    top_k: Annotated[int, whole_in("top-k", 0, MOST_TOP_K)] = Sampling.top_k
    top_p: Annotated[float, BeforeValidator(_top_p)] = Sampling.top_p
    seed: Annotated[int, whole_in("The seed", 0, LARGEST_SEED)] = Sampling.seed
    max_tokens: MaxTokensField = Ask.max_tokens
    pace: Annotated[str, BeforeValidator(_pace)] = Ask.pace
    drafters: Annotated[tuple[str, ...], BeforeValidator(_drafters), Field(
        validation_alias=AliasChoices("drafters", OLDER_NAME))] = ()
    turns: TurnsField = ()

    def ask(self) -> Ask:
        """What the engine is asked; RequestError where the method has no such split."""
        if self.method in METHODS:
            share_named(method_named(self.method), self.split)
        sampling = Sampling(self.temperature, self.top_k, self.top_p, self.seed)
        return Ask(prompt=self.prompt, method=self.method, budget=self.budget, max_tokens=self.max_tokens,
                   sampling=sampling, split=self.split, pace=self.pace, drafters=self.drafters, turns=self.turns)


FIELDS = tuple(RunForm.model_fields)  # their names, in the order of the bar
USUAL = {name: field.default for name, field in RunForm.model_fields.items() if field.default is not None}
