"""What several requests at once are measured by: full rounds alone, all settings on the same texts."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from engine.commands import bench
from engine.commands.program import verb_parser
from engine.errors import RequestError
from engine.measure.together_bench import (
    OWN,
    PLAIN,
    SHARED,
    Throughput,
    Way,
    run,
    steps,
    tallied,
    together_results,
    together_table,
    verdicts,
)
from engine.records import STAGES, Acceptance, DraftTree, Integers, Round, Verification
from tests.engine.demo import demo_live

WORDS = ["--together", "2", "3", "--prompts", "bench", "--hard", "reworded", "--limit", "4", "--max-tokens", "16",
         "--repeats", "1", "--budgets", "4", "8"]


def choice(*more: str) -> argparse.Namespace:
    return verb_parser("bench").parse_args([*WORDS, *more])


def made(kept: int, nodes: int, seconds: dict[str, float]) -> Round:
    none: Integers = np.zeros(0, np.int32)
    tree = DraftTree(*(np.zeros(nodes + 1, np.int32),) * 2, np.zeros(nodes + 1, np.float32),
                     np.zeros(nodes + 1, np.int32))
    said = Verification(none, *(np.zeros(0, np.float32),) * 5)
    return Round(0, 0, (), (), tree, said, Acceptance(np.arange(kept, dtype=np.int32), 0), seconds)


def lap(verify: float) -> dict[str, float]:
    return dict.fromkeys(STAGES, 0.0) | {"verify": verify}


def test_full_rounds_are_counted_and_the_others_are_not() -> None:
    first, second, last = lap(2.0), lap(3.0), lap(50.0)
    rounds = [(0, made(3, 4, first)), (1, made(1, 0, first)), (0, made(2, 4, second)), (2, made(4, 8, second)),
              (2, made(9, 9, last))]
    assert [len(each) for each in steps(rounds)] == [2, 2, 1]
    load = tallied(rounds, 2)
    assert (load.tokens, load.trees, load.rounds, load.nodes, load.seconds["verify"]) == (10, 4, 2, 16, 5.0)
    assert load.rate == 2.0 and load.rates == [5 / 5, 1 / 2, 4 / 3]


def test_the_verdict_is_on_the_best_budget_for_everybody_by_ratios_within_a_repeat() -> None:
    def loads(*rates: float) -> list[Throughput]:
        return [Throughput(tokens=int(100 * rate), seconds=lap(100.0)) for rate in rates]

    found = verdicts(8, {
        Way("autoregressive", PLAIN): loads(1, 10), Way("ddtree", "4"): loads(2, 20), Way("ddtree", "16"): loads(1, 1),
        Way("ddtree", OWN): loads(2, 10), Way("ddtree", SHARED): loads(3, 30)})
    assert [(each["against"], each["ratio"]) for each in found] == [
        ("ddtree 4", 1.5), ("ddtree auto, each its own", 2.25), ("autoregressive", 3.0)]


def test_every_way_is_measured_on_the_same_prompts() -> None:
    live = demo_live()
    asked = bench.together_of(choice())
    assert len(asked.asks) == 4 and asked.budgets == (4, 8) and asked.methods == ("ddtree",)
    result = together_results(live, asked)
    rows = result["together"]
    assert isinstance(rows, list) and json.dumps(result)
    assert [(row["together"], row["budget"]) for row in rows] == [
        (at_once, budget) for at_once in (2, 3) for budget in (PLAIN, "4", "8", OWN, SHARED)]
    assert [row["nodes"] for row in rows if row["budget"] in (PLAIN, "4", "8")] == pytest.approx([0, 4, 8] * 2, abs=1)
    assert all(row["tokens_per_second"] > 0 and row["slowest_request"] <= row["per_request"] for row in rows)
    table = together_table(result)
    assert table.count("\n") == 10 + 6 and "auto, shared" in table


@pytest.mark.parametrize(("more", "said"), [
    (("--limit", "2"), "There are 2 prompts for 3 requests at once"),
    (("--methods", "ddtree", "plain"), "With --together, plain is no choice"),
    (("--methods", "autoregressive"), "With --together, autoregressive is no choice"),
    (("--domain", "nobody"), "There are 0 prompts of the domain 'nobody' for 3 requests"),
    (("--hard", "nobody"), "There is no prompt set and no file 'nobody'"),
    (("--beside", "2", "--drafters", "math"), "With --together, --drafters and --beside would change nothing"),
    (("--recording", "on"), "With --together, --recording would"), (("--split", "each"), "With --together, --split")])
def test_what_cannot_be_measured_is_said_before_a_rig_is_loaded(
        monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], said: str) -> None:
    monkeypatch.delattr(bench, "open_rig")
    with pytest.raises(RequestError, match=said):
        bench.run(choice(*more))


def test_hard_prompts_are_for_several_at_once() -> None:
    with pytest.raises(RequestError, match="--hard mixes prompts for --together"):
        bench.run(verb_parser("bench").parse_args(["--hard", "reworded"]))


def test_what_is_named_twice_is_measured_once() -> None:
    asked = bench.together_of(
        choice("--together", "2", "2", "--budgets", "8", "4", "8", "--methods", "ddtree", "ddtree"))
    assert (asked.at_once, asked.budgets, asked.methods) == ((2,), (8, 4), ("ddtree",))


def test_where_no_round_was_full_it_is_said() -> None:
    short = (bench.together_of(choice()).asks[0],)
    with pytest.raises(RequestError, match="No round had 2 requests at work"):
        run(demo_live(), short, 2, Way("ddtree", "4"))
