"""What a run would have come to at other budgets, from its rounds so far: each of its drafts becomes a tree of every
size, and the text says what would have been kept of it. Speeds follow from what a pass costs. All of it is predicted:
a run at another budget would begin its rounds at other places."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS, split_rule_of
from engine.errors import RequestError
from engine.lab.whatif import Grower, KnownText, Point, Replay
from engine.records import WAIT, Acceptance, DraftTree, Floats, Integers, Lattice, Round, Verification
from engine.requests.limits import MOST_NODES, whole
from engine.trace import Entry, Trace, committed_ids
from explorer.browser_calls import Call, browser_call
from explorer.rig import CurrentRig
from explorer.view import View, entry_view

BUDGETS = tuple(2**power for power in range(11))
MOST_READ = 128  # rounds of a run, evenly chosen
READ_AT_ONCE = 6  # of a run in progress, whose own times reading disturbs
MOST_RUNS = 16  # whose rounds stay read
EIGHT_IN_TEN = 1.28  # standard errors to either side
NOTHING = Lattice(np.zeros((0, 1, 1), np.int32), np.zeros((0, 1, 1), np.float32), np.zeros((0, 1, 1), np.int32))

Curve = NDArray[np.float64]


class Redrafting:
    """The drafts of a run, to make trees of at any budget; ``places`` are its rounds' in the text, in tokens.

    RequestError where the text does not say what another tree would have kept, or rounds are missing.
    """

    def __init__(self, trace: Trace) -> None:
        header, rounds = trace.header, [entry.round for entry in trace.entries]
        row = METHODS.get(header.request.method)
        if row is None or not row.replayable or row.drafter_count == 0:
            raise RequestError(f"What {header.request.method[:40]} would have kept at other budgets is not known: that "
                               "takes a method that follows the text over drafts that do not depend on the budget.")
        self.trace = trace
        self.places = tuple(accumulate((len(round_.acceptance.keep) for round_ in rounds), initial=0))[:-1]
        if header.chunked or [round_.start for round_ in rounds] != [rounds[0].start + place for place in self.places]:
            raise RequestError("What this run would have kept at other budgets is not known: not all its rounds are "
                               "here.")
        drafts = dict(zip(self.places, (round_.drafts for round_ in rounds), strict=True))
        if not any(drafts.values()):
            raise RequestError(f"None of its {len(rounds)} rounds recorded what a drafter proposed, so no other budget "
                               "can be tried out; choose another run.")
        text = np.asarray(committed_ids(rounds), np.int32)
        known = KnownText(text, rounds[0].start, header.context_limit or 2**31)
        names = [str(drafter) for drafter in range(max(map(len, drafts.values())))]
        growers = {(name, row.build): Grower(known, [(drafts.get(place) or [NOTHING] * len(names))[drafter]
                                                     for place in range(len(text))], row.build, BUDGETS[-1])
                   for drafter, name in enumerate(names)}
        self._replay = Replay(
            Point(header.request.method, header.request.split, tuple(names)), known, growers)

    def tree(self, number: int, budget: int) -> tuple[DraftTree, Integers]:
        """A round's tree at that budget, and the nodes that would have been kept, root first."""
        place = self.places[number]
        tree = self._replay.tree(place, budget)
        return tree, self._replay.known.agreed(place, tree)

    def whole(self, number: int) -> bool:
        """Whether it is known what the round would have kept: it drafted, and the text goes on for as long."""
        deepest = max((draft.depth for draft in self.trace.entries[number].round.drafts), default=0)
        goes_on = self.places[number] + deepest < len(self._replay.known.token_ids)
        return deepest > 0 and (goes_on or self.trace.end.reason == "stop")

    def round_at(self, number: int, budget: int) -> Round:
        """A round as it would have been at that budget. What the target said of a node is taken from the round that was
        made, and unknown (NaN, token −1) where that had no such node."""
        recorded = self.trace.entries[number].round
        tree, keep = self.tree(number, budget)
        after = np.append(self._replay.known.token_ids, self.trace.entries[-1].round.acceptance.bonus)
        following = after[self.places[number] + 1:][:len(keep)]
        same = _counterparts(tree, recorded.tree)
        verified = recorded.verification
        choice = np.where(same >= 0, verified.choice[same], -1).astype(np.int32)
        choice[keep] = following

        def known(values: Floats) -> Floats:
            return np.where(same >= 0, values[same], np.nan).astype(np.float32)

        verification = Verification(choice, *map(known, (
            verified.logprobs, verified.entropy, verified.gap, verified.offered, verified.processed)))
        return replace(recorded, tree=tree, candidates=(tree,), verification=verification,
                       acceptance=Acceptance(keep, int(following[-1])), seconds={})


def _counterparts(tree: DraftTree, other: DraftTree) -> Integers:
    """The node of the other tree with the same path, for each node, (n,) int32; −1 where there is none."""
    def steps(of: DraftTree) -> list[tuple[int, int, int]]:
        return list(zip(*(side.tolist() for side in (of.parents, of.tokens, of.drafters)), strict=True))

    children = {step: node for node, step in enumerate(steps(other)) if node}
    same = [0]
    for parent, token, drafters in steps(tree)[1:]:
        same.append(children.get((same[parent], token, drafters), -1))
    return np.asarray(same, np.int32)


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """A run at every budget, by what its rounds would have kept and verified: kept, rows (rounds, budgets)."""

    trace: Trace
    budgets: Sequence[int]
    kept: Curve
    rows: Curve

    @property
    def tau(self) -> tuple[Curve, Curve, Curve]:
        """Tokens a round at each budget: the mean, and the range in which it lies eight times in ten."""
        mean = self.kept.mean(0)
        off = EIGHT_IN_TEN * self.kept.std(0) / np.sqrt(max(1, len(self.kept) - 1))
        return mean, np.maximum(1, mean - off), mean + off

    def speed(self, cost: CostCurve) -> tuple[Curve, Curve, Curve]:
        """Predicted tokens per second at each budget, with the range of τ and of the cost. The cost is scaled so that
        it gives the run's own times."""
        factor = self._factor(cost)
        rows = self.rows.mean(0).tolist()

        def speeds(tau: Curve, verify_ms: Sequence[float]) -> Curve:
            priced = replace(cost, verify_ms=tuple(verify_ms))
            spent = [self._ms(priced, row, budget) for budget, row in zip(self.budgets, rows, strict=True)]
            return 1e3 * tau / (factor * np.asarray(spent))

        mean, low, high = self.tau
        return speeds(mean, cost.verify_ms), speeds(low, cost.verify_high_ms), speeds(high, cost.verify_low_ms)

    def _ms(self, cost: CostCurve, rows: float, budget: int) -> float:
        request = self.trace.header.request
        row = METHODS[request.method]
        nodes = max(split_rule_of(row, request.split)(budget, row.drafter_count))
        return cost.round_ms(round(rows), nodes, row.drafter_count)

    def _factor(self, cost: CostCurve) -> float:
        """How much longer the run's own rounds took than the curve says."""
        request = self.trace.header.request
        alone = [entry.round for entry in self.trace.entries if len(entry.round.tree) > 1
                 and WAIT not in entry.round.seconds and entry.round.seconds]
        predicted = sum(self._ms(cost, len(round_.tree),
                                 request.budget if request.pace == FIXED else len(round_.tree) - 1) for round_ in alone)
        return 1e3 * sum(sum(round_.seconds.values()) for round_ in alone) / predicted if predicted else 1.0


class Budgets:
    """The functions with which the browser tunes the budget by eye."""

    def __init__(self, rig: CurrentRig, trace_of: Callable[[str], Trace]) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._read: OrderedDict[str, dict[int, tuple[list[int], list[int]]]] = OrderedDict()
        self._lock = Lock()

    def functions(self) -> list[Call]:
        return [browser_call("budgets", self.curve), browser_call("round_at", self.round_at)]

    def round_at(self, wanted: Mapping[str, Any]) -> View:
        """A round of a run as it would have been: {"run", "round": from 0, "budget"}."""
        drafts = Redrafting(trace := self._trace_of(str(wanted.get("run"))))
        number = whole("The round", wanted.get("round"), 0, len(trace.entries) - 1)
        budget = whole("The node budget", wanted.get("budget"), 0, MOST_NODES)
        if not trace.entries[number].round.drafts:
            raise RequestError("This round drafted nothing, so there is nothing to build another tree from.")
        round_ = drafts.round_at(number, budget)
        return {**entry_view(Entry(round_, {}, trace.entries[number].elapsed_seconds)), "scores": [], "ghosts": []}

    def curve(self, wanted: Mapping[str, Any]) -> View:
        """{"run", "live": whether it goes on}: {"budgets", "rounds": how many were read, "tau", "speed": each null or
        {"mean", "low", "high"}, "plain": tokens/s, 0.0 where it is not known, "withheld": why there is no speed}."""
        run = str(wanted.get("run"))
        trace = self._trace_of(run)
        curve = self._curve(run, trace, bool(wanted.get("live")))
        view: View = {"budgets": list(curve.budgets), "rounds": len(curve.kept), "tau": None, "speed": None,
                      "plain": 0.0, "withheld": ""}
        if not len(curve.kept):
            return view
        view["tau"], (cost, view["withheld"]) = _band_view(curve.tau), self._cost(trace)
        if cost:
            view["speed"], view["plain"] = _band_view(curve.speed(cost)), 1e3 / cost.plain_ms
        return view

    def _curve(self, run: str, trace: Trace, live: bool) -> BudgetCurve:
        run_budget = trace.header.request.budget
        budgets = sorted({*BUDGETS, *([run_budget] if 0 < run_budget <= MOST_NODES else [])})
        drafts = Redrafting(trace)
        usable = [number for number in range(len(trace.entries)) if drafts.whole(number)]
        usable = usable[::-(-len(usable) // MOST_READ) or 1]
        with self._lock:
            read = self._read.setdefault(run, {})
            self._read.move_to_end(run)
            while len(self._read) > MOST_RUNS:
                self._read.popitem(last=False)
            new = [number for number in usable if number not in read]
            for number in new[:READ_AT_ONCE] if live else new:
                trees = [drafts.tree(number, budget) for budget in budgets]
                read[number] = [len(keep) for _, keep in trees], [len(tree) for tree, _ in trees]
            chosen = [read[number] for number in (sorted(read) if live else usable)]
        kept, rows = (np.asarray([pair[side] for pair in chosen], np.float64).reshape(-1, len(budgets))
                      for side in (0, 1))
        return BudgetCurve(trace, budgets, kept, rows)

    def _cost(self, trace: Trace) -> tuple[CostCurve | None, str]:
        """What a pass costs, where it was measured; or why no speed is predicted."""
        source, header = self._rig.source, trace.header
        if (header.rig, header.hardware) != (source.name, source.hardware):
            return None, f"Made by the {header.rig} on {header.hardware}: what a pass costs there is not known here."
        cost = self._rig.instruments.known_cost(trace)
        if cost is None:
            return None, "What a pass costs here is measured after the run."
        return (None, cost.disorder) if cost.disorder else (cost, "")


def _band_view(curves: tuple[Curve, Curve, Curve]) -> View:
    return dict(zip(("mean", "low", "high"), (np.round(curve, 3).tolist() for curve in curves), strict=True))
