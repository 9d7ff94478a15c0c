"""A process ends with its own exit status, even while its threads are inside torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ROOT

pytestmark = pytest.mark.slow  # each program is a process of its own
ABORTS = """
from threading import Thread
import torch
def work():
    while True:
        torch.zeros(2**20).add_(1)
Thread(target=work, daemon=True).start()
"""
TORCH_THREAD = """
from threading import Event
import torch
from engine.machine.threads import TorchThread
over = Event()
def work():
    while not over.is_set():
        torch.zeros(2**20).add_(1)
TorchThread("work", work, over.set).start()
"""
SECOND_TEAM = """
import engine.models.device as device
device.PARALLEL_SIZE = 2**26  # as slow as on a busy machine
device.OmpSpinSuppressor()
"""
LATE_ROUND = """
import engine
rig = engine.open_rig("demo", "float32")
answer = iter(rig.generate("Hello", method="ddtree", budget=16, max_tokens=64))
next(answer)
"""


def exit_status(program: str) -> tuple[int, str]:
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "result" in process.stdout, process.stderr
    return process.returncode, process.stderr


@pytest.mark.parametrize("program", [TORCH_THREAD, SECOND_TEAM, LATE_ROUND], ids=["thread", "second team", "scheduler"])
def test_a_program_that_returns_ends_its_torch_threads(program: str) -> None:
    assert exit_status(program + "print('result')")[0] == 0


@pytest.mark.parametrize("status", [0, 130])
def test_a_program_that_exits_at_once_unwinds_no_other_thread(status: int, tmp_path: Path) -> None:
    """No thread is unwound, started by it or not; exit handlers run."""
    file = tmp_path / "done"
    status_seen, stderr = exit_status(
        f"{ABORTS}import atexit\nfrom pathlib import Path\nfrom engine.machine.threads import exit_now\n"
        f"atexit.register(Path({str(file)!r}).touch)\nprint('result', end='')\nexit_now({status})")
    assert status_seen == status and file.exists() and not stderr
