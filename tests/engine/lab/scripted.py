"""A laboratory without torch: the toy target and drafters in the real loop, with fixed times.

A prompt's text becomes the token ids, so prompts differ. A round costs 1 ms and 10 µs per row, so tests know which
setting is fastest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from threading import Event
from typing import Any

from engine.budget.auto import AutoBudget
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import DecodeRun
from engine.errors import RequestError
from engine.lab.reading import Reading, read_concurrent, reading_from
from engine.lab.report import Record, report
from engine.lab.settings import CellResult, Conditions, SweepPlan, measuring_order, settings
from engine.lab.store import Store, StoredSweep
from engine.lab.sweeping import LocalWorkers, SweepProgress, run_sweep
from engine.records import PromptRequest, Request, Round
from engine.requests.prompts import Prompt
from engine.trace import Piece
from tests.engine.helpers import drafters_of
from tests.engine.toy import ToyTarget

VOCABULARY = 12
ROUND_SECONDS, ROW_SECONDS, PREFILL_SECONDS = 1e-3, 1e-5, 5e-3
ROWS = (1, 3, 5, 9, 17, 33, 65, 129, 257)
PASSES_MS = tuple(1e3 * (ROUND_SECONDS + ROW_SECONDS * rows) for rows in ROWS)
CURVE = CostCurve("toy", "no hardware", "float32", "greedy", 64, 5, ROWS, PASSES_MS, PASSES_MS, PASSES_MS,
                  (0.0,) * len(ROWS), 0.0, PASSES_MS[0])
REFUSED_PROMPT = "The prompt is empty; write at least one character."
WALKERS = ("autoregressive", "dflash", "ddtree", "routed", "merged", "joint")


def run_of(ask: PromptRequest, target: ToyTarget) -> DecodeRun:
    """Return the toy's run for a request; an empty prompt is refused."""
    if not ask.prompt.strip("!"):
        raise RequestError(REFUSED_PROMPT)
    prompt = [1 + ord(sign) % (VOCABULARY - 1) for sign in ask.prompt]
    request = Request(tuple(prompt), **ask.shared())
    policy = AutoBudget(CURVE, pools_rows=False) if ask.pace == AUTO else None
    return DecodeRun(request, target.fork(), drafters_of(ask.method, target), policy)


def rounds_of(prompt: str | PromptRequest, method: str = "ddtree", **changes: Any) -> list[Round]:
    """Return the toy's rounds for a request, or for a prompt and a method."""
    ask = PromptRequest(prompt, method=method, **changes) if isinstance(prompt, str) else prompt
    return list(run_of(ask, ToyTarget(VOCABULARY, context_limit=512)).rounds())


def scripted_reading(rounds: Sequence[Round], slowness: float = 1.0) -> Reading:
    """Return the reading of these rounds with the scripted times."""
    spent = [slowness * (ROUND_SECONDS + ROW_SECONDS * len(round_.tree)) for round_ in rounds]
    timed = [replace(round_, seconds={"verify": seconds}) for round_, seconds in zip(rounds, spent, strict=True)]
    return reading_from(timed, [PREFILL_SECONDS + spent[0], *spent[1:]] if spent else [])


@dataclass
class ScriptedLaboratory:
    """Implement ``lab.sweeping.Laboratory``; each run is slower than the one before by ``drift``."""

    hardware: str = "no hardware"
    drift: float = 0.0
    methods: Sequence[str] = WALKERS
    drafters: Sequence[str] = ("math", "code")
    asked: list[PromptRequest] = field(default_factory=list)
    turns: "count[int]" = field(default_factory=count)

    @property
    def conditions(self) -> Conditions:
        return Conditions("toy", self.hardware, "float32", {"toy": "1"})

    def measure(self, ask: PromptRequest) -> Reading:
        self.asked.append(ask)
        return scripted_reading(rounds_of(ask), 1 + self.drift * next(self.turns))

    def measure_concurrent(self, ask: PromptRequest, others: Sequence[PromptRequest], concurrency: int) -> Reading:
        """Read the toy's rounds among others, with the scripted time of a batch of trees of that size."""
        self.asked.append(ask)
        target = ToyTarget(VOCABULARY, context_limit=512)
        measured = read_concurrent(
            run_of(ask, target), [partial(run_of, other, target) for other in others], concurrency)
        spent = tuple(ROUND_SECONDS + ROW_SECONDS * concurrency * rows for rows in measured.rows)
        return replace(measured, round_seconds=spent, prefill_seconds=PREFILL_SECONDS,
                       stage_seconds={"verify": sum(spent)})

    def cost(self, ask: PromptRequest) -> CostCurve:
        run_of(ask, ToyTarget(VOCABULARY))  # refuses an empty prompt, as the live laboratory does
        return CURVE

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return {token: f"<{token}>" for token in token_ids}

    def text_pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        return [f"<{token}>" for token in token_ids]


def toy_plan(prompts: int = 3, repeats: int = 2, methods: Sequence[str] = ("ddtree", "joint"),
             budgets: Sequence[int | str] = (4, 16), **choices: Any) -> SweepPlan:
    """Return the plan of a small sweep of the toy over different prompts."""
    texts = tuple(Prompt(f"{number} and {number * number}", ("even", "odd")[number % 2]) for number in range(prompts))
    return SweepPlan(texts, settings(methods, budgets, **choices), repeats, max_tokens=24, rig="toy", dtype="float32",
                     prompt_set="bench")


def measure_all(plan: SweepPlan, laboratory: ScriptedLaboratory | None = None) -> list[CellResult]:
    """Return the result of every cell in the plan's order."""
    tasks = [plan.task(cell) for cell in measuring_order(plan)]
    return list(LocalWorkers(laboratory or ScriptedLaboratory()).work(tasks, Event()))


def report_of(plan: SweepPlan, measured: Sequence[CellResult]) -> Record:
    """Return the report of a plan's results."""
    return report(StoredSweep(3, "2026-11-21", plan, ScriptedLaboratory().conditions, len(measured)), measured, CURVE)


def with_readings(measured: Sequence[CellResult], change: Callable[[CellResult, Reading], Reading]) -> list[CellResult]:
    """Return the results with changed readings."""
    return [replace(result, reading=change(result, result.reading)) if result.reading else result
            for result in measured]


def slower(reading: Reading, times: float) -> Reading:
    """Return the reading of a run that took ``times`` as long."""
    return replace(reading, round_seconds=tuple(times * spent for spent in reading.round_seconds))


def advance_sweep(store: Store, number: int, laboratory: ScriptedLaboratory | None = None,
                  cells: int = 0) -> list[SweepProgress]:
    """Run a sweep to its end, or until ``cells`` cells are done, and return its steps."""
    stop, steps = Event(), []
    for step in run_sweep(store, number, LocalWorkers(laboratory or ScriptedLaboratory()), stop):
        steps.append(step)
        if step.done == cells:
            stop.set()
    return steps
