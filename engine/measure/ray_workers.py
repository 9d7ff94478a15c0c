"""Ray workers: one actor per device holds the rig. Ray restarts a lost one, which measures its cell anew.

Ray is optional (``requirements-ray.txt``). Every host needs this code, its packages and the rig in the same place.
Results come back to this process, the store's one writer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from threading import Event
from typing import Any

from engine.errors import RequestError, RigError
from engine.lab.settings import CellResult, Conditions, Task, block_of
from engine.lab.sweeping import Laboratory, measure, warm

MAX_ATTEMPTS = 3  # workers that may be lost to a cell before it fails
MAX_LOSSES = 5  # restarts of a worker
POLL_SECONDS = 0.2  # between two checks whether the sweep was stopped

OpenLaboratory = Callable[[], Laboratory]


@dataclass(frozen=True)
class WorkerFacts:
    """A worker's conditions, the methods that it can run, its drafters, and its process id."""

    conditions: Conditions
    methods: tuple[str, ...]
    drafters: tuple[str, ...]
    process_id: int


class RigWorker:
    """Runs in a worker: it opens the rig when it starts and when it is restarted."""

    def __init__(self, open_laboratory: OpenLaboratory) -> None:
        self._laboratory = open_laboratory()
        self._warm: Any = None  # the tasks that it is warm for

    def about(self) -> WorkerFacts:
        laboratory = self._laboratory
        return WorkerFacts(laboratory.conditions, tuple(laboratory.methods), tuple(laboratory.drafters), os.getpid())

    def measure(self, task: Task, sweep: Sequence[Any]) -> CellResult:
        """Measure one task. ``sweep`` holds the reference to all tasks, which are read to warm up."""
        if self._warm != sweep:
            warm(self._laboratory, import_module("ray").get(sweep[0]), Event())
            self._warm = sweep
        return measure(self._laboratory, task)


def connect_workers(open_laboratory: OpenLaboratory, address: str, workers: int | None = None) -> RayWorkers:
    """Connect to a cluster (``local`` starts one here) and open the rig on ``workers`` workers: by default one per GPU,
    or one per host. RequestError without Ray or a cluster, RigError if the rig does not open."""
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
    return RayWorkers(ray, open_laboratory, workers)


class RayWorkers:
    """See ``sweeping.Workers``."""

    def __init__(self, ray: Any, open_laboratory: OpenLaboratory, workers: int | None) -> None:
        self.ray = ray
        held = ray.cluster_resources()
        devices = int(held.get("GPU", 0))
        count = workers or devices or len([node for node in ray.nodes() if node["Alive"]])
        if devices and count > devices:
            raise RequestError(f"The cluster has {devices} GPUs and {count} workers were asked for; a GPU takes one.")
        cores = held.get("CPU", 1.0) / count
        # otherwise a worker on this host would inherit this process's number of threads
        threads = {"env_vars": {"OMP_NUM_THREADS": str(max(1, int(cores)))}}
        actor = ray.remote(RigWorker).options(
            num_gpus=1 if devices else 0, num_cpus=int(cores) if cores >= 1 else cores, runtime_env=threads,
            max_restarts=MAX_LOSSES - 1, max_task_retries=MAX_ATTEMPTS - 1)
        self.actors = [actor.remote(open_laboratory) for _ in range(count)]
        try:
            facts = ray.get([worker.about.remote() for worker in self.actors])
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]  # of Ray's report: the error as the worker raised it
            raise RigError(f"A Ray worker could not open the rig: {reason.rstrip('.')}.") from error
        self.methods: Sequence[str] = facts[0].methods
        self.drafters: Sequence[str] = facts[0].drafters
        self.process_ids = [about.process_id for about in facts]
        self.conditions = common_conditions([about.conditions for about in facts])

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        """See ``sweeping.Workers``. A worker measures whole blocks, so that compared runs share a device."""
        blocks = deque(deque(group) for _, group in groupby(tasks, lambda task: block_of(task.cell)))
        sweep = [self.ray.put(tasks)]  # in a list, so that not every call carries all tasks
        queues: dict[int, deque[Task]] = {number: deque() for number in range(len(self.actors))}
        running: dict[Any, tuple[int, Task]] = {}  # the worker and the task of every call in progress
        while True:
            for number in queues.keys() - {number for number, _ in running.values()}:
                if not stop.is_set() and (queues[number] or blocks):
                    queues[number] = queues[number] or blocks.popleft()
                    task = queues[number].popleft()
                    running[self.actors[number].measure.remote(task, sweep)] = number, task
            if not running:
                return
            for call in self.ray.wait(list(running), timeout=POLL_SECONDS)[0]:
                number, task = running.pop(call)
                try:
                    yield self.ray.get(call)
                except self.ray.exceptions.ActorDiedError as error:
                    blocks.appendleft(deque([task, *queues.pop(number)]))
                    if not queues:
                        raise RigError(f"Every Ray worker was lost {MAX_LOSSES} times; what was measured is kept, so "
                                       "look at the cluster and resume.") from error
                except self.ray.exceptions.RayActorError:
                    yield CellResult(task.cell, None, f"{MAX_ATTEMPTS} Ray workers were lost while measuring this.")


def common_conditions(conditions: Sequence[Conditions]) -> Conditions:
    """Return the conditions of all workers as one; RigError if they differ in more than their hardware."""
    hardware = " + ".join(sorted({one.hardware for one in conditions}))
    distinct = {repr(replace(one, hardware=hardware)) for one in conditions}
    if len(distinct) > 1:
        raise RigError(f"The Ray workers do not hold the same rig and versions: {'; '.join(sorted(distinct))}.")
    return replace(conditions[0], hardware=hardware)
