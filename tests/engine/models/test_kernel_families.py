"""The products of an int4 rig give a row the same bits beside any others, and compiled layers torch's, on every kind of
kernel."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.engine.models.row_bits import HEADS, LAYERS, THREADS
from tests.engine.models.test_compiled import CONFIGS
from tests.running import ROOT

# The instructions that oneDNN and torch may use, and how many rows a block has on such a processor.
FAMILIES = {
    "AVX2": ("AVX2", "avx2", 1),
    "AVX-512": ("AVX512_CORE", "avx512", 4),
    "AVX-512 with VNNI": ("AVX512_CORE_VNNI", "avx512", 4),
    "AVX-512 with bfloat16": ("AVX512_CORE_BF16", "avx512", 8),
    "this processor's": ("DEFAULT", None, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_has_the_same_bits_beside_any_others(family: str) -> None:
    assert not differing(family, (2, 3, 4, 5, 8, 9, 17, 32, 33, 40))


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_has_the_same_bits_beside_any_number_of_others(family: str) -> None:
    assert not differing(family, range(1, 131))


def differing(family: str, counts: Iterable[int]) -> list[str]:
    """The products whose rows differ from the same rows alone, in a process that is held to a family's kernels."""
    onednn, torch, block_rows = FAMILIES[family]
    settings = {"ONEDNN_MAX_CPU_ISA": onednn, "ATEN_CPU_CAPABILITY": torch, "GOMP_SPINCOUNT": "0"}
    process = subprocess.run(
        [sys.executable, "-m", "tests.engine.models.row_bits", str(block_rows), *map(str, counts)], cwd=ROOT,
        env={**os.environ, **{name: value for name, value in settings.items() if value}},
        capture_output=True, text=True, check=True)
    lines = process.stdout.splitlines()
    assert len(lines) == len(THREADS) * (2 * len(LAYERS) + len(HEADS) + len(CONFIGS)), process.stderr
    return [line for line in lines if not re.search(r"compared=[1-9]\d* differed=0$", line)]
