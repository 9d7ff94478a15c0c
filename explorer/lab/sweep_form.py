"""From the lab's form to a plan: prompt sets, shipped and uploaded, and a check of every field."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict

from engine.decoding.budget_policy import AUTO, MOST_AUTO
from engine.errors import RequestError
from engine.lab.planning import Choice, check, prompt_set, settings, shipped_sets
from engine.lab.settings import BASELINE, Laboratory, SweepPlan
from engine.records import Sampling
from engine.requests.limits import MOST_CONCURRENCY, MOST_NODES, TRIED_BUDGETS, whole
from engine.requests.prompts import Prompt, prompts_from
from explorer.run_form import (
    LONGEST_ANSWER,
    MOST_TEMPERATURE,
    MaxTokensField,
    TemperatureField,
    asked_for,
    whole_in,
)
from explorer.uploads import Uploads
from explorer.view import View

TITLES: Mapping[str, str] = MappingProxyType({
    "all": "All domains", "math": "Arithmetic word problems", "code": "Small Python functions",
    "explain": "Questions and answers", "mixed": "A word problem and its function", "bench": "Benchmark: math and code",
    "check": "Exactness check"})
LARGEST_UPLOAD = 8 * 2**20  # bytes of a prompt file
MOST_FILE_PROMPTS = 10_000  # a sweep takes a tenth of them
MOST_UPLOADS = 8  # files that are remembered; the oldest is forgotten first


class PromptSets:
    """Prompts by the name of their set."""

    def __init__(self) -> None:
        self._shipped = {name: prompt_set(name) for name in (*TITLES, *shipped_sets()) if name in shipped_sets()}
        self.uploads = Uploads(LARGEST_UPLOAD)
        self._uploaded: OrderedDict[str, tuple[str, tuple[Prompt, ...]]] = OrderedDict()

    def named(self, name: str) -> tuple[Prompt, ...]:
        """The prompts of a set; RequestError with the names there are."""
        if name in self._uploaded:
            return self._uploaded[name][1]
        if name not in self._shipped:
            raise RequestError(f"There is no prompt set {name[:40]!r}; choose one of {', '.join(self._shipped)}, "
                               "or upload a file.")
        return self._shipped[name]

    def origin(self, name: str) -> str:
        """The source of its prompts that a sweep records: the set's name, or that of the uploaded file."""
        return self._uploaded[name][0] if name in self._uploaded else name

    def view(self) -> list[View]:
        """What the page lists: name, title, count."""
        shown = [{"name": name, "title": TITLES.get(name, name), "count": len(prompts)}
                 for name, prompts in self._shipped.items()]
        return shown + [{"name": name, "title": title, "count": len(prompts)}
                        for name, (title, prompts) in self._uploaded.items()]

    def add(self, upload: Mapping[str, Any]) -> str:
        """Remember an uploaded file, {"name", "upload" or "data": see ``Uploads.whole``}; the new set's name.

        RequestError where it is not UTF-8, empty, or has a line that is no prompt: it says which.
        """
        title, raw = Path(str(upload.get("name") or "")).name[:80] or "prompts.jsonl", self.uploads.whole(upload)
        name = f"upload-{uuid4().hex[:8]}"
        prompts = tuple(prompts_from(raw, title))
        if len(prompts) > MOST_FILE_PROMPTS:
            raise RequestError(f"{title} has {len(prompts):,} prompts; at most {MOST_FILE_PROMPTS:,} are taken, so "
                               "split it.")
        self._uploaded[name] = title, prompts
        while len(self._uploaded) > MOST_UPLOADS:
            self._uploaded.popitem(last=False)
        return name


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
    return tuple(budget if budget == AUTO else whole("A node budget", budget, 0, MOST_NODES)
                 for budget in listed("budgets", value))


def _concurrency(value: Any) -> tuple[int, ...]:
    return tuple(whole("A number of requests at once", count, 1, MOST_CONCURRENCY)
                 for count in listed("numbers of requests at once", value))


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
    concurrency: Annotated[tuple[int, ...], BeforeValidator(_concurrency)] = (1,)
    split: Annotated[str, BeforeValidator(lambda value: str(value or "total"))] = "total"
    temperature: TemperatureField = asked_for()
    repeats: Annotated[int, whole_in("Repeats", 1, MOST_SWEEP_REPEATS)] = asked_for()
    max_tokens: MaxTokensField = asked_for()

    def choice(self) -> Choice:
        """The settings that it asks for."""
        fixed = tuple(budget for budget in self.budgets if isinstance(budget, int))
        return Choice(self.methods, fixed, self.split, sampling=Sampling(self.temperature),
                      auto_budget=MOST_AUTO if AUTO in self.budgets else 0, concurrency=self.concurrency)


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
