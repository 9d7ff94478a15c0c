"""Settings of every test run: waiting threads do not spin, property tests draw the same examples each time, browser
tests are spread over the workers, and the last line counts the deselected tests."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from hypothesis import settings

from engine.machine.threads import configure_openmp

LEFT_OUT = pytest.StashKey[list[str]]()

# OpenMP reads these when torch is first imported, which happens after this file and in the servers that tests start.
# Threads that spin while they wait take the cores from the browser and from the other workers.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
configure_openmp()

settings.register_profile("canopy", deadline=None, derandomize=True, database=None)
settings.load_profile("canopy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Switch off garbage collection while modules are imported, and keep what was imported out of later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after ``-m`` has deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker begin with the other tests and the rest with browser tests, which wait half of the time."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    modules = defaultdict(list)  # kept together, because they share servers and pages
    for item in items:
        if "browser" in item.path.parts:
            modules[item.path].append(item)
    others = [item for item in items if item.path not in modules]
    share = len(items) // workers  # per worker; a worker that finishes early takes tests from the end of other lists
    items.clear()
    for worker in range(workers - 1):
        begun = [item for module in list(modules.values())[worker::workers - 1] for item in module]
        rest = max(0, share - len(begun))
        items += begun + others[:rest]
        del others[:rest]
    items += others


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests that ``-m`` deselected in a worker, whose own process prints no summary."""
    for item in items:
        item.config.stash.setdefault(LEFT_OUT, []).append(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the worker's count to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep one worker's count: all workers deselect the same tests."""
    seen = node.config.stash.setdefault(LEFT_OUT, [])
    if not seen:
        seen.extend(getattr(node, "workeroutput", {}).get("left_out", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the number of deselected tests; without workers pytest prints it itself."""
    if left_out := config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(f"{len(left_out)} tests were left out by -m {config.option.markexpr!r}.")
