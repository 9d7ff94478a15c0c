"""A race: interleaved, on one clock, and honest about texts that differ."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from threading import Event

import pytest

from engine.errors import RequestError
from engine.lab.parting import Difference, first_difference
from engine.lab.race import Spread, lanes, race_plan, run_race
from engine.lab.settings import CellResult, Reading, Setting, SweepPlan
from engine.records import PromptRequest
from tests.engine.lab.scripted import WALKERS, ScriptedLaboratory, rounds_of, toy_plan


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return race_plan(replace(toy_plan(prompts=1, repeats=3), settings=tuple(
        Setting(method, 16, temperature=0.8) for method in WALKERS[1:])))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return list(run_race(ScriptedLaboratory(drift=0.01), plan, Event()))


def test_every_lane_is_measured_as_often_and_in_turn(plan: SweepPlan, measured: list[CellResult]) -> None:
    assert plan.settings[0] == Setting("autoregressive", 0, temperature=0.8)
    assert len(measured) == 6 * 3
    for repeat in range(3):
        assert {found.cell.setting for found in measured[6 * repeat:6 * repeat + 6]} == set(plan.settings)


def test_a_lane_replays_its_median_run_on_the_wall_clock(plan: SweepPlan, measured: list[CellResult]) -> None:
    race = lanes(plan, measured, ScriptedLaboratory())
    assert [lane.setting for lane in race.lanes] == list(plan.settings)
    for lane in race.lanes:
        own = {found.cell.repeat: found.reading for found in measured if found.cell.setting == lane.setting
               if found.reading}
        assert lane.shown and lane.tokens_per_second and lane.speedup
        assert lane.shown.seconds == median(each.seconds for each in own.values())
        assert lane.seconds[-1] == pytest.approx(lane.shown.seconds)
        assert lane.seconds == tuple(sorted(lane.seconds))
        assert lane.tokens[-1] == len(lane.shown.token_ids) == 24
        rates = [each.tokens_per_second for each in own.values()]
        assert (lane.tokens_per_second.median, lane.tokens_per_second.least, lane.tokens_per_second.most) == (
            median(rates), min(rates), max(rates))
        assert lane.tokens_per_second.least < lane.tokens_per_second.most
        assert lane.difference is None
        assert all(token in race.pieces for token in lane.shown.token_ids)
    assert race.lanes[0].speedup == Spread(1, 1, 1)
    assert len({lane.shown.token_ids for lane in race.lanes if lane.shown}) == 1
    tree, plain = race.lanes[2], race.lanes[0]
    assert tree.speedup and tree.tokens_per_second and plain.tokens_per_second
    assert tree.speedup.median > 1
    assert tree.speedup.least < tree.tokens_per_second.most / plain.tokens_per_second.least


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


@pytest.fixture(scope="module")
def baseline() -> Reading:
    return ScriptedLaboratory().measure(PromptRequest("a text", method="autoregressive", budget=0, max_tokens=12))


def test_the_first_difference_is_named_with_its_gap(baseline: Reading) -> None:
    token_ids = list(baseline.token_ids)
    token_ids[7] += 1
    found = first_difference(replace(baseline, token_ids=tuple(token_ids)), baseline)
    rounds = rounds_of(PromptRequest("a text", method="autoregressive", budget=0, max_tokens=12))
    # what the target said at the token before it
    assert found == Difference(7, token_ids[7], baseline.token_ids[7], float(rounds[6].verification.gap[0]))
    assert first_difference(baseline, baseline) is None


def test_a_difference_at_either_end(baseline: Reading) -> None:
    other = (baseline.token_ids[0] + 1, *baseline.token_ids[1:])
    assert first_difference(replace(baseline, token_ids=other), baseline) == Difference(
        0, other[0], baseline.token_ids[0], None)
    short = replace(baseline, token_ids=baseline.token_ids[:5], bonus=99)
    assert first_difference(short, baseline) == Difference(5, 99, baseline.token_ids[5], baseline.gaps[4])
    as_far_as_it_goes = replace(short, bonus=baseline.token_ids[5])
    assert first_difference(as_far_as_it_goes, baseline) is None


def test_a_lane_says_where_its_text_leaves_the_baselines(plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[3]
    strayed = [replace(found, reading=replace(found.reading, token_ids=(*found.reading.token_ids[:-1], 99)))
               if found.cell.setting == setting and found.reading else found for found in measured]
    race = lanes(plan, strayed, ScriptedLaboratory())
    differences = [lane.difference for lane in race.lanes]
    assert differences[3] is not None
    assert (differences[3].place, differences[3].token) == (23, 99)
    assert [place for place, found in enumerate(differences) if found] == [3]


def reclocked(measured: list[CellResult], setting: Setting, times: tuple[float, ...]) -> list[CellResult]:
    """The results with the rounds of a setting so many times as long, by repeat."""
    return [replace(each, reading=replace(each.reading, round_seconds=tuple(
        times[each.cell.repeat] * spent for spent in each.reading.round_seconds)))
            if each.reading and each.cell.setting == setting else each for each in measured]


@pytest.mark.parametrize(("times", "reason"), [
    ((1.0,) * 3, ""), ((20.0,) * 3, "larger than"), ((1.0, 1.0, 1.5), "Other programs")])
def test_a_lane_claims_no_speed_up_that_cannot_be_true(
        plan: SweepPlan, measured: list[CellResult], times: tuple[float, ...], reason: str) -> None:
    plain, *others = lanes(plan, reclocked(measured, plan.settings[0], times), ScriptedLaboratory()).lanes
    assert plain.speedup == Spread(1, 1, 1) and not plain.withheld
    assert all((lane.speedup is None) == bool(reason) and reason in lane.withheld for lane in others)
