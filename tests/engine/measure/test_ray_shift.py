"""How tasks go to workers and come back, over a stand-in for Ray that loses workers when it is told to."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from engine.errors import RequestError, RigError
from engine.lab.settings import CellResult, Conditions, block_of, measuring_order
from engine.lab.sweeping import Task
from engine.measure.ray_workers import MOST_LOSSES, RayCrew, RigWorker, ray_crew, shared
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

PLAN = toy_plan()
TASKS = [Task(cell, PLAN.ask(cell)) for cell in measuring_order(PLAN)]


class RayError(Exception):
    """As in Ray."""


class RayActorError(RayError):
    """As in Ray."""


@dataclass(eq=False)
class Call:
    """A call under way: what it will return, and whether its worker lives to return it."""

    name: str
    work: Callable[[], Any]
    lost: bool


class Cluster:
    """As much of Ray as the crew uses; a call is done when it is waited for, the oldest first. ``deadly`` says which
    calls end their worker."""

    def __init__(self, deadly: Callable[[str, tuple[Any, ...]], bool] = lambda name, given: False) -> None:
        self.deadly = deadly
        self.exceptions = type("exceptions", (), {"RayError": RayError, "RayActorError": RayActorError})
        self.hired = 0
        self.held = {"CPU": 4.0}
        self.given: dict[str, float] = {}

    def cluster_resources(self) -> dict[str, float]:
        return self.held

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True}, {"Alive": True}, {"Alive": False}]

    def remote(self, kind: type) -> Any:
        def options(**given: float) -> Any:
            self.given = given
            return type("Actors", (), {"remote": lambda _, *given: self._hire(kind, given)})()

        return type("Remote", (), {"options": staticmethod(options)})

    def _hire(self, kind: type, given: tuple[Any, ...]) -> "Worker":
        self.hired += 1
        return Worker(self, kind(*given))

    def wait(self, calls: Sequence[Call], timeout: float) -> tuple[list[Call], list[Call]]:
        return [calls[0]], list(calls[1:])

    def get(self, call: Any) -> Any:
        if isinstance(call, list):
            return [self.get(each) for each in call]
        if call.lost:
            raise RayActorError(f"{call.name} was lost")
        return call.work()


@dataclass
class Worker:
    """An actor; whatever is asked of it after it was lost is lost."""

    cluster: Cluster
    bench: RigWorker
    dead: bool = False
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def remote(*given: Any) -> Call:
            self.dead = self.dead or self.cluster.deadly(name, given)
            return Call(name, lambda: getattr(self.bench, name)(*given), self.dead)

        return type("Method", (), {"remote": staticmethod(remote)})


def crew_on(cluster: Cluster, workers: int | None = None) -> RayCrew:
    return RayCrew(cluster, ScriptedLaboratory, workers)


def cells_of(found: Sequence[CellResult]) -> set[str]:
    """The cells, each of which must be there once."""
    names = [repr(each.cell) for each in found]
    assert len(set(names)) == len(names)
    return set(names)


def test_one_worker_a_host_shares_out_whole_blocks() -> None:
    cluster = Cluster()
    found = list(crew_on(cluster).work(TASKS, Event()))
    assert cluster.hired == 2
    assert cells_of(found) == {repr(task.cell) for task in TASKS}
    taken = [block_of(each.cell) for each in found]
    halves = [taken[::2], taken[1::2]]  # the two take turns
    assert len(set(halves[0]) & set(halves[1])) == 0


@pytest.mark.parametrize(("held", "workers", "hired", "given"), [
    ({"CPU": 4.0}, None, 2, {"num_gpus": 0, "num_cpus": 2}),
    ({"CPU": 1.0}, 2, 2, {"num_gpus": 0, "num_cpus": 0.5}),
    ({"CPU": 9.0, "GPU": 4.0}, None, 4, {"num_gpus": 1, "num_cpus": 2}),
    ({"CPU": 9.0, "GPU": 4.0}, 3, 3, {"num_gpus": 1, "num_cpus": 3}),
])
def test_a_device_or_a_host_has_one_worker_unless_said_otherwise(
        held: dict[str, float], workers: int | None, hired: int, given: dict[str, float]) -> None:
    cluster = Cluster()
    cluster.held = held
    crew_on(cluster, workers)
    assert cluster.hired == hired and {name: cluster.given[name] for name in given} == given


def test_a_lost_workers_cells_are_measured_again() -> None:
    deaths = iter([5, 9])
    count, next_death = [0], [next(deaths)]

    def deadly(name: str, given: tuple[Any, ...]) -> bool:
        count[0] += name == "measure"
        if name == "measure" and count[0] == next_death[0]:
            next_death[0] = next(deaths, 0)
            return True
        return False

    cluster = Cluster(deadly)
    found = list(crew_on(cluster).work(TASKS, Event()))
    assert cluster.hired == 4
    assert cells_of(found) == {repr(task.cell) for task in TASKS}
    assert all(each.reading for each in found)


def test_a_cell_that_takes_every_worker_with_it_is_given_up() -> None:
    fatal = TASKS[6]
    cluster = Cluster(lambda name, given: name == "measure" and given == (fatal,))
    found = list(crew_on(cluster).work(TASKS, Event()))
    assert cells_of(found) == {repr(task.cell) for task in TASKS}
    assert [(each.cell, each.failure) for each in found if each.reading is None] == [
        (fatal.cell, "3 Ray workers were lost while measuring this.")]
    assert cluster.hired == 2 + 3


def test_a_cluster_that_loses_everybody_says_so() -> None:
    cluster = Cluster(lambda name, given: name == "prepare")
    with pytest.raises(RigError, match=r"^Every Ray worker was lost 5 times; what was measured is kept"):
        list(crew_on(cluster).work(TASKS, Event()))
    assert cluster.hired == 2 * MOST_LOSSES


def test_a_stop_lets_the_runs_in_hand_end() -> None:
    stop = Event()
    found = []
    for each in crew_on(Cluster()).work(TASKS, stop):
        found.append(each)
        if len(found) == 4:
            stop.set()
    assert len(found) == 5


def test_what_is_wrong_with_a_cluster_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RigError, match=r"^A Ray worker could not open the rig: about was lost\.$"):
        crew_on(Cluster(lambda name, given: name == "about"))
    crowded = Cluster()
    crowded.held = {"CPU": 8.0, "GPU": 2.0}
    with pytest.raises(RequestError, match=r"^The cluster has 2 GPUs and 3 workers were asked for; a GPU takes one"):
        crew_on(crowded, 3)
    conditions = Conditions("toy", "one", "float32", {"toy": "1"})
    assert shared([conditions, Conditions("toy", "two", "float32", {"toy": "1"})]).hardware == "one + two"
    with pytest.raises(RigError, match="do not hold the same rig and versions"):
        shared([conditions, Conditions("toy", "one", "float32", {"toy": "2"})])
    with pytest.raises(RequestError, match=r"^The workers are 0; they have to be 1 or more\.$"):
        ray_crew(ScriptedLaboratory, "local", 0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r"^Ray is not installed; install requirements-ray\.txt, or leave --ray out"):
        ray_crew(ScriptedLaboratory, "local", 2)
