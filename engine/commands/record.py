"""Makes the shipped recordings: runs of a rig, each with a title and a note on what it shows.

    python -m engine record --rig demo
    python -m engine record --rig smollm2

Each row of the JSON file plans a recording. It is run twice and the second run is kept, because the first use of cold
memory is slow. If another row plans plain decoding of the same prompt, both get the seconds of a third, interleaved
run. The drafting one also gets a curve: its prompt at several budgets, each interleaved with plain decoding. Let the
machine be idle: a budget that other programs disturbed has no point in the curve.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from tqdm import tqdm

from engine import open_rig
from engine.commands import Outcome, aligned, flags
from engine.decoding.methods import METHODS
from engine.decoding.options import prompt_request
from engine.errors import RequestError
from engine.lab.against_plain import InterleavedTiming, cumulative_times, speed_beside_plain
from engine.machine.files import open_file
from engine.records import PromptRequest
from engine.requests.rig_names import RIGS_FOLDER
from engine.serving.rig import Rig
from engine.trace import MeasuredBudget, Trace, as_recording, dump, tau, trace_from_lines

TRACES = RIGS_FOLDER / "traces"
MIN_BRANCHES, MIN_REFUSED = 3, 5  # of the round that the film shows
CURVE_BUDGETS = (1, 2, 3, 4, 6, 8, 16, 32, 64)
CURVE_REPEATS = 3


class RecordingPlan(BaseModel):
    """A run to record; ``name`` is its file's name, and further fields are options of the run. ``film_round``, from 1,
    is the round that the page's film shows."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str = Field(pattern=r"^[\w-]{1,100}$")
    title: str
    note: str
    prompt: str
    film_round: int = 0

    @cached_property
    def request(self) -> PromptRequest:
        return prompt_request({**(self.model_extra or {}), "prompt": self.prompt})


def read_plans(path: Path) -> list[RecordingPlan]:
    """Return the plans of a file; RequestError names the row and the field that is wrong."""
    with open_file(path) as file:
        data = file.read()
    try:
        plans = TypeAdapter(list[RecordingPlan]).validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RequestError(f"{path.name} is no plan of recordings: {place or 'it'} is {first['input']!r:.40}. "
                           f"{first['msg'][:200]}.") from error
    if not plans:
        raise RequestError(f"{path.name} is no plan of recordings: it holds none.")
    for number, plan in enumerate(plans, start=1):
        try:
            plan.request  # noqa: B018 - checked here
        except RequestError as error:
            raise RequestError(f"{path.name}, recording {number}: {error}") from error
    return plans


def add(parser: argparse.ArgumentParser) -> None:
    flags.add_flags(parser, "--rig", "--dtype")
    parser.add_argument("--plans", "--lessons", type=flags.readable_file, metavar="FILE",
                        help="what to record (default: assets/traces/lessons-RIG.json, else lessons.json)")
    parser.add_argument("--out", type=flags.parse_folder, metavar="FOLDER",
                        help="where the traces go (default: assets/traces)")


def plans_file(rig: str) -> Path:
    path = TRACES / f"lessons-{Path(rig).name}.json"
    return path if path.is_file() else TRACES / "lessons.json"


def record(rig: Rig, plan: RecordingPlan, today: str) -> Trace:
    trace_from_lines(rig.run(plan.request))
    return as_recording(trace_from_lines(rig.run(plan.request)), plan.title, plan.note, today)


def check_film_round(trace: Trace, plan: RecordingPlan) -> None:
    """Raise RequestError if the round that the film would show has too few branches or refused guesses."""
    if plan.film_round > len(trace.entries):
        raise RequestError(f"{plan.name} has {len(trace.entries)} rounds, so the film cannot show round "
                           f"{plan.film_round}.")
    shown = trace.entries[plan.film_round - 1].round
    branches = len(shown.tree) - len(set(shown.tree.parents[1:].tolist()))
    refused = len(shown.tree) - len(shown.acceptance.keep)
    if branches < MIN_BRANCHES or refused < MIN_REFUSED:
        raise RequestError(f"Round {plan.film_round} of {plan.name} has {branches} branches and {refused} refused "
                           f"guesses; the film needs {MIN_BRANCHES} and {MIN_REFUSED}.")


def pairs(plans: Sequence[RecordingPlan]) -> Iterator[tuple[RecordingPlan, RecordingPlan]]:
    """Yield each plan of plain decoding behind the first that drafts for the same prompt."""
    for plain in plans:
        same = replace(plain.request, method="", budget=0)
        drafting = (plan for plan in plans if METHODS[plan.request.method].drafter_count != 0
                    and replace(plan.request, method="", budget=0, drafters=()) == same)
        if METHODS[plain.request.method].drafter_count == 0 and (first := next(drafting, None)):
            yield first, plain


def interleaved(rig: Rig, request: PromptRequest, plain: PromptRequest) -> InterleavedTiming:
    with rig.interleaved([request, plain]) as sources:
        timing = InterleavedTiming(*sources)
        while timing.advance():
            pass
    return timing


def measure_curve(rig: Rig, plan: RecordingPlan, plain: RecordingPlan) -> tuple[MeasuredBudget, ...]:
    """Time a plan's prompt at several budgets; a budget whose speed-up is withheld has no point."""
    points = []
    for budget in sorted({*CURVE_BUDGETS, plan.request.budget}):
        request = replace(plan.request, budget=budget)
        timings = [interleaved(rig, request, plain.request) for _ in range(CURVE_REPEATS)]
        rounds = timings[0].rounds
        speed = speed_beside_plain([pair for timing in timings for pair in timing.pairs], rounds)
        if not speed.withheld:
            low, high = map(float, speed.range.split(" to "))
            points.append(MeasuredBudget(budget, round(tau(rounds), 3), round(speed.ratio, 4), low, high))
    return tuple(points)


def time_interleaved(rig: Rig, traces: Sequence[Trace], plans: Sequence[RecordingPlan]) -> list[Trace]:
    """Return the traces of a plan and of plain decoding, with the seconds of interleaved runs."""
    timing = interleaved(rig, *(plan.request for plan in plans))
    timed = []
    for trace, rounds in zip(traces, (timing.rounds, timing.plain), strict=True):
        first, (_, clock) = trace.entries[0], cumulative_times(rounds)
        prefill = max(0.0, first.elapsed_seconds - sum(first.round.seconds.values()))
        entries = tuple(
            replace(entry, round=replace(entry.round, seconds=round_.seconds), elapsed_seconds=prefill + spent)
            for entry, round_, spent in zip(trace.entries, rounds, clock, strict=True))
        timed.append(replace(trace, header=replace(trace.header, interleaved=True), entries=entries,
                             end=replace(trace.end, seconds=entries[-1].elapsed_seconds)))
    return timed


def run(args: argparse.Namespace) -> Outcome:
    plans = read_plans(args.plans or plans_file(args.rig))
    rig, today = open_rig(args.rig, args.dtype), date.today().isoformat()
    for plan in plans:
        rig.drafters_for(plan.request.method, plan.request.drafters)  # refused before anything is recorded
    traces = {plan.name: record(rig, plan, today) for plan in tqdm(plans, unit="recording")}
    for pair in pairs(plans):
        names = [plan.name for plan in pair]
        drafting, plain = time_interleaved(rig, [traces[name] for name in names], pair)
        header = replace(drafting.header, curve=measure_curve(rig, *pair))
        traces |= zip(names, (replace(drafting, header=header), plain), strict=True)
    rows, faults = [], []
    for plan in plans:
        try:
            if plan.film_round:
                check_film_round(traces[plan.name], plan)
        except RequestError as error:  # another machine's rounding may write another text
            faults.append(f"\n{error} Name another film_round.")
    for name, trace in traces.items():
        dump(trace, (args.out or TRACES) / f"{name}.jsonl.gz")
        rounds = trace.rounds
        rows.append({"name": name, "method": trace.header.request.method, "tau": round(tau(rounds), 4),
                     "rounds": len(rounds), "end": trace.end.reason, "budgets": len(trace.header.curve)})
    return Outcome({"recordings": rows}, aligned([
        ["recording", "method", "τ", "rounds", "end", "budgets of its curve"], *(list(row.values()) for row in rows)])
        + f"\n{len(rows)} recordings made." + "".join(faults))
