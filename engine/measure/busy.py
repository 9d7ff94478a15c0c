"""Busy processes that run during a measurement and stand for a browser, a compiler or other programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import RequestError

MOST = 64
# ends by itself when its parent process is gone, however that ended
BUSY = "import os\nbegan = os.getppid()\nprint(flush=True)\nwhile os.getppid() == began: pass"


def possible(count: int) -> int:
    """The count itself; RequestError where it is out of bounds."""
    if not 0 <= count <= MOST:
        raise RequestError(f"The busy processes are {count}; they have to lie between 0 and {MOST}.")
    return count


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processors busy while inside: the processes run once it is entered, and have ended once it is
    left."""
    # in a process group of their own, so that a terminal's Ctrl-C reaches only the parent
    begun = [subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, process_group=0)
             for _ in range(possible(count))]
    try:
        for process in begun:
            if process.stdout:
                process.stdout.readline()
        yield
    finally:
        for process in begun:
            process.kill()
        for process in begun:
            process.communicate()
