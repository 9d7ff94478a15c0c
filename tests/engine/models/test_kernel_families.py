"""The products of an int4 rig give a row the same bits beside any others, and compiled layers torch's, on every kind of
kernel."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest
from llvmlite.binding import get_host_cpu_features

from tests.engine.models.row_bits import FAMILIES, HEADS, LAYERS, THREADS, digest
from tests.engine.models.test_compiled import CONFIGS
from tests.running import ROOT


@pytest.mark.slow
def test_a_row_has_the_same_bits_beside_any_others() -> None:
    """On both sides of what a block of rows holds; each product with one number of threads, the next with another."""
    assert not differing(1, (2, 3, 5, 8, 9, 17))


@pytest.mark.long
def test_a_row_has_the_same_bits_beside_any_number_of_others() -> None:
    assert not differing(len(THREADS), range(1, 131))


@pytest.mark.parametrize(("name", "features"), [
    pytest.param("haswell", "+avx2,+fma", marks=pytest.mark.slow),
    pytest.param("skylake-avx512", "+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512dq", marks=pytest.mark.long)])
def test_a_compiled_product_has_the_same_bits_on_every_processor(name: str, features: str) -> None:
    """What numba has compiled for another processor, it keeps beside what it has compiled for this one."""
    has = get_host_cpu_features()
    if missing := [feature for feature in features.split(",") if not has.get(feature[1:])]:
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    told = subprocess.run([sys.executable, "-c", "from tests.engine.models.row_bits import digest; print(digest())"],
                          env={**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features},
                          cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [digest()]


def differing(thread_counts: int, rows: Iterable[int]) -> list[str]:
    """Return the products whose rows depend on the batch, measured with each number of threads."""
    process = subprocess.run([sys.executable, "-m", "tests.engine.models.row_bits", *map(str, (thread_counts, *rows))],
                             cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    expected = len(FAMILIES) * thread_counts * (3 * len(LAYERS) + 2 * len(HEADS) + len(CONFIGS))
    assert len(lines) == expected, process.stderr
    return [line for line in lines if not re.search(r"compared=[1-9]\d* differed=0$", line)]
