"""Several requests at once: counting, storing, resuming, reports, their wording, and predictions."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.decoding.loop import DecodeRun
from engine.errors import RequestError
from engine.lab.reading import read_concurrent
from engine.lab.settings import CellResult, Setting, measuring_order
from engine.lab.statistics import estimate
from engine.lab.summary import Row, Summary, concurrency_words, summarise
from engine.records import Request
from tests.engine.lab.scripted import ROUND_SECONDS, ROW_SECONDS, measure_all, report_of, toy_plan, with_readings
from tests.engine.toy import ToyTarget

COUNTS = (1, 2, 4)
PLAN = toy_plan(prompts=7, repeats=1, methods=("ddtree",), budgets=(4, 16), concurrency=COUNTS)


def asking(prompt: Sequence[int], target: ToyTarget, tokens: int) -> Callable[[], DecodeRun]:
    """Return a function that makes a run of plain decoding."""
    request = Request(tuple(prompt), method="autoregressive", budget=0, max_tokens=tokens)
    return lambda: DecodeRun(request, target.fork(), [])


@pytest.fixture(scope="module")
def measured() -> list[CellResult]:
    return measure_all(PLAN)


@pytest.fixture(scope="module")
def summary(measured: list[CellResult]) -> Summary:
    return summarise(PLAN.settings, measured)


def test_every_counted_round_has_the_full_number_of_requests() -> None:
    target = ToyTarget(seed=2)
    others = [asking((token,), target, 1 + token) for token in range(4)]
    reading = read_concurrent(asking((1, 2, 3), target, 30)(), others, 4)
    assert reading.committed == (4,) * 30 and reading.lengths == (1,) * 30  # the other runs end after 1 to 4 rounds
    assert reading.total_tokens_per_second == pytest.approx(4 * reading.tokens_per_second)


def test_a_refused_request_gives_way_to_the_next_and_an_empty_batch_is_an_error() -> None:
    target = ToyTarget(seed=2, context_limit=64)
    asked, good = asking((1, 2), target, 9), asking((3,), target, 2)
    wrong = asking((1,) * 100, target, 9)
    assert read_concurrent(asked(), [wrong, good, wrong], 3).committed == (3,) * 9
    with pytest.raises(RequestError, match="100 tokens"):
        read_concurrent(asked(), [wrong], 2)


def test_every_prompt_runs_equally_often_beside_the_others() -> None:
    setting = next(setting for setting in PLAN.settings if setting.concurrency == 4)
    cells = [cell for cell in measuring_order(PLAN) if cell.setting == setting]
    assert sorted(cell.prompt for cell in cells) == list(range(7))
    others = [ask.prompt for cell in cells for ask in PLAN.task(cell).others]
    assert {others.count(prompt.text) for prompt in PLAN.prompts} == {16}
    first = PLAN.task(replace(cells[0], prompt=5)).others
    assert [ask.prompt for ask in first[:3]] == [PLAN.prompts[number].text for number in (6, 0, 1)]
    assert {(ask.method, ask.max_tokens) for ask in first} == {(setting.method, 24)}


def test_the_table_has_total_and_per_request_speeds_and_compares_texts(
        measured: list[CellResult], summary: Summary) -> None:
    assert summary.counts == COUNTS and summary.best == summary.at(1).best
    rows = {row.setting.label: row for row in summary.rows}
    plain, tree = rows["autoregressive, 4 at once"], rows["ddtree 16, 4 at once"]
    round_seconds = ROUND_SECONDS + 4 * ROW_SECONDS
    assert (plain.tokens_per_second.median, plain.total.median) == pytest.approx((1 / round_seconds, 4 / round_seconds))
    assert plain.speedup is not None and plain.speedup.median == 1
    assert tree.speedup is not None and tree.speedup.low is not None  # seven prompts
    assert (tree.same_text, tree.compared) == (7, 7)
    strayed = with_readings(measured, lambda result, reading: replace(
        reading, token_ids=(1, *reading.token_ids[1:])) if (result.cell.setting, result.cell.prompt) == (
            tree.setting, 3) else reading)
    (again,) = (row for row in summarise(PLAN.settings, strayed).rows if row.setting == tree.setting)
    assert (again.same_text, again.compared) == (6, 7)


def test_a_report_has_rows_for_every_concurrency(measured: list[CellResult]) -> None:
    record = report_of(PLAN, measured)
    assert [row["concurrency"] for row in record["ridge"]] == list(COUNTS)
    assert all(best["total_tokens_per_second"] == max(
        row["total_tokens_per_second"] for row in record["rows"] if row["concurrency"] == best["concurrency"])
        for best in record["ridge"])
    assert "--concurrency 4" in record["ridge"][-1]["command"] and record["recommended"]["concurrency"] == 1
    assert record["load"].keys() == {"ddtree"}


def row(budget: int, concurrency: int, total: float, faster: float, withheld: str = "") -> Row:
    return Row(Setting("ddtree", budget, concurrency=concurrency), 6, 0, 100, 20, 5.0, estimate([5.0] * 6),
               estimate([total / concurrency] * 6), estimate([total] * 6), None if withheld else estimate([faster] * 6),
               None, 6, 6, withheld)


def test_every_concurrency_is_described_even_if_speeds_are_withheld() -> None:
    busy = "Something else ran."
    plain = replace(row(0, 8, 500, 1), setting=Setting("autoregressive", 0, concurrency=8))
    rows = (row(8, 1, 300, 3), row(64, 1, 500, 5), row(8, 2, 400, 2, busy), row(16, 2, 500, 2, busy),
            row(8, 4, 900, 2), row(16, 4, 800, 2, busy), row(8, 8, 450, 0.9), plain)
    lines = concurrency_words(Summary(rows), Setting("ddtree", 0))
    assert [set(re.findall(r"\d+", line)) for line in lines] == [{"1", "8", "64"}, {"2"}, {"4", "8", "16"}, {"8"}]
    assert [busy in line for line in lines] == [False, True, False, False], "the other concurrencies have a comparison"
