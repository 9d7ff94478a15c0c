"""The prompts and the runner of the evaluation: prompts by a person, and a model's programs, which can compute and
nothing else."""

import random
import time
from pathlib import Path

import pytest

from recipes.confined import runs_to_its_end
from recipes.corpus.mixture import MAKERS
from recipes.evaluate import CHECKS, REWORDED, exact_answer, reworded_items


def test_every_prompt_has_a_domain_and_a_check() -> None:
    rows = len(REWORDED.read_text(encoding="utf8").splitlines())
    items = {domain: reworded_items(domain) for domain in CHECKS}
    assert sum(map(len, items.values())) == rows >= 60
    assert all(exact_answer(f"Answer: {item.check}", item.check) for item in items["math"])
    for item in items["code"]:
        compile(item.check, "check", "exec")
        assert item.check.startswith("assert ")


@pytest.mark.parametrize("domain", ["math", "code", "explain"])
def test_no_template_makes_these_prompts(domain: str) -> None:
    draw = random.Random(7)
    prompts = {MAKERS[domain](draw).prompt for _ in range(500)}
    assert len(prompts) > 30 and prompts.isdisjoint(item.prompt for item in reworded_items(domain))


USUAL = """
import collections, datetime, functools, heapq, itertools, json, math, random, re, string
from dataclasses import dataclass
@dataclass
class Box:
    books: int
assert Box(3).books == math.isqrt(9) and re.findall("a", "banana") == ["a"] * 3
assert [*itertools.chain([1], [2])] == [1, 2] and json.loads("[1]") == [1]
print("x" * 10**6)
"""


def test_a_correct_function_passes_and_a_wrong_one_fails() -> None:
    assert runs_to_its_end(USUAL)
    for code in ("assert 1 + 1 == 3", "this is no Python", "raise KeyboardInterrupt", "import sys; sys.exit(0)", "\0"):
        assert not runs_to_its_end(code)


@pytest.mark.parametrize("code", [
    "import socket; socket.socket()", "import _socket; _socket.socket()",
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/')", "import os; os.fork()",
    "import os; os.system('true')", "import subprocess; subprocess.run(['true'])",
    "import os; os.kill(os.getppid(), 0)",
    "open('/etc/passwd').read()", "import os; os.listdir('/') and open('/proc/self/environ')",
    "import os; os.remove('x')",
    "import os; os.symlink('/etc', 'x')", "import os; os.mkdir('x')", "import shutil; shutil.rmtree('/none')",
    "import ctypes; ctypes.CDLL(None)", "import os; open(os.path.join(os.__file__, '../../../../../etc/passwd'))",
    "import sys; sys.path.insert(0, '/etc'); open('/etc/passwd')", "import sqlite3; sqlite3.connect('x')",
    "bytearray(3 * 2**30)", "import mmap; mmap.mmap(-1, 3 * 2**30)",
    "import os; os.open('x', os.O_CREAT | os.O_WRONLY)"])
def test_any_other_operation_ends_the_program(code: str) -> None:
    assert not runs_to_its_end(code)


def test_no_file_is_written(tmp_path: Path) -> None:
    target = tmp_path / "made"
    for code in (f"open({str(target)!r}, 'w').write('x')", f"import pathlib; pathlib.Path({str(target)!r}).touch()",
                 f"import os; os.close(os.open({str(target)!r}, 0o101))"):
        assert not runs_to_its_end(code)
    assert not target.exists()


def test_an_endless_program_is_stopped() -> None:
    for code in ("while True: pass", "import time; time.sleep(60)"):
        began = time.monotonic()
        assert not runs_to_its_end(code, seconds=1)
        assert time.monotonic() - began < 20
