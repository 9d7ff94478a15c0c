"""The waiting policy and the number of threads are set before torch is imported, in every program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.machine.threads import NUMBER, WAITING, OtherWork, configure_openmp, cores

HOUSE = Path(__file__).parents[3]
NAMES = (*WAITING, *NUMBER)
# Run a program up to its import of torch, and print the environment at that point.
UP_TO_TORCH = f"""
import json, os, runpy, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(json.dumps({{name: os.environ.get(name) for name in {NAMES!r}}}), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
program, sys.argv = sys.argv[1], sys.argv[1:]
if program.endswith(".py"):
    runpy.run_path(program, run_name="__main__")
else:
    runpy.run_module(program, run_name="__main__", alter_sys=True)
"""
pytestmark = pytest.mark.slow  # each program is a process of its own
PROGRAMS = (  # one of each folder; a folder's other programs start in the same way
    ("app.py", "--port", "1"), ("engine", "generate", "--prompt", "hi"), ("engine.commands.bench",),
    ("recipes.target",), ("engine.measure.instruments",))


def environment_at_torch(*words: str, **settings: str) -> dict[str, str | None]:
    """Return a program's environment at its import of torch."""
    clean = {name: value for name, value in os.environ.items() if name not in (*NAMES, "PYTEST_XDIST_WORKER")}
    program = "import sys; sys.path.insert(0, ''); " + UP_TO_TORCH + "import torch\n"
    process = subprocess.run([sys.executable, "-c", program, *words], cwd=HOUSE, env={**clean, **settings},
                          capture_output=True, text=True, check=False, timeout=120)
    assert process.stdout, process.stderr
    environment: dict[str, str | None] = json.loads(process.stdout.splitlines()[-1])
    return environment


@pytest.mark.parametrize("words", PROGRAMS, ids=" ".join)
def test_every_entry_point_sets_threads_before_torch_is_imported(words: tuple[str, ...]) -> None:
    assert environment_at_torch(*words) == {**WAITING, "OMP_NUM_THREADS": str(cores()), "MKL_NUM_THREADS": None}


def test_the_users_own_settings_stay() -> None:
    chosen = {"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "1"}
    assert environment_at_torch("engine", "doctor", **chosen) == {**WAITING, **chosen, "MKL_NUM_THREADS": None}
    settled = {"MKL_NUM_THREADS": "3"}
    configure_openmp(settled)
    assert settled == {**WAITING, "MKL_NUM_THREADS": "3"}


@pytest.mark.parametrize(("files", "expected"), [
    ({"cpu.max": "150000 100000"}, 2), ({"cpu.max": "50000 100000"}, 1), ({"cpu.max": "max 100000"}, 8),
    ({"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "50000\n"}, 3),
    ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "50000\n"}, 8)])
def test_a_containers_quota_limits_the_cores(
        files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, written in files.items():
        (tmp_path / name).write_text(written)
    monkeypatch.setattr("engine.machine.threads.QUOTAS", (tmp_path / "cpu.max", tmp_path / "cpu.cfs_quota_us"))
    monkeypatch.setattr("engine.machine.threads.processors", lambda: tuple(range(8)))
    monkeypatch.setattr("engine.machine.threads.SIBLINGS", str(tmp_path / "none{}"))
    assert cores() == expected


def test_two_processors_of_one_core_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.machine.threads.processors", lambda: (0, 1, 2, 3))
    monkeypatch.setattr("engine.machine.threads.QUOTAS", ())
    monkeypatch.setattr("engine.machine.threads.SIBLINGS", str(tmp_path / "{}"))
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        (tmp_path / str(number)).write_text(siblings + "\n")
    assert cores() == 2


def test_other_work_is_the_busy_time_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics, clock = tmp_path / "stat", iter((10.0, 12.0, 14.0))
    monkeypatch.setattr("engine.machine.threads.STATISTICS", statistics)
    monkeypatch.setattr("engine.machine.threads.perf_counter", lambda: next(clock))
    unchanged = os.times()
    monkeypatch.setattr("engine.machine.threads.os.times", lambda: unchanged)
    second = os.sysconf("SC_CLK_TCK")
    statistics.write_text("cpu 9 9 9\ncpu0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0\n")
    others = OtherWork((0, 1))
    statistics.write_text(f"cpu0 {second} {second} 0 {9 * second} 0 0 0\ncpu1 0 0 {second} 0 5 0 0\n"
                          f"cpu2 {second} 0 0 0 0 0 0\n")
    assert others.busy_processors() == pytest.approx(1.5)  # three seconds in two
    assert others.busy_processors() == 0
