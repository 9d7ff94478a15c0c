"""A crew of Ray workers: one actor per device holds the rig, and a lost worker's cells are measured again elsewhere.

Ray is optional (``requirements-ray.txt``). Every host needs this code, its packages and the rig in the same place.
Results come back to this process, so the store keeps its one writer.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from threading import Event
from typing import Any

from engine.errors import RequestError, RigError
from engine.lab.settings import Cell, CellResult, Conditions, Laboratory, block_of
from engine.lab.sweeping import Task, measure, warm

MOST_ATTEMPTS = 3  # a cell is given up once so many workers were lost while measuring it
MOST_LOSSES = 5  # a worker is not replaced once it was lost so often
GLANCE_SECONDS = 0.2  # between two checks whether the sweep was stopped

OpenLaboratory = Callable[[], Laboratory]


@dataclass(frozen=True)
class WorkerFacts:
    """A worker's conditions, the methods that it can run, its drafters, and its process id."""

    conditions: Conditions
    methods: tuple[str, ...]
    drafters: tuple[str, ...]
    process_id: int


class RigWorker:
    """What runs in a worker: the rig, opened once."""

    def __init__(self, open_laboratory: OpenLaboratory) -> None:
        self._laboratory = open_laboratory()

    def about(self) -> WorkerFacts:
        asked = self._laboratory
        return WorkerFacts(asked.conditions, tuple(asked.methods), tuple(asked.drafters), os.getpid())

    def prepare(self, tasks: Sequence[Task]) -> bool:
        """Warm up for these tasks."""
        return warm(self._laboratory, tasks, Event())

    def measure(self, task: Task) -> CellResult:
        return measure(self._laboratory, task)


@dataclass
class WorkerSlot:
    """One worker's place: its actor, the tasks of its block that are still to be measured, and how often it was
    lost."""

    actor: Any
    queue: deque[Task] = field(default_factory=deque)
    losses: int = 0


def ray_crew(open_laboratory: OpenLaboratory, address: str, workers: int | None = None) -> RayCrew:
    """Connect to a cluster (``local`` starts one here) and open the rig on every worker: on ``workers`` of them, or one
    per GPU, or one per host. RequestError without Ray or a cluster, RigError where the rig does not open."""
    if workers is not None and workers < 1:
        raise RequestError(f"The workers are {workers}; they have to be 1 or more.")
    try:
        ray = import_module("ray")
    except ModuleNotFoundError as error:
        raise RequestError("Ray is not installed; install requirements-ray.txt, or leave --ray out.") from error
    # a worker of lower priority than other programs on its host would measure their load instead
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    dashboard = {"include_dashboard": False} if address == "local" else {}
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **dashboard)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise RequestError(f"There is no Ray cluster at {address!r} ({error}); name one, or 'local'.") from error
    return RayCrew(ray, open_laboratory, workers)


class RayCrew:
    """See ``sweeping.Crew``."""

    def __init__(self, ray: Any, open_laboratory: OpenLaboratory, workers: int | None) -> None:
        self.ray = ray
        held = ray.cluster_resources()
        devices = int(held.get("GPU", 0))
        count = workers or devices or len([node for node in ray.nodes() if node["Alive"]])
        if devices and count > devices:
            raise RequestError(f"The cluster has {devices} GPUs and {count} workers were asked for; a GPU takes one.")
        share = held.get("CPU", 1.0) / count
        # otherwise a worker on this host would inherit this process's number of threads
        threads = {"env_vars": {"OMP_NUM_THREADS": str(max(1, int(share)))}}
        actor = ray.remote(RigWorker).options(
            num_gpus=1 if devices else 0, num_cpus=int(share) if share >= 1 else share, runtime_env=threads)
        self.hire = partial(actor.remote, open_laboratory)
        self.hands = [WorkerSlot(self.hire()) for _ in range(count)]
        try:
            facts = ray.get([hand.actor.about.remote() for hand in self.hands])
        except ray.exceptions.RayError as error:
            raise RigError(f"A Ray worker could not open the rig: {last_line(error).rstrip('.')}.") from error
        self.methods: Sequence[str] = facts[0].methods
        self.drafters: Sequence[str] = facts[0].drafters
        self.process_ids = [about.process_id for about in facts]
        self.conditions = shared([about.conditions for about in facts])

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        """See ``sweeping.Crew``. A worker measures a block to its end, so that what is compared shares a device."""
        return Dispatch(self, tasks, stop).run()


def shared(conditions: Sequence[Conditions]) -> Conditions:
    """The conditions of all workers as one; RigError where they differ in more than their hardware."""
    hardware = " + ".join(sorted({one.hardware for one in conditions}))
    alike = {repr(replace(one, hardware=hardware)) for one in conditions}
    if len(alike) > 1:
        raise RigError(f"The Ray workers do not hold the same rig and versions: {'; '.join(sorted(alike))}.")
    return replace(conditions[0], hardware=hardware)


def last_line(error: Exception) -> str:
    """The last line of Ray's report: the error as the worker raised it."""
    return str(error).strip().splitlines()[-1]


class Dispatch:
    """Hands one sweep's tasks to the workers and collects their results. ``running`` maps every call in progress to its
    worker's place and its task, which is None while the worker warms up."""

    def __init__(self, crew: RayCrew, tasks: Sequence[Task], stop: Event) -> None:
        self.crew, self.tasks, self.stop = crew, tasks, stop
        self.blocks = deque(deque(group) for _, group in groupby(tasks, lambda task: block_of(task.cell)))
        self.hands = list(crew.hands)
        self.running: dict[Any, tuple[WorkerSlot, Task | None]] = {}
        self.attempts: Counter[Cell] = Counter()

    def run(self) -> Iterator[CellResult]:
        """The result of every task, as it arrives."""
        for hand in self.hands:
            self._prepare(hand)
        while self._work_is_left():
            self._hand_out()
            for reference in self._arrived():
                result = self._collect(*self.running.pop(reference), reference)
                if result:
                    yield result

    def _work_is_left(self) -> bool:
        if any(task for _, task in self.running.values()):
            return True
        return not self.stop.is_set() and bool(self.blocks or any(hand.queue for hand in self.hands))

    def _prepare(self, hand: WorkerSlot) -> None:
        hand.queue.clear()
        self.running[hand.actor.prepare.remote(self.tasks)] = hand, None

    def _hand_out(self) -> None:
        """Give a task to every idle worker."""
        if self.stop.is_set():
            return
        busy = {id(hand) for hand, _ in self.running.values()}
        for hand in self.hands:
            if id(hand) not in busy and (hand.queue or self.blocks):
                hand.queue = hand.queue or self.blocks.popleft()
                task = hand.queue.popleft()
                self.running[hand.actor.measure.remote(task)] = hand, task

    def _arrived(self) -> list[Any]:
        if not self.running:
            return []
        ready: list[Any] = self.crew.ray.wait(list(self.running), timeout=GLANCE_SECONDS)[0]
        return ready

    def _collect(self, hand: WorkerSlot, task: Task | None, reference: Any) -> CellResult | None:
        try:
            result = self.crew.ray.get(reference)
        except self.crew.ray.exceptions.RayActorError:
            return self._replace(hand, task)
        return result if task else None

    def _replace(self, hand: WorkerSlot, task: Task | None) -> CellResult | None:
        """Replace a lost worker, whose tasks go back to the front of the queue."""
        left = [task, *hand.queue] if task else list(hand.queue)
        hand.losses += 1
        if hand.losses < MOST_LOSSES:
            hand.actor = self.crew.hire()
            self._prepare(hand)
        else:
            self.hands.remove(hand)
            if not self.hands:
                raise RigError(f"Every Ray worker was lost {MOST_LOSSES} times; what was measured is kept, so look at "
                               "the cluster and resume.")
        given_up = None
        if task:
            self.attempts[task.cell] += 1
            if self.attempts[task.cell] == MOST_ATTEMPTS:
                left = left[1:]
                given_up = CellResult(task.cell, None, f"{MOST_ATTEMPTS} Ray workers were lost while measuring this.")
        if left:
            self.blocks.appendleft(deque(left))
        return given_up
