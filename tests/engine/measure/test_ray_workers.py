"""Sweeps on Ray workers of this machine, some of which are killed. Needs requirements-ray.txt, as make test has."""

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from engine.errors import RequestError, RigError
from engine.lab.reading import Reading
from engine.lab.settings import Conditions, Task, block_of, measuring_order
from engine.lab.store import Store
from engine.lab.sweeping import Laboratory, LocalWorkers, run_sweep
from engine.measure import ray_workers
from engine.measure.ray_workers import RayWorkers, common_conditions, connect_workers
from engine.records import PromptRequest
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

PLAN = toy_plan(prompts=4)
TASKS = [Task(cell, PLAN.request(cell)) for cell in measuring_order(PLAN)]
FATAL = TASKS[6].request


class SlowLaboratory(ScriptedLaboratory):
    """Measure slowly, so that a test can kill a worker at its work."""

    def measure(self, ask: PromptRequest) -> Reading:
        sleep(0.02)
        return super().measure(ask)


class FailingLaboratory(ScriptedLaboratory):
    """Kill the own process at one cell."""

    def measure(self, ask: PromptRequest) -> Reading:
        if ask == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure(ask)


class AlwaysFailingLaboratory(ScriptedLaboratory):
    """Kill the own process at every cell."""

    def measure(self, ask: PromptRequest) -> Reading:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().measure(ask)


def laboratory_of_process() -> Laboratory:
    """Return a laboratory whose hardware names its process."""
    return SlowLaboratory(hardware=f"process {os.getpid()}")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _allow_few_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow few losses: a worker that Ray restarts is a process that imports everything."""
    monkeypatch.setattr(ray_workers, "MAX_LOSSES", 3)
    monkeypatch.setattr(ray_workers, "MAX_ATTEMPTS", 2)


def test_a_killed_workers_cells_are_measured_again_and_every_cell_once(tmp_path: Path) -> None:
    workers = connect_workers(laboratory_of_process, "local", 2)
    with Store(tmp_path / "results.sqlite") as store:
        number = store.begin(PLAN, workers.conditions)
        done = []
        for step in run_sweep(store, number, workers, Event()):
            done.append(step.done)
            if step.done == len(PLAN) // 3:
                os.kill(workers.process_ids[0], signal.SIGKILL)
        measured = store.measured(number)
    assert done == list(range(1, len(PLAN) + 1))
    assert {result.cell for result in measured} == set(measuring_order(PLAN))
    in_process = {result.cell: result.reading for result in LocalWorkers(ScriptedLaboratory()).work(TASKS, Event())}
    for result in measured:
        expected = in_process[result.cell]
        assert result.reading and expected
        assert (result.reading.tau, result.reading.token_ids) == (expected.tau, expected.token_ids)
    machines = defaultdict(set)
    for result in measured:
        machines[block_of(result.cell)].add(result.hardware)
    assert len(set.union(*machines.values())) >= 2
    # one worker measures a block, except the block of the killed worker
    assert sum(len(hardware) > 1 for hardware in machines.values()) <= 1


def test_a_cell_that_kills_every_worker_is_given_up() -> None:
    results = list(connect_workers(FailingLaboratory, "local", 1).work(TASKS, Event()))
    assert sorted(repr(result.cell) for result in results) == sorted(repr(task.cell) for task in TASKS)
    assert [(result.cell, result.failure) for result in results if result.reading is None] == [
        (TASKS[6].cell, "2 Ray workers were lost while measuring this.")]


def test_a_cluster_that_loses_all_workers_is_an_error() -> None:
    with pytest.raises(RigError, match="3 times"):
        list(connect_workers(AlwaysFailingLaboratory, "local", 1).work(TASKS, Event()))


def test_a_stop_lets_started_runs_finish() -> None:
    stop, results = Event(), []
    for result in connect_workers(laboratory_of_process, "local", 1).work(TASKS, stop):
        results.append(result)
        if len(results) == 4:
            stop.set()
    assert 4 <= len(results) <= 5


def cluster_with(held: dict[str, float], options: dict[str, Any]) -> Any:
    """Return the part of Ray that RayWorkers uses; ``options`` receives its workers' options."""
    about = SimpleNamespace(conditions=Conditions("toy", "one", "float32"), methods=(), drafters=(), process_id=1)
    worker = SimpleNamespace(about=SimpleNamespace(remote=lambda: about))
    actor = SimpleNamespace(options=lambda **given: options.update(given) or SimpleNamespace(remote=lambda _: worker))
    return SimpleNamespace(cluster_resources=lambda: held, nodes=lambda: [{"Alive": True}, {"Alive": True}, {
        "Alive": False}], remote=lambda _: actor, get=list, exceptions=ray.exceptions)


@pytest.mark.parametrize(("held", "workers", "hired", "gpus", "cores"), [
    ({"CPU": 4.0}, None, 2, 0, 2), ({"CPU": 1.0}, 2, 2, 0, 0.5), ({"CPU": 9.0, "GPU": 4.0}, None, 4, 1, 2),
    ({"CPU": 9.0, "GPU": 4.0}, 3, 3, 1, 3)])
def test_each_device_or_host_gets_one_worker_by_default(
        held: dict[str, float], workers: int | None, hired: int, gpus: int, cores: float) -> None:
    options: dict[str, Any] = {}
    rig_workers = RayWorkers(cluster_with(held, options), ScriptedLaboratory, workers)
    assert (len(rig_workers.actors), options["num_gpus"], options["num_cpus"]) == (hired, gpus, cores)


def refusing_laboratory() -> Laboratory:
    raise RigError("The rig is not here.")


def test_errors_of_a_cluster_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RigError, match="The rig is not here"):
        connect_workers(refusing_laboratory, "local", 1)
    with pytest.raises(RequestError, match="2 .* 3 "):
        RayWorkers(cluster_with({"CPU": 8.0, "GPU": 2.0}, {}), ScriptedLaboratory, 3)
    conditions = Conditions("toy", "one", "float32", {"toy": "1"})
    assert common_conditions([conditions, Conditions("toy", "two", "float32", {"toy": "1"})]).hardware == "one + two"
    with pytest.raises(RigError, match="toy"):
        common_conditions([conditions, Conditions("toy", "one", "float32", {"toy": "2"})])
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match="requirements-ray.txt"):
        connect_workers(ScriptedLaboratory, "local", 2)
