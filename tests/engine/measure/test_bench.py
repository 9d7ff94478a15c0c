"""The driver that measures: full rounds alone, all settings on the same texts, and the
published loop, which commits what the engine commits."""

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest

from engine.commands import bench
from engine.commands.program import verb_parser
from engine.decoding.budget_policy import AUTO
from engine.errors import RequestError
from engine.measure.bench import LONE, OFF, SAME, SHARED, BenchPlan, BenchPoint, Tally, full_rounds, measure_cells, run
from engine.measure.published_loop import PublishedLoop
from engine.records import STAGES, Acceptance, DraftTree, Integers, PromptRequest, Request, Round, Verification
from engine.requests.prompts import Prompt
from tests.engine.demo import demo_live
from tests.engine.material import decode
from tests.engine.small import small_drafter, small_target

WORDS = ["--concurrency", "2", "3", "--prompts", "bench", "--hard", "reworded", "--limit", "4", "--max-tokens", "8",
         "--repeats", "1", "--budgets", "4", "8"]


def choice(*more: str) -> argparse.Namespace:
    return verb_parser("bench").parse_args([*WORDS, *more])


def a_round(kept: int, nodes: int, seconds: dict[str, float]) -> Round:
    none: Integers = np.zeros(0, np.int32)
    tree = DraftTree(*(np.zeros(nodes + 1, np.int32),) * 2, np.zeros(nodes + 1, np.float32),
                     np.zeros(nodes + 1, np.int32))
    verification = Verification(none, *(np.zeros(0, np.float32),) * 5)
    return Round(0, 0, (), (), tree, verification, Acceptance(np.arange(kept, dtype=np.int32), 0), seconds)


def lap(verify: float) -> dict[str, float]:
    return dict.fromkeys(STAGES, 0.0) | {"verify": verify}


def test_full_rounds_are_counted_and_the_others_are_not() -> None:
    first, second, last = lap(2.0), lap(3.0), lap(50.0)
    rounds = [(0, a_round(3, 4, first)), (1, a_round(1, 0, first)), (0, a_round(2, 4, second)),
              (2, a_round(4, 8, second)), (2, a_round(9, 9, last))]
    tally = full_rounds(rounds, 2)
    assert (tally.tokens, tally.trees, tally.rounds, tally.nodes, tally.stages["verify"]) == (10, 4, 2, 16, 5.0)
    assert tally.rate == 2.0 and tally.rates == [5 / 5, 1 / 2, 4 / 3]


def test_the_verdict_is_on_the_best_budget_for_everybody_by_ratios_within_a_repeat() -> None:
    def tallies(*rates: float) -> list[Tally]:
        return [Tally(int(100 * rate), 1, 1, 0, 100.0, rates=[rate]) for rate in rates]

    drafted = BenchPoint("ddtree", concurrency=8)
    verdicts = bench.verdicts(8, {
        BenchPoint("autoregressive", 0, concurrency=8, way=SAME): tallies(1, 10),
        replace(drafted, budget=4, way=SAME): tallies(2, 20), replace(drafted, budget=16, way=SAME): tallies(1, 1),
        replace(drafted, pace=AUTO, way=LONE): tallies(2, 10), replace(drafted, pace=AUTO, way=SHARED): tallies(3, 30)})
    assert [(verdict["against"], verdict["ratio"]) for verdict in verdicts] == [
        ("ddtree 4", 1.5), ("ddtree auto, each its own", 2.25), ("autoregressive", 3.0)]


def test_passes_of_rounds_are_timed_where_transformers_own_pass_serves_and_the_prompts_is_not() -> None:
    rig = demo_live()
    rig.target = rig.target.fork()
    rig.target.fastest = rig.target.reference
    plan = BenchPlan((Prompt("2 + 3 ="),), (BenchPoint("ddtree", 4, way=OFF),), repeats=1, max_tokens=8)
    ((_, _, tally),) = measure_cells(rig, plan)
    assert 0 < tally.forward_seconds < tally.seconds and tally.tokens == 8


@pytest.mark.usefixtures("quick_curves")
def test_every_way_is_measured_on_the_same_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "open_rig", lambda *_, **__: demo_live())
    outcome = bench.run(choice())
    rows = outcome.result["concurrency"]
    assert json.dumps(outcome.result) and outcome.result["prompts"] == 4
    assert [(row["concurrency"], row["budget"]) for row in rows] == [
        (count, budget) for count in (2, 3) for budget in ("plain", "4", "8", LONE, SHARED)]
    assert [row["nodes"] for row in rows if row["budget"] in ("plain", "4", "8")] == pytest.approx([0, 4, 8] * 2, abs=1)
    assert all(row["tokens_per_second"] > 0 and row["slowest_request"] <= row["per_request"] for row in rows)
    assert outcome.text.count("\n") == 10 + 6 and "auto, shared" in outcome.text


@pytest.mark.parametrize(("words", "reason"), [
    ([*WORDS, "--limit", "2"], "2 .* 3 "), ([*WORDS, "--methods", "ddtree", "plain"], "plain"),
    ([*WORDS, "--methods", "autoregressive"], "autoregressive"), ([*WORDS, "--hard", "nobody"], "'nobody'"),
    ([*WORDS, "--drafters", "math"], "--drafters"), ([*WORDS, "--recording", "on"], "--recording"),
    ([*WORDS, "--split", "each"], "--split"), (["--hard", "reworded"], "--concurrency"),
    (["--counts", "--concurrency", "2"], "--concurrency"), (["--counts", "--budgets", "auto"], "auto")])
def test_what_cannot_be_measured_is_said_before_a_rig_is_loaded(
        monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str) -> None:
    monkeypatch.delattr(bench, "open_rig")
    with pytest.raises(RequestError, match=reason):
        bench.run(verb_parser("bench").parse_args(words))


def test_what_is_named_twice_is_measured_once() -> None:
    plan = bench.concurrent_plan(
        choice("--concurrency", "2", "2", "--budgets", "8", "4", "8", "auto", "--methods", "ddtree", "ddtree"))
    assert [(point.budget, point.way) for point in plan.settings if isinstance(point, BenchPoint)] == [
        (0, SAME), (8, SAME), (4, SAME), (256, LONE), (256, SHARED)]


def test_where_no_round_was_full_it_is_said() -> None:
    with pytest.raises(RequestError, match="2"):
        run(demo_live(), BenchPoint("ddtree", 4, concurrency=2, way=SAME),
            [PromptRequest("Hi", budget=4, max_tokens=4)])


@pytest.mark.parametrize(("budget", "window"), [(1, 0), (7, 0), (24, 0), (7, 5)])
def test_the_plain_loop_commits_the_same_rounds(budget: int, window: int) -> None:
    target = small_target()
    drafter = small_drafter(target, window=window)
    request = Request(tuple(range(5, 25)), method="ddtree", budget=budget, max_tokens=40)
    plain = PublishedLoop(target, drafter, request).rounds()
    assert list(plain) == [round_.committed.tolist() for round_ in decode(request, target, [drafter])]
