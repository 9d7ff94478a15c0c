"""The plain loop that the benchmark compares with commits what the engine commits."""

import pytest

from engine.decoding.loop import decode
from engine.measure.plain import PlainLoop
from engine.records import Request
from tests.engine.small import small_drafter, small_target


@pytest.mark.parametrize(("budget", "window"), [(1, 0), (7, 0), (24, 0), (7, 5)])
def test_the_plain_loop_commits_the_same_rounds(budget: int, window: int) -> None:
    target = small_target()
    drafter = small_drafter(target, window=window)
    request = Request(tuple(range(5, 25)), method="ddtree", budget=budget, max_tokens=40)
    loop = PlainLoop(target, drafter)
    plain = list(loop.rounds(request, loop.open(request)))
    assert all(loop.seconds[stage] > 0 for stage in ("draft", "build", "pack", "verify", "accept", "keep"))
    assert plain == [made.committed.tolist() for made in decode(request, target, [drafter])]
