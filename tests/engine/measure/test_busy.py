"""The busy processes of a measurement begin, keep busy, and always end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGINT
from time import monotonic, sleep

import pytest

from engine.errors import RequestError
from engine.measure.busy import busy_processes


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True,
                            check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "getppid" in line]


def test_they_end_with_what_they_are_beside_even_where_that_fails() -> None:
    with busy_processes(2):
        assert len(children(os.getpid())) == 2
    assert not children(os.getpid())
    with pytest.raises(ZeroDivisionError), busy_processes(1):
        assert 1 / 0
    assert not children(os.getpid())


def test_they_end_when_their_parent_is_killed() -> None:
    program = ("from engine.measure.busy import busy_processes\nfrom time import sleep\n"
               "with busy_processes(1):\n    print(flush=True)\n    sleep(60)")
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout and parent.stdout.readline()
    (child,) = children(parent.pid)
    parent.kill()
    parent.communicate()
    end = monotonic() + 20
    while lives(child) and monotonic() < end:
        sleep(0.05)
    assert not lives(child)


def test_the_terminals_interrupt_is_for_who_began_them() -> None:
    program = ("import signal, time\nfrom engine.measure.busy import busy_processes\n"
               "with busy_processes(2):\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
               "    print(flush=True)\n    time.sleep(1)")
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              start_new_session=True)
    assert parent.stdout and parent.stdout.readline()
    os.killpg(parent.pid, SIGINT)
    sleep(0.5)
    assert len(children(parent.pid)) == 2
    assert parent.communicate(timeout=20)[1] == b""


def lives(process: int) -> bool:
    """Whether there is such a process that still runs."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text(encoding="utf8").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("count", [-1, 65])
def test_a_number_that_cannot_be_is_said(count: int) -> None:
    with pytest.raises(RequestError, match="between 0 and 64"), busy_processes(count):
        pass
