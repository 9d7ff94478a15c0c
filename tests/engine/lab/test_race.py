"""A race: interleaved, on one clock, and honest about texts that differ."""

from dataclasses import replace
from statistics import median
from threading import Event

import pytest

from engine.decoding.budget_policy import MOST_AUTO
from engine.errors import RequestError
from engine.lab.settings import CellResult, Setting, SweepPlan
from engine.lab.statistics import Estimate
from engine.lab.sweeping import lanes, race_plan, run_race
from tests.engine.lab.scripted import WALKERS, ScriptedLaboratory, toy_plan


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return race_plan(replace(toy_plan(prompts=1, repeats=3), settings=tuple(
        Setting(method, 16, temperature=0.8) for method in WALKERS[1:])))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return list(run_race(ScriptedLaboratory(drift=0.01), plan, Event()))


def spread(over_repeats: Estimate | None) -> tuple[float, float, float]:
    assert over_repeats
    return over_repeats.median, over_repeats.least, over_repeats.most


def test_every_lane_is_measured_as_often_and_in_turn(plan: SweepPlan, measured: list[CellResult]) -> None:
    assert plan.settings[0] == Setting("autoregressive", 0, temperature=0.8)
    assert len(measured) == 6 * 3
    for repeat in range(3):
        assert {found.cell.setting for found in measured[6 * repeat:6 * repeat + 6]} == set(plan.settings)


def test_a_lane_replays_its_median_run_on_the_wall_clock(plan: SweepPlan, measured: list[CellResult]) -> None:
    race = lanes(plan, measured, ScriptedLaboratory())
    assert [lane.setting for lane in race.lanes] == list(plan.settings)
    for lane in race.lanes:
        readings = [result.reading for result in measured if result.cell.setting == lane.setting and result.reading]
        assert lane.shown and lane.row and lane.row.speedup and lane.difference is None
        assert lane.shown.seconds == median(reading.seconds for reading in readings)
        assert lane.seconds[-1] == pytest.approx(lane.shown.seconds) and list(lane.seconds) == sorted(lane.seconds)
        assert lane.tokens[-1] == len(lane.shown.token_ids) == 24
        rates = [reading.tokens_per_second for reading in readings]
        assert spread(lane.row.tokens_per_second) == (median(rates), min(rates), max(rates))
        assert race.pieces.keys() >= set(lane.shown.token_ids)
    plain, _, tree, *_ = race.lanes
    assert plain.row and spread(plain.row.speedup) == (1, 1, 1)
    assert tree.row and tree.row.speedup and tree.row.speedup.median > 1


def test_a_race_is_on_one_prompt_and_three_times() -> None:
    with pytest.raises(RequestError, match="A race is run on one prompt; 2 were given"):
        race_plan(toy_plan(prompts=2, repeats=3))
    with pytest.raises(RequestError, match="A race of 2 repeats has no spread; it takes 3 or more"):
        race_plan(toy_plan(prompts=1, repeats=2))


def test_a_race_that_is_stopped_has_the_lanes_that_ran(plan: SweepPlan, measured: list[CellResult]) -> None:
    stop = Event()
    running = run_race(ScriptedLaboratory(), plan, stop)
    found = [next(running), next(running)]
    stop.set()
    assert list(running) == []
    race = lanes(plan, found, ScriptedLaboratory())
    assert {lane.setting for lane in race.lanes} == {each.cell.setting for each in found}
    failed = [replace(each, reading=None, failure="No.") for each in found[:1]]
    assert lanes(plan, failed, ScriptedLaboratory()).lanes[0].failure == "No."
    silent = [replace(result, reading=replace(result.reading, token_ids=(), lengths=(), round_seconds=()))
              for result in found if result.reading]
    assert "nothing to race" in lanes(plan, silent, ScriptedLaboratory()).lanes[0].failure


def test_a_lane_says_where_its_text_leaves_the_baselines(plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[3]
    strayed = [replace(found, reading=replace(found.reading, token_ids=(*found.reading.token_ids[:-1], 99)))
               if found.cell.setting == setting and found.reading else found for found in measured]
    race = lanes(plan, strayed, ScriptedLaboratory())
    differences = [lane.difference for lane in race.lanes]
    assert differences[3] is not None
    assert (differences[3].position, differences[3].token) == (23, 99)
    assert [place for place, found in enumerate(differences) if found] == [3]


@pytest.mark.parametrize(("times", "reason"), [
    ((20.0,) * 3, "larger than"), ((1.0, 1.0, 1.5), "Other programs")])
def test_a_lane_claims_no_speed_up_that_cannot_be_true(
        plan: SweepPlan, measured: list[CellResult], times: tuple[float, ...], reason: str) -> None:
    reclocked = [replace(result, reading=replace(result.reading, round_seconds=tuple(
        times[result.cell.repeat] * spent for spent in result.reading.round_seconds)))
                 if result.reading and result.cell.setting == plan.settings[0] else result for result in measured]
    plain, *others = lanes(plan, reclocked, ScriptedLaboratory()).lanes
    assert plain.row and spread(plain.row.speedup) == (1, 1, 1) and not plain.row.withheld
    assert all(lane.row and lane.row.speedup is None and reason in lane.row.withheld for lane in others)


def test_auto_has_a_lane_with_the_same_text() -> None:
    plan = race_plan(replace(toy_plan(prompts=1, repeats=3), settings=(
        Setting("ddtree", 16), Setting("ddtree", MOST_AUTO, pace="auto"))))
    race = lanes(plan, list(run_race(ScriptedLaboratory(), plan, Event())), ScriptedLaboratory())
    assert [lane.setting.label for lane in race.lanes] == ["autoregressive", "ddtree 16", "ddtree auto"]
    fixed, auto = race.lanes[1:]
    assert fixed.shown and auto.shown and auto.row and auto.row.speedup
    assert auto.difference is None and auto.shown.token_ids == fixed.shown.token_ids
    assert len(set(fixed.shown.rows)) == 1 < len(set(auto.shown.rows))
