"""From the lab's forms to plans: prompt sets, shipped and uploaded, and a check of every field of a sweep or a race."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict
from uuid import uuid4

from engine.decoding.budget_policy import AUTO, FIXED
from engine.decoding.methods import METHODS
from engine.decoding.options import check_option, max_value
from engine.errors import RequestError
from engine.lab.settings import BASELINE, SweepPlan, check, prompt_set, settings, shipped_sets
from engine.lab.sweeping import race_plan
from engine.records import Sampling
from engine.requests.limits import TRIED_BUDGETS, check_int
from engine.requests.prompts import Prompt, prompts_from
from explorer.bounded_dict import BoundedDict
from explorer.rig import Instruments
from explorer.uploads import Uploads

TITLES: Mapping[str, str] = MappingProxyType({
    "all": "All categories", "math": "Arithmetic word problems", "code": "Small Python functions",
    "explain": "Questions and answers", "mixed": "A word problem and its function", "bench": "Benchmark: math and code",
    "check": "Exactness check"})
MAX_UPLOAD_BYTES = 8 * 2**20  # of a prompt file
MAX_FILE_PROMPTS = 10_000  # a sweep takes a tenth of them
MAX_UPLOADS = 8  # files that are remembered


class PromptSet(TypedDict):
    """A set of prompts in the list of all."""

    name: str
    title: str
    count: int


class PromptSets:
    """Prompts by the name of their set."""

    def __init__(self) -> None:
        shipped = shipped_sets()
        self._shipped = {name: (TITLES.get(name, name), prompt_set(name))
                         for name in (*TITLES, *shipped) if name in shipped}
        self.uploads = Uploads(MAX_UPLOAD_BYTES)
        self._uploaded = BoundedDict[str, tuple[str, tuple[Prompt, ...]]](MAX_UPLOADS)

    @property
    def _all(self) -> dict[str, tuple[str, tuple[Prompt, ...]]]:
        return {**self._shipped, **self._uploaded}

    def named(self, name: str) -> tuple[Prompt, ...]:
        """Return the prompts of a set; RequestError with the names there are."""
        if name not in self._all:
            raise RequestError(f"There is no prompt set {name[:40]!r}; choose one of {', '.join(self._shipped)}, "
                               "or upload a file.")
        return self._all[name][1]

    def origin(self, name: str) -> str:
        """Return what a sweep records as the source of its prompts: the set's name, or that of the uploaded file."""
        return self._uploaded[name][0] if name in self._uploaded else name

    def view(self) -> list[PromptSet]:
        return [{"name": name, "title": title, "count": len(prompts)} for name, (title, prompts) in self._all.items()]

    def add(self, upload: Mapping[str, Any]) -> str:
        """Remember an uploaded file, {"name", "upload" or "data": see ``Uploads.collect``}; the new set's name.

        RequestError if it is not UTF-8, empty, or has a line that is no prompt: it says which.
        """
        title = Path(str(upload.get("name") or "")).name[:80] or "prompts.jsonl"
        raw = self.uploads.collect(upload)
        name = f"upload-{uuid4().hex[:8]}"
        prompts = tuple(prompts_from(raw, title))
        if len(prompts) > MAX_FILE_PROMPTS:
            raise RequestError(f"{title} has {len(prompts):,} prompts; at most {MAX_FILE_PROMPTS:,} are taken, so "
                               "split it.")
        self._uploaded[name] = title, prompts
        return name


MAX_PROMPTS, MAX_SWEEP_REPEATS, MAX_RACE_REPEATS = 1000, 100, 20
MAX_SWEEP_RUNS = 20_000  # over five hours, at a second each
MAX_LIST_ITEMS = 64
OFFERED_BUDGETS = (AUTO, *TRIED_BUDGETS)  # as chips; other numbers can be typed
LIMITS: Mapping[str, float] = MappingProxyType({  # the most that each number of the forms may be
    "prompts": MAX_PROMPTS, "repeats": MAX_SWEEP_REPEATS, "items": MAX_LIST_ITEMS,
    **{name: max_value(name, page=True) for name in ("max_tokens", "temperature", "budget")}})


class SweepForm(TypedDict):
    """What the lab's form asks for."""

    set: str
    prompts: int
    methods: list[str]
    budgets: list[int | str]
    concurrency: list[int]
    split: str
    temperature: float
    repeats: int
    max_tokens: int


# Small enough to be through in well under a minute on the embedded rig; six prompts are as few as have a 95 % interval.
DEFAULT_FORM: SweepForm = {
    "set": "all", "prompts": 6, "methods": [BASELINE, "dflash", "ddtree", "routed", "merged", "joint"],
    "budgets": [AUTO, 16, 32, 64], "concurrency": [1], "split": "total", "temperature": 0.0, "repeats": 1,
    "max_tokens": 128}


def option(form: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Read and check a field that is an option of a run."""
    return check_option(name, form.get(name, default), page=True)


def items(form: Mapping[str, Any], name: str, default: Sequence[Any] | None = None) -> list[Any]:
    """Read a field that is a list; ``settings`` checks its items."""
    value = form.get(name, default)
    if not isinstance(value, list | tuple):
        raise RequestError(f"The {name} are {str(value)[:40]!r}; they have to be a list.")
    if len(value) > MAX_LIST_ITEMS:
        raise RequestError(f"There are {len(value):,} {name}; at most {MAX_LIST_ITEMS} are taken.")
    return list(value)


def check_drafting(methods: Sequence[str]) -> None:
    """Raise RequestError if none of these methods drafts."""
    if not set(methods) - {BASELINE}:
        raise RequestError(f"No method besides {BASELINE} is chosen; choose at least one that drafts.")


def sweep_plan_from(form: Mapping[str, Any], sets: PromptSets, instruments: Instruments) -> SweepPlan:
    """Check a ``SweepForm`` and make its plan; RequestError names the wrong field."""
    methods, laboratory = list(map(str, items(form, "methods"))), instruments.laboratory
    check_drafting(methods)
    name = str(form.get("set") or "all")
    chosen_settings = settings(
        methods, items(form, "budgets"), option(form, "split", "total"),
        sampling=Sampling(option(form, "temperature")), concurrency=items(form, "concurrency", [1]))
    count = check_int("How many prompts", form.get("prompts"), 1, MAX_PROMPTS)
    plan = SweepPlan(
        prompts=sets.named(name)[:count], settings=chosen_settings,
        repeats=check_int("Repeats", form.get("repeats"), 1, MAX_SWEEP_REPEATS), max_tokens=option(form, "max_tokens"),
        rig=instruments.opened_as, dtype=laboratory.conditions.dtype, prompt_set=sets.origin(name))
    if len(plan) > MAX_SWEEP_RUNS:
        raise RequestError(f"The sweep has {len(plan):,} runs (prompts × settings × repeats); at most "
                           f"{MAX_SWEEP_RUNS:,} are taken, so choose fewer of them.")
    check(plan, laboratory.methods, laboratory.drafters)
    return plan


def repeated_plan(plan: SweepPlan, line: str, instruments: Instruments) -> SweepPlan:
    """Return the plan that measures the curve ``line`` of an earlier plan again, and plain decoding, on the loaded rig.
    RequestError if the rig cannot."""
    laboratory = instruments.laboratory
    chosen = tuple(setting for setting in plan.settings if setting.curve_label == line or not setting.drafts)
    repeated = replace(plan, settings=chosen, rig=instruments.opened_as, dtype=laboratory.conditions.dtype)
    check_drafting([setting.method for setting in chosen])
    check(repeated, laboratory.methods, laboratory.drafters)
    return repeated


def race_plan_from(form: Mapping[str, Any], instruments: Instruments) -> SweepPlan:
    """Check the form of a race and make its plan, the tracks of a method next to each other.

    The fields are ``prompt`` and the ``turns`` before it, the ``methods`` with a track at the node ``budget`` and those
    with one at ``auto``, ``split``, ``temperature``, ``repeats``, ``max_tokens``.
    """
    fixed, auto = (list(map(str, items(form, name, ()))) for name in ("methods", "auto"))
    check_drafting([*fixed, *auto])
    sampling, split = Sampling(option(form, "temperature")), option(form, "split", "total")
    order = list(METHODS)
    tracks = sorted({*settings(fixed, [option(form, "budget")], split, sampling=sampling),
                     *settings(auto, [AUTO], split, sampling=sampling)},
                    key=lambda setting: (order.index(setting.method), setting.pace != FIXED))
    return race_plan(SweepPlan(
        (Prompt(option(form, "prompt"), turns=option(form, "turns", ())),), tuple(tracks),
        check_int("Repeats", form.get("repeats"), 1, MAX_RACE_REPEATS), option(form, "max_tokens"),
        rig=instruments.opened_as, dtype=instruments.laboratory.conditions.dtype))
