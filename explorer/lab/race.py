"""A race as the page shows it: lanes with their clocks, their text round by round, and sentences about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from engine.decoding.budget_policy import FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.planning import Choice, settings
from engine.lab.race import Lane, Race, lanes, race_plan, run_race
from engine.lab.settings import BASELINE, CellResult, Laboratory, Setting, SweepPlan
from engine.records import Sampling
from engine.requests.prompts import Prompt
from engine.trace import Piece, joined
from explorer.lab.style import label_of
from explorer.lab.sweep_form import listed
from explorer.run_form import (
    BudgetField,
    MaxTokensField,
    PromptField,
    TemperatureField,
    TurnsField,
    asked_for,
    whole_in,
)
from explorer.run_queue import Job
from explorer.view import View

MOST_RACE_REPEATS = 20
BROKEN = "\ufffd"  # what bytes that are no whole character yet are read as


def _racers(value: Any) -> tuple[str, ...]:
    return tuple(name for name in map(str, listed("methods", value or ())) if name != BASELINE)


class RaceForm(BaseModel):
    """What a person asks of a race: a prompt and the turns before it, the methods with a lane at the node budget, and
    those with a lane of budget=auto."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt: PromptField = asked_for()
    turns: TurnsField = ()
    methods: Annotated[tuple[str, ...], BeforeValidator(_racers)] = ()
    auto: Annotated[tuple[str, ...], BeforeValidator(_racers)] = ()
    budget: BudgetField = asked_for()
    split: Annotated[str, BeforeValidator(lambda value: str(value or "total"))] = "total"
    temperature: TemperatureField = asked_for()
    repeats: Annotated[int, whole_in("Repeats", 1, MOST_RACE_REPEATS)] = asked_for()
    max_tokens: MaxTokensField = asked_for()

    def settings(self) -> tuple[Setting, ...]:
        """The settings that race, those of a method next to each other."""
        if not self.methods + self.auto:
            raise RequestError(f"No method besides {BASELINE} is chosen; choose at least one that drafts.")
        choice = Choice(self.methods, (self.budget,), self.split, sampling=Sampling(self.temperature))
        paced = replace(choice, methods=self.auto, budgets=(), auto_budget=MOST_AUTO)
        order = {name: place for place, name in enumerate(METHODS)}
        return tuple(sorted({*settings(choice), *settings(paced)},
                            key=lambda setting: (order[setting.method], setting.pace != FIXED)))


def race_plan_from(form: Mapping[str, Any], laboratory: Laboratory, rig: str) -> SweepPlan:
    """The checked plan of a race; RequestError names the field of ``RaceForm`` that is wrong."""
    filled = RaceForm.model_validate(dict(form))
    return race_plan(SweepPlan(
        (Prompt(filled.prompt, turns=filled.turns),), filled.settings(), filled.repeats, filled.max_tokens, rig=rig,
        dtype=laboratory.conditions.dtype))


def run(laboratory: Laboratory, plan: SweepPlan, job: Job) -> View:
    """Measure the race; the job holds its progress."""
    results: list[CellResult] = []
    job.total, job.message = len(plan), "Warming up: every lane runs once, unmeasured."
    for measured in run_race(laboratory, plan, job.stop):
        results.append(measured)
        job.done, job.message = len(results), ""
    return race_view(lanes(plan, results, laboratory), plan)


def race_view(race: Race, plan: SweepPlan) -> View:
    """{prompt, repeats, temperature, seconds: of the longest lane, lanes}."""
    greedy = all(setting.temperature == 0 for setting in plan.settings)
    return {"prompt": plan.prompts[0].text, "repeats": plan.repeats, "greedy": greedy, "dtype": plan.dtype,
            "seconds": max((lane.seconds[-1] for lane in race.lanes if lane.seconds), default=0.0),
            "lanes": [lane_view(lane, race.pieces) for lane in race.lanes]}


def lane_view(lane: Lane, pieces: Mapping[int, Piece]) -> View:
    """A lane; ``parts`` is what each round added to the text."""
    token_ids = lane.shown.token_ids if lane.shown else ()
    return {
        "label": label_of(lane.setting), "method": lane.setting.method, "budget": lane.setting.budget,
        "split": lane.setting.split, "seconds": list(lane.seconds), "tokens": list(lane.tokens),
        "parts": parts(pieces, token_ids, lane.tokens), "tau": lane.tau, "failure": lane.failure,
        "tokens_per_second": asdict(lane.tokens_per_second) if lane.tokens_per_second else None,
        "speedup": asdict(lane.speedup) if lane.speedup else None, "withheld": lane.withheld,
        "difference": difference(lane, pieces)}


def parts(pieces: Mapping[int, Piece], token_ids: Sequence[int], ends: Sequence[int]) -> list[str]:
    """The text that each round added; a character whose bytes two rounds share belongs to the later one."""
    texts = [joined(pieces, token_ids[:end]).rstrip(BROKEN) for end in ends]
    if texts:
        texts[-1] = joined(pieces, token_ids[:ends[-1]])
    return [text[len(before):] for before, text in zip(["", *texts], texts, strict=False)]


def difference(lane: Lane, pieces: Mapping[int, Piece]) -> str:
    """Where the text first differs from plain decoding's, in a sentence; empty for the same text."""
    first = lane.difference
    if first is None:
        return ""
    ours, theirs = (joined(pieces, [token]) if token >= 0 else "the end" for token in (
        first.token, first.baseline_token))
    gap = "" if first.gap is None else f" There the target's two log probabilities were {first.gap:.2g} nats apart."
    return f"Differs from plain decoding at token {first.place + 1}: {ours!r} instead of {theirs!r}.{gap}"
