"""Chooses the dtype of a rig where none is named: the fastest on this processor, measured once and remembered.

A pass over a tree is bound by arithmetic, a pass over one row by memory. So a processor that multiplies bfloat16 slowly
may be fastest with trees in float32 and plain decoding in bfloat16, whose weights are half as many bytes. Weights that
a file stores in 4 bits may be multiplied as such, "int4" (``target/four_bits.py``). Figures: ``LOG.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from engine.errors import FileError, RigError
from engine.machine.files import replace_file
from engine.machine.kept_files import kept_files
from engine.records import PackedTree, Sampling
from engine.requests.rig_names import AUTO_DTYPE, FOUR_BITS
from engine.runtime.checkpoints.architectures import causal_config
from engine.runtime.checkpoints.files import called, parameters, weight_files
from engine.runtime.checkpoints.loading import load_causal
from engine.runtime.checkpoints.memory import Storage, fits
from engine.runtime.checkpoints.opening import Opening
from engine.runtime.rigs.mock import mock_tree
from engine.runtime.target.four_bits import CACHE_DTYPE, PACKED_BYTES, levels_of
from engine.runtime.target.hardware import hardware
from engine.runtime.target.target import TorchTarget
from engine.trees.tree import pack

# The dtype that is computed in, by the name of the weights' dtype.
DTYPES: Mapping[str, torch.dtype] = MappingProxyType({
    "float32": torch.float32, "bfloat16": torch.bfloat16, FOUR_BITS: torch.bfloat16})
USUAL = "bfloat16"
SMALL_TREE_ROWS, TREE_ROWS = 4, 17  # trees of 3 and of 16 nodes with their roots
SAMPLE = "mlp.gate_proj.weight"  # the weight that shows whether a file has 4-bit weights; some keep others finer
CONTEXT = 64  # tokens of prefix
REPEATS = 9  # of each pass; the fastest counts, since other programs can only slow one down
CLEARLY = 0.9  # of the time: only a pass this much faster is worth a second copy of the weights
LARGEST = 10**9  # parameters: reading a larger target twice would take longer than the better dtype could save


@dataclass(frozen=True)
class Precision:
    """The dtypes that draft trees and plain decoding run in."""

    trees: str
    plain: str


@dataclass(frozen=True)
class PassTimes:
    """Milliseconds of the target's passes over one row, over ``SMALL_TREE_ROWS`` and over ``TREE_ROWS``."""

    one: float
    small_tree: float
    tree: float

    @property
    def trees(self) -> float:
        """The milliseconds of a tree whose size is not known yet: the geometric mean of both."""
        return sqrt(self.small_tree * self.tree)


def precision(wanted: str, folder: Path, device: torch.device, opening: Opening) -> Precision:
    """The dtypes that the target in a folder runs in: the wanted one, or, for "auto", the fastest. Nothing is measured,
    and both are ``USUAL``, on a GPU, for large targets, and where two copies in float32 would not fit."""
    if wanted != AUTO_DTYPE:
        return Precision(wanted, wanted)
    text = causal_config(folder).get_text_config()
    small = device.type == "cpu" and parameters(folder) <= LARGEST
    if not small or not fits([folder, folder], text, storage_of("float32"), device, opening):
        return Precision(USUAL, USUAL)
    names = tuple(name for name in DTYPES if name != FOUR_BITS or in_four_bits(folder))
    key = sha256("|".join([text.to_json_string(), hardware(device), str(torch.get_num_threads()), torch.__version__,
                           *names]).encode())
    times = remembered(key.hexdigest())
    if times is None:
        opening.tell(f"Measuring in which precision {called(folder)} is fastest here …", None)
        times = pass_times(folder, names)
        remember(key.hexdigest(), times)
    return chosen(times)


def storage_of(name: str) -> Storage:
    """What a rig in the dtype of this name keeps in memory; weights of 4 bits are held beside those in bfloat16, which
    prompts are read with."""
    dtype = DTYPES[name]
    return Storage(name, dtype, CACHE_DTYPE, PACKED_BYTES) if name == FOUR_BITS else Storage(name, dtype, dtype)


def chosen(times: Mapping[str, PassTimes]) -> Precision:
    """The fastest dtype for trees, and the same for plain decoding unless another is clearly faster there."""
    trees, plain = (min(times, key=lambda name: getattr(times[name], rows)) for rows in ("trees", "one"))
    return Precision(trees, plain if times[plain].one < CLEARLY * times[trees].one else trees)


def pass_times(folder: Path, names: Sequence[str]) -> Mapping[str, PassTimes]:
    """The pass times of the target in each of these dtypes, measured in turns, so that other programs disturb all of
    them alike. The weights are freed afterwards."""
    targets = {name: target_in(name, folder) for name in names}
    roots = {name: target.prefill([0] * CONTEXT, TREE_ROWS, Sampling())[0] for name, target in targets.items()}
    least: dict[tuple[str, int], float] = {}
    for rows in (1, SMALL_TREE_ROWS, TREE_ROWS):
        for _ in range(REPEATS):
            for name, target in targets.items():
                lap = _milliseconds(target, pack(mock_tree(roots[name], rows), CONTEXT))
                least[name, rows] = min(lap, least.get((name, rows), lap))
    return {name: PassTimes(*(least[name, rows] for rows in (1, SMALL_TREE_ROWS, TREE_ROWS))) for name in targets}


def target_in(name: str, folder: Path) -> TorchTarget:
    """The target in a folder on the CPU in the dtype of this name, without taps."""
    target = TorchTarget(load_causal(folder, DTYPES[name], torch.device("cpu")), ())
    take(target, name, folder)
    return target


def take(target: TorchTarget, name: str, folder: Path) -> None:
    """Switch the target from this folder to 4-bit products where the dtype's name asks for them; RigError where its
    weights are not 4-bit."""
    if name == FOUR_BITS and not target.read_in_four_bits():
        others = ", ".join(other for other in (AUTO_DTYPE, *DTYPES) if other != FOUR_BITS)
        raise RigError(f"{called(folder)} cannot be read as {FOUR_BITS}: its weights are not stored in 4 bits, or its "
                       f"architecture or device has no product for them; choose one of {others}.")


def in_four_bits(folder: Path) -> bool:
    """Whether the target in a folder seems to have 4-bit weights, judged by one of them."""
    for file in weight_files(folder):
        with suppress(OSError, SafetensorError), safe_open(file, framework="pt") as weights:
            name = next((name for name in weights.keys() if name.endswith(SAMPLE)), None)  # noqa: SIM118
            if name:
                return levels_of(weights.get_tensor(name).to(torch.bfloat16)) is not None
    return False


def _milliseconds(target: TorchTarget, packed: PackedTree) -> float:
    began = perf_counter()
    np.asarray(target.verify(packed).choice)
    return 1e3 * (perf_counter() - began)


def remembered(key: str) -> Mapping[str, PassTimes] | None:
    """The pass times measured before; None where there are none, or where they cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(_file().read_text(encoding="utf8"))[key]
        return {name: PassTimes(**found) for name, found in kept.items()}
    return None


def remember(key: str, times: Mapping[str, PassTimes]) -> None:
    """Keep pass times for later starts; where the file cannot be written, the next start measures again."""
    kept: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        kept = json.loads(_file().read_text(encoding="utf8"))
    kept[key] = {name: vars(found) for name, found in times.items()}
    with suppress(OSError, FileError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        replace_file(_file(), json.dumps(kept).encode())


def _file() -> Path:
    return kept_files() / "precision.json"
