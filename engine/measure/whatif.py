"""A what-if on a rig: from a text that the target wrote, every method's forecast at every budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import MOST_AUTO
from engine.decoding.methods import METHODS, method_named
from engine.decoding.plan import Drafter
from engine.drafters.abilities import ReadText, ReplayDrafter, read_text
from engine.errors import RequestError
from engine.lab.planning import tidy_budgets
from engine.lab.replay import Grower, KnownText, TextPass, reread
from engine.lab.sweeping import Progress
from engine.lab.whatif import Forecast, Point, WhatIf, builders_of, forecasts, gain, points
from engine.records import Proposals, Request
from engine.requests.limits import TRIED_BUDGETS
from engine.serving.rig import Rig
from engine.trace import Trace, committed_ids

MOST_DEPARTURES = 0.1  # of the tokens may differ from the target's choices; with more, another model wrote the text


@dataclass(frozen=True)
class RunText:
    """A text and how it was written. ``drafters`` are those of its run; methods with as many drafters use them too."""

    prompt: str
    request: Request
    token_ids: tuple[int, ...]
    drafters: tuple[str, ...] = ()

    @property
    def context(self) -> int:
        """The prefix length in the middle of the text, in tokens."""
        return len(self.request.prompt_ids) + len(self.token_ids) // 2


def written(trace: Trace) -> RunText:
    """The text of a recorded or finished run."""
    header = trace.header
    token_ids = tuple(committed_ids(entry.round for entry in trace.entries))
    return RunText(header.prompt, header.request, token_ids, header.drafters)


@dataclass(frozen=True)
class Alternatives:
    """What to replay the text with: node budgets, and methods; without any method, all that can be replayed.

    With a cost curve the speed of each is predicted, and ``auto`` is among the budgets.
    """

    budgets: Sequence[int] = TRIED_BUDGETS
    methods: Sequence[str] = ()
    curve: CostCurve | None = None


def what_if(rig: Rig, text: RunText, tried: Alternatives, progress: Progress | None = None) -> WhatIf:
    """The forecast of every alternative; ``progress`` is told the progress. The caller has to hold the rig.

    RequestError where the text is empty or not this target's, or where a method cannot be replayed.
    """
    budgets = _checked(rig, text, tried.budgets)
    began = perf_counter()
    tried_points = points(_drafters(rig, text, tried.methods))
    progress = progress or Progress()
    progress.expect(len(tried_points) + 1)
    progress.begin("The target reads the text again.")
    again = reread(text.request, text.token_ids, rig.target)
    departures = _departures(text, again)
    known = KnownText(np.asarray(text.token_ids, np.int32), len(text.request.prompt_ids), rig.target.context_limit)
    growers = _growers(rig, text, again, (tried_points, known, max(budgets)))
    done: list[Forecast] = []
    for point in tried_points:
        progress.begin(f"The method {point.method} at every budget.")
        done += forecasts(point, budgets, known, growers, tried.curve)
    gains = [gain(point, max(budgets), known, growers) for point in tried_points if point.drafters]
    target = rig.target
    return WhatIf(
        text.prompt, rig.name, target.hardware, target.dtype,
        text.request.sampling, known.start, len(text.token_ids), departures, tuple(done), tuple(gains), tried.curve,
        perf_counter() - began)


def live_what_if(rig: Rig, text: RunText, tried: Alternatives, progress: Progress | None = None) -> WhatIf:
    """``what_if``, once no run holds the rig."""
    with rig.exclusive("while other budgets were replayed"):
        return what_if(rig, text, tried, progress)


def _checked(rig: Rig, text: RunText, budgets: Sequence[int]) -> tuple[int, ...]:
    if not text.token_ids:
        raise RequestError("The run wrote no token, so there is nothing to replay; choose one that has text.")
    vocabulary = rig.target.config.vocab_size
    most = max(*text.request.prompt_ids, *text.token_ids)
    length = len(text.request.prompt_ids) + len(text.token_ids)
    if most >= vocabulary or length > rig.target.context_limit:
        raise RequestError(
            f"The text was not written by {rig.name}: it has token {most} and {length} positions, where the target "
            f"knows {vocabulary} tokens and {rig.target.context_limit} positions.")
    return tidy_budgets(budgets)


def _departures(text: RunText, again: TextPass) -> int:
    count = int((again.choice != np.asarray(text.token_ids)).sum())
    if count > max(1, MOST_DEPARTURES * len(text.token_ids)):
        raise RequestError(
            f"The target would have chosen another token at {count} of {len(text.token_ids)} places: the text was "
            "written by other weights or under other sampling settings, so open the rig that wrote it.")
    return count


def _drafters(rig: Rig, text: RunText, methods: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The drafters of each method by name; without ``methods``, of all methods that can be replayed on this rig."""
    asked = method_named(text.request.method)
    chosen = {}
    for method in methods or [name for name, row in METHODS.items() if row.replayable]:
        row = method_named(method)
        if not row.replayable:
            raise RequestError(
                f"The method {method} cannot be replayed: a what-if needs a method that follows the text (walk) over "
                f"drafters whose proposals do not depend on the budget (block diffusion), not {row.accept} over "
                f"{row.family}.")
        alike = (row.family, row.drafter_count) == (asked.family, asked.drafter_count)
        if not methods and row.drafter_count not in (0, *rig.defaults):
            continue
        drafters = rig.drafters_for(method, text.drafters if alike else ())
        if methods or all(isinstance(drafter, ReplayDrafter) for drafter in drafters.values()):
            chosen[method] = tuple(drafters)
    return chosen


def _growers(rig: Rig, text: RunText, again: TextPass, wanted: tuple[list[Point], KnownText, int]) -> dict[
        tuple[str, str], Grower]:
    """A grower for each drafter and builder, over the drafter's proposals at every place."""
    tried_points, known, most = wanted
    read = read_text(text.request.prompt_ids, text.token_ids, again.features)
    most = max(most, MOST_AUTO)
    drafters = {name: drafter for point in tried_points
                for name, drafter in rig.drafters_for(point.method, point.drafters).items()}
    proposed = {name: _proposed(name, drafter, read, most) for name, drafter in drafters.items()}
    return {(drafter, build): Grower(known, proposed[drafter], build, most)
            for drafter, build in builders_of(tried_points)}


def _proposed(name: str, drafter: Drafter, text: ReadText, width: int) -> Proposals:
    if not isinstance(drafter, ReplayDrafter):
        raise RequestError(f"The drafter {name} is a {type(drafter).__name__}, whose proposals depend on the budget; a "
                           "what-if needs one that proposes the same whatever the budget, such as a block-diffusion "
                           "drafter.")
    return drafter.proposals(text, width)
