"""The bench driver measures every setting, and the published loop commits the same tokens as the engine."""

from dataclasses import replace

import pytest

from engine.commands import bench
from engine.commands.program import verb_parser
from engine.errors import RequestError
from engine.measure.bench import BenchPlan, BenchSetting, measure_cells
from engine.measure.published_loop import PublishedLoop
from engine.records import Request
from engine.requests.prompts import Prompt
from tests.engine.demo import demo_live
from tests.engine.helpers import decode
from tests.engine.small import small_drafter, small_target


def test_transformers_passes_are_timed_without_the_prompts() -> None:
    rig = demo_live()
    rig.target = rig.target.fork()
    rig.target.fastest = rig.target.reference
    plan = BenchPlan((Prompt("2 + 3 ="),), (BenchSetting("ddtree", 4),), repeats=1, max_tokens=8)
    ((_, _, tally),) = measure_cells(rig, plan)
    assert 0 < tally.forward_seconds < tally.seconds and tally.tokens == 8


def test_recorded_and_unrecorded_runs_write_the_same_text() -> None:
    setting = BenchSetting("ddtree", 4)
    plan = BenchPlan((Prompt("2 + 3 ="), Prompt("Hi")), (setting, replace(setting, recorded=True)), repeats=2,
                     max_tokens=8)
    cells = [(measured.recorded, cell.prompt, tally.tokens)
             for measured, cell, tally in measure_cells(demo_live(), plan)]
    assert len(cells) == 8 and len(set(cells)) == 4


@pytest.mark.parametrize(("words", "reason"), [
    (["--prompts", "nobody"], "'nobody'"), (["--methods", "published", "--budgets", "auto"], "auto"),
    (["--counts", "--budgets", "auto"], "auto")])
def test_invalid_settings_are_refused_before_a_rig_is_loaded(
        monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str) -> None:
    monkeypatch.delattr(bench, "open_rig")
    with pytest.raises(RequestError, match=reason):
        bench.run(verb_parser("bench").parse_args(words))


def test_repeated_settings_are_measured_once_and_old_names_are_read() -> None:
    args = verb_parser("bench").parse_args(["--budgets", "8", "4", "8", "--methods", "ddtree", "ddtree", "plain",
                                            "published"])
    settings = bench.plan_of(args).settings
    assert [(setting.budget, setting.published_loop) for setting in settings] == [
        (8, False), (4, False), (8, True), (4, True)]


@pytest.mark.parametrize(("budget", "window"), [(1, 0), (7, 0), (24, 0), (7, 5)])
def test_the_published_loop_commits_the_same_rounds(budget: int, window: int) -> None:
    target = small_target()
    drafter = small_drafter(target, window=window)
    request = Request(tuple(range(5, 25)), method="ddtree", budget=budget, max_tokens=40)
    rounds = PublishedLoop(target, drafter, request).rounds()
    assert list(rounds) == [round_.committed.tolist() for round_ in decode(request, target, [drafter])]
