"""How every test runs: threads wait without spinning, property-based examples are the same each time, the cores are
busy to the end, and the last line counts the tests that were left out."""

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
    """Import everything without searching for garbage, and never search what was imported: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after ``-m`` has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all workers but one begin with tests in a browser, which wait half of the time, and one with the others."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    modules = defaultdict(list)  # kept together, because they share servers and pages
    for item in items:
        if "browser" in item.path.parts:
            modules[item.path].append(item)
    others = [item for item in items if item.path not in modules]
    share = len(items) // workers  # of one worker; who is done first takes from the ends of what others have left
    items.clear()
    for worker in range(workers - 1):
        begun = [item for module in list(modules.values())[worker::workers - 1] for item in module]
        rest = max(0, share - len(begun))
        items += begun + others[:rest]
        del others[:rest]
    items += others


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember in a worker what ``-m`` left out: its process prints no summary."""
    for item in items:
        item.config.stash.setdefault(LEFT_OUT, []).append(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a worker left out to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take note of what was left out, once: every worker has left out the same."""
    seen = node.config.stash.setdefault(LEFT_OUT, [])
    if not seen:
        seen.extend(getattr(node, "workeroutput", {}).get("left_out", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many the workers left out; in one process pytest counts them itself."""
    if left_out := config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(f"{len(left_out)} tests were left out by -m {config.option.markexpr!r}.")
