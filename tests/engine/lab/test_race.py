"""A race measures its tracks interleaved, on one clock, and reports texts that differ."""

from dataclasses import replace
from statistics import median
from threading import Event

import pytest

from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.errors import RequestError
from engine.lab.settings import CellResult, Setting, SweepPlan
from engine.lab.statistics import Estimate
from engine.lab.sweeping import race_plan, run_race, tracks
from tests.engine.lab.scripted import WALKERS, ScriptedLaboratory, toy_plan, with_readings

LABORATORY = ScriptedLaboratory()


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return race_plan(replace(toy_plan(prompts=1, repeats=3), settings=(
        *(Setting(method, 16, temperature=0.8) for method in WALKERS[1:]),
        Setting("ddtree", MAX_AUTO_NODES, temperature=0.8, pace="auto"))))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return list(run_race(ScriptedLaboratory(drift=0.01), plan, Event()))


def spread(over_repeats: Estimate | None) -> tuple[float, float, float]:
    assert over_repeats
    return over_repeats.median, over_repeats.minimum, over_repeats.maximum


def test_tracks_are_interleaved_and_replay_their_median_run(
        plan: SweepPlan, measured: list[CellResult]) -> None:
    assert plan.settings[0] == Setting("autoregressive", 0, temperature=0.8)
    assert len(measured) == 7 * 3
    for repeat in range(3):
        assert {result.cell.setting for result in measured[7 * repeat:7 * repeat + 7]} == set(plan.settings)
    race = tracks(plan, measured, LABORATORY)
    assert [track.setting for track in race.tracks] == list(plan.settings)
    for track in race.tracks:
        readings = [result.reading for result in measured if result.cell.setting == track.setting and result.reading]
        assert track.shown and track.row and track.row.speedup and track.difference is None
        assert track.shown.seconds == median(reading.seconds for reading in readings)
        assert track.seconds[-1] == pytest.approx(track.shown.seconds) and list(track.seconds) == sorted(track.seconds)
        assert track.tokens[-1] == len(track.shown.token_ids) == 24
        rates = [reading.tokens_per_second for reading in readings]
        assert spread(track.row.tokens_per_second) == (median(rates), min(rates), max(rates))
        assert race.pieces.keys() >= set(track.shown.token_ids)
    plain, _, tree, *_, auto = race.tracks
    assert plain.row and spread(plain.row.speedup) == (1, 1, 1)
    assert tree.row and tree.row.speedup and tree.row.speedup.median > 1
    assert auto.setting.label == "ddtree auto T 0.8" and auto.shown and tree.shown
    assert len(set(tree.shown.rows)) == 1 < len(set(auto.shown.rows))


def test_a_race_needs_one_prompt_and_three_repeats() -> None:
    with pytest.raises(RequestError, match="2"):
        race_plan(toy_plan(prompts=2, repeats=3))
    with pytest.raises(RequestError, match="2"):
        race_plan(toy_plan(prompts=1, repeats=2))


def test_a_stopped_race_has_the_tracks_that_ran(plan: SweepPlan) -> None:
    stop = Event()
    running = run_race(LABORATORY, plan, stop)
    results = [next(running), next(running)]
    stop.set()
    assert list(running) == []
    assert {track.setting for track in tracks(plan, results, LABORATORY).tracks} == {
        result.cell.setting for result in results}
    failed = [replace(result, reading=None, failure="No.") for result in results[:1]]
    assert tracks(plan, failed, LABORATORY).tracks[0].failure == "No."
    silent = with_readings(results, lambda _, reading: replace(reading, token_ids=(), lengths=(), round_seconds=()))
    assert tracks(plan, silent, LABORATORY).tracks[0].failure


def test_a_track_names_its_first_difference_from_the_baseline(plan: SweepPlan, measured: list[CellResult]) -> None:
    strayed = with_readings(measured, lambda result, reading: replace(reading, token_ids=(
        *reading.token_ids[:-1], 99)) if result.cell.setting == plan.settings[3] else reading)
    differences = {number: track.difference for number, track in enumerate(tracks(plan, strayed, LABORATORY).tracks)
                   if track.difference}
    assert differences.keys() == {3} and (differences[3].position, differences[3].token) == (23, 99)
