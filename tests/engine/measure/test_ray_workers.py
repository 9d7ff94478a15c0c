"""A sweep on two local Ray workers, one of which is killed on the way. Needs requirements-ray.txt, as make test has."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import sleep

import pytest
import ray

from engine.lab.settings import Laboratory, Reading, block_of, measuring_order
from engine.lab.store import Store
from engine.lab.sweeping import LocalCrew, Task, run_sweep
from engine.measure.ray_workers import RayCrew, ray_crew
from engine.records import PromptRequest
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

PLAN = toy_plan(prompts=4)
TASKS = [Task(cell, PLAN.ask(cell)) for cell in measuring_order(PLAN)]


class Unhurried(ScriptedLaboratory):
    """Slow enough for a worker to be caught at its work."""

    def measure(self, ask: PromptRequest) -> Reading:
        sleep(0.02)
        return super().measure(ask)


def here() -> Laboratory:
    """A laboratory that says in which process it is."""
    return Unhurried(hardware=f"process {os.getpid()}")


@pytest.fixture()
def crew() -> Iterator[RayCrew]:
    yield ray_crew(here, "local", 2)
    ray.shutdown()


def test_a_killed_workers_cells_are_measured_again_and_every_cell_once(crew: RayCrew, tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        number = store.begin(PLAN, crew.conditions)
        done = []
        for step in run_sweep(store, number, crew, Event()):
            done.append(step.done)
            if step.done == len(PLAN) // 3:
                os.kill(crew.process_ids[0], signal.SIGKILL)
        measured = store.measured(number)
    assert done == list(range(1, len(PLAN) + 1))
    assert {found.cell for found in measured} == set(measuring_order(PLAN))
    in_process = {found.cell: found.reading for found in LocalCrew(ScriptedLaboratory()).work(TASKS, Event())}
    for found in measured:
        own = in_process[found.cell]
        assert found.reading and own
        assert (found.reading.tau, found.reading.token_ids) == (own.tau, own.token_ids)
    places = defaultdict(set)
    for found in measured:
        places[block_of(found.cell)].add(found.hardware)
    assert len(set.union(*places.values())) >= 2
    # a block is measured in one place, but for the one that the killed worker had in hand
    assert sum(len(each) > 1 for each in places.values()) <= 1

