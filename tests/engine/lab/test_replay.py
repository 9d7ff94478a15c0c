"""What-if on the toy: the replay of a known text equals the real run in every round."""

from dataclasses import replace

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.replay import KnownText, Replay, forecasts, gain, read_known_text
from engine.lab.settings import Setting
from engine.records import Lattice, Request, Sampling
from engine.requests.limits import TRIED_BUDGETS
from tests.engine.helpers import GREEDY, WARM, decode
from tests.engine.toy import ToyDrafter, ToyTarget

PROMPT = (1, 2, 3)
TARGET = ToyTarget(vocabulary=8, context_limit=80)
DRAFTERS = {f"drafter{seed}": ToyDrafter(TARGET, depth=6, seed=seed) for seed in range(2)}
PLAIN = Setting("autoregressive", 0)
REPLAYED = [Setting(name, 0, split, tuple(DRAFTERS)[:row.drafter_count]) for name, row in METHODS.items()
            if row.replayable and row.drafter_count for split in row.splits]
MAX_NODES = 64
SAMPLINGS = pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])


def request_of(sampling: Sampling, **changes: object) -> Request:
    return Request(PROMPT, **{"max_tokens": 40, "sampling": sampling, **changes})  # type: ignore[arg-type]


def real_rounds(request: Request, point: Setting, budget: int) -> list[tuple[list[int], int]]:
    """Return the kept tokens and the number of verified rows of a real run's rounds."""
    changed = replace(request, method=point.method, budget=budget, split=point.split)
    rounds = decode(changed, TARGET, [DRAFTERS[name] for name in point.drafters])
    return [(round_.committed.tolist(), len(round_.tree)) for round_ in rounds]


def known_text(request: Request) -> KnownText:
    """Return the text of plain decoding, with each drafter's draft at each position."""
    text = np.asarray([*PROMPT, *(token for kept, _ in real_rounds(request, PLAIN, 0) for token in kept)], np.int32)
    proposals: dict[str, dict[int, Lattice]] = {name: {} for name in DRAFTERS}
    for name, drafter in DRAFTERS.items():
        drafter.begin(len(text))
        drafter.observe(text[:len(PROMPT)], text[:len(PROMPT)])
        for position, token in enumerate(text[len(PROMPT):]):
            proposals[name][position] = drafter.draft(int(token), MAX_NODES)
            drafter.observe(np.asarray([token]), np.asarray([token]))
    return KnownText(text[len(PROMPT):], len(PROMPT), TARGET.context_limit, proposals, MAX_NODES)


ENDS: dict[str, dict[str, object]] = {
    "length": {}, "context": {"max_tokens": 500}, "one": {"max_tokens": 1}, "stop": {}}


@pytest.mark.slow
@SAMPLINGS
@pytest.mark.parametrize("end", ENDS)
def test_a_replay_equals_the_real_run_in_every_round(sampling: Sampling, end: str) -> None:
    request = request_of(sampling, **ENDS[end])
    known = known_text(request)
    if end == "stop":
        request = request_of(sampling, stop_ids=frozenset([int(known.token_ids[12])]))
        known = known_text(request)
        assert len(known.token_ids) <= 12
    for point in REPLAYED:
        for budget in (0, 1, 7, 16, MAX_NODES):
            steps = [(known.token_ids[step.position:step.position + len(step.keep)].tolist(), len(step.tree))
                     for step in Replay(point, known).steps(budget)]
            assert steps == real_rounds(request, point, budget), (point, budget)


@SAMPLINGS
def test_the_target_chooses_its_own_text_again(sampling: Sampling) -> None:
    request = request_of(sampling)
    token_ids, released = known_text(request).token_ids, TARGET.released
    again = read_known_text(request, token_ids.tolist(), TARGET)
    assert again.choice.tolist() == token_ids.tolist() and TARGET.released == released + 1
    assert np.concatenate(again.features).tolist() == [*PROMPT, *token_ids]
    strange = (token_ids + 1) % TARGET.vocabulary
    assert (read_known_text(request, strange.tolist(), TARGET).choice != strange).sum() > len(strange) / 3


def test_forecasts_rise_with_the_budget_and_gains_add_up_to_them() -> None:
    known, budgets = known_text(request_of(GREEDY)), TRIED_BUDGETS[:6]
    assert [forecast.tau for forecast in forecasts(PLAIN, budgets, known, None)] == [1.0]
    lines = {point: forecasts(point, budgets, known, None) for point in REPLAYED}
    for point, line in lines.items():
        assert [forecast.setting.budget for forecast in line] == list(budgets)
        assert all(forecast.tokens == len(known.token_ids) and forecast.predicted_ms == 0 for forecast in line)
        assert line[0].tau == 1.0 < line[-1].tau
        node_gains = gain(replace(point, budget=budgets[-1]), known)
        assert sum(node_gains.realised) == pytest.approx(line[-1].tau - 1)
        assert 1 >= node_gains.expected[0] > node_gains.expected[-1] > 0
    halves, total = ([forecast.lengths for forecast in lines[Setting("merged", 0, split, tuple(DRAFTERS))]]
                   for split in ("each", "total"))
    assert halves[1:4] == total[2:5], "split=each equals split=total at twice the budget"


def test_a_method_that_does_not_follow_the_text_is_refused() -> None:
    with pytest.raises(RequestError, match="nanogpt"):
        Replay(Setting("nanogpt"), known_text(request_of(GREEDY)))
