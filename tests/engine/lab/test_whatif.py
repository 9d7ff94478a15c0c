"""What-if on the toy: the replay of a known text is the real run, round for round."""

from dataclasses import replace

import numpy as np
import pytest

from engine.decoding.loop import decode
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.whatif import Grower, KnownText, Point, Replay, builders_of, forecasts, gain, points, reread
from engine.records import Lattice, Request, Sampling
from engine.requests.limits import TRIED_BUDGETS
from tests.engine.material import GREEDY, WARM
from tests.engine.toy import ToyDrafter, ToyTarget

PROMPT = (1, 2, 3)
TARGET = ToyTarget(vocabulary=8, context_limit=80)
DRAFTERS = {f"drafter{seed}": ToyDrafter(TARGET, depth=6, seed=seed) for seed in range(2)}
REPLAYED = [point for point in points({name: tuple(DRAFTERS)[:row.drafter_count] for name, row in METHODS.items()
                                       if row.accept == "walk" and row.family == "dflash"}) if point.drafters]
MOST = 64


def request(sampling: Sampling, **changes: object) -> Request:
    return Request(PROMPT, **{"max_tokens": 40, "sampling": sampling, **changes})  # type: ignore[arg-type]


def real(asked: Request, point: Point, budget: int) -> list[tuple[list[int], int]]:
    """Kept tokens and verified rows of a real run's rounds."""
    changed = replace(asked, method=point.method, budget=budget, split=point.split)
    rounds = decode(changed, TARGET, [DRAFTERS[name] for name in point.drafters])
    return [(made.committed.tolist(), len(made.tree)) for made in rounds]


def known_text(asked: Request) -> KnownText:
    tokens = [token for kept, _ in real(asked, Point("autoregressive", "total", ()), 0) for token in kept]
    return KnownText(np.asarray(tokens, np.int32), len(PROMPT), TARGET.context_limit)


def growers(known: KnownText) -> dict[tuple[str, str], Grower]:
    """Every drafter drafts at every place, as in the loop: observe, draft, observe."""
    proposed: dict[str, list[Lattice]] = {}
    for name, drafter in DRAFTERS.items():
        text = np.asarray([*PROMPT, *known.token_ids], np.int32)
        drafter.begin(len(text))
        drafter.observe(text[:known.start], text[:known.start])
        proposed[name] = []
        for place in range(known.start, len(text)):
            proposed[name].append(drafter.draft(int(text[place]), MOST))
            drafter.observe(text[place:place + 1], text[place:place + 1])
    return {pair: Grower(known, proposed[pair[0]], pair[1], MOST) for pair in builders_of(REPLAYED)}


ENDS: dict[str, dict[str, object]] = {
    "length": {}, "context": {"max_tokens": 500}, "one": {"max_tokens": 1}, "stop": {}}


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("end", ENDS)
def test_a_replay_is_the_real_run_round_for_round(sampling: Sampling, end: str) -> None:
    asked = request(sampling, **ENDS[end])
    known = known_text(asked)
    if end == "stop":
        asked = request(sampling, stop_ids=frozenset([int(known.token_ids[12])]))
        known = known_text(asked)
        assert len(known.token_ids) <= 12
    grown = growers(known)
    for point in REPLAYED:
        rounds = Replay(point, known, grown)
        for budget in (0, 1, 7, 16, MOST):
            steps = [(known.token_ids[step.place:step.place + len(step.keep)].tolist(), len(step.tree))
                     for step in rounds.steps(budget)]
            assert steps == real(asked, point, budget), (point, budget)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_the_target_chooses_its_own_text_again(sampling: Sampling) -> None:
    asked = request(sampling)
    known = known_text(asked)
    released = TARGET.released
    again = reread(asked, known.token_ids.tolist(), TARGET)
    assert again.choice.tolist() == known.token_ids.tolist() and TARGET.released == released + 1
    assert np.concatenate(again.features).tolist() == [*PROMPT, *known.token_ids]
    strange = (known.token_ids + 1) % TARGET.vocabulary
    assert (reread(asked, strange.tolist(), TARGET).choice != strange).sum() > len(strange) / 3


def test_forecasts_have_a_line_a_point_and_tau_never_falls_with_the_budget_of_one_tree() -> None:
    known = known_text(request(GREEDY))
    found = [each for point in (Point("autoregressive", "total", ()), *REPLAYED)
             for each in forecasts(point, TRIED_BUDGETS[:6], known, growers(known), None)]
    assert [each.tau for each in found if each.method == "autoregressive"] == [1.0]
    for point in REPLAYED:
        line = [each for each in found if (each.method, each.split) == (point.method, point.split)]
        assert [each.budget for each in line] == list(TRIED_BUDGETS[:6])
        assert all(each.tokens == len(known.token_ids) and each.predicted_ms == 0 for each in line)
        assert line[0].tau == 1.0 < line[-1].tau
    each_, total = ([f.lengths for f in found if (f.method, f.split) == ("merged", split)] for split in (
        "each", "total"))
    assert each_[1:4] == total[2:5], "a budget for each drafter is half of one for both"


def test_gains_are_the_trees_own_chances_and_what_came_of_them() -> None:
    known = known_text(request(GREEDY))
    grown = growers(known)
    for point in REPLAYED:
        found = gain(point, 32, known, grown)
        lengths = forecasts(point, [32], known, grown, None)[0].lengths
        assert sum(found.realised) == pytest.approx(sum(lengths) / len(lengths) - 1)
        assert found.expected[0] > found.expected[-1] > 0
        assert all(0 <= chance <= 1 for chance in found.expected)


def test_a_method_that_does_not_follow_the_text_is_refused() -> None:
    known = known_text(request(GREEDY))
    with pytest.raises(RequestError, match="accepts by its own draws"):
        Replay(Point("nanogpt", "total", ()), known, {})
