"""Which dtype a rig runs in where nobody names one: what is fastest on this processor, measured once and remembered.

A pass over a tree computes, a pass of one row waits for memory. So a processor that multiplies bfloat16 slowly may be
fastest with trees in float32 and with plain decoding, whose weights are half as many bytes, in bfloat16. Figures:
``LOG.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from engine.errors import FileError
from engine.machine.files import replace_file
from engine.machine.kept_files import kept_files
from engine.records import PackedTree, Sampling
from engine.requests.rig_names import AUTO_DTYPE
from engine.runtime.checkpoints.architectures import causal_config
from engine.runtime.checkpoints.files import called, parameters
from engine.runtime.checkpoints.loading import load_causal
from engine.runtime.checkpoints.memory import fits
from engine.runtime.checkpoints.opening import Opening
from engine.runtime.rigs.mock import mock_tree
from engine.runtime.target.hardware import hardware
from engine.runtime.target.target import TorchTarget
from engine.trees.tree import pack

DTYPES: Mapping[str, torch.dtype] = MappingProxyType({"float32": torch.float32, "bfloat16": torch.bfloat16})
USUAL = "bfloat16"
TREE_ROWS = 17  # a tree of 16 nodes and its root
CONTEXT = 64  # tokens of prefix
REPEATS = 9  # of each pass, of which the fastest counts: other work only ever adds
CLEARLY = 0.9  # of the time: a second copy of the weights is not held for less
LARGEST = 10**9  # parameters: a larger target would take longer to read twice than the choice could win


@dataclass(frozen=True)
class Precision:
    """The dtypes that draft trees and plain decoding run in."""

    trees: str
    plain: str


@dataclass(frozen=True)
class PassTimes:
    """Milliseconds of the target's pass over one row and over ``TREE_ROWS``."""

    one: float
    tree: float


def precision(wanted: str, folder: Path, device: torch.device, opening: Opening) -> Precision:
    """The dtypes that the target in a folder runs in: the wanted one, or, for "auto", the fastest. On a GPU, for large
    targets and where two in float32 would not fit nothing is measured: both are ``USUAL``."""
    if wanted != AUTO_DTYPE:
        return Precision(wanted, wanted)
    text = causal_config(folder).get_text_config()
    small = device.type == "cpu" and parameters(folder) <= LARGEST
    if not small or not fits([folder, folder], text, torch.float32, device, opening):
        return Precision(USUAL, USUAL)
    key = sha256(f"{text.to_json_string()}|{hardware(device)}|{torch.get_num_threads()}|{torch.__version__}".encode())
    times = remembered(key.hexdigest())
    if times is None:
        opening.tell(f"Measuring in which precision {called(folder)} is fastest here …", None)
        times = pass_times(folder)
        remember(key.hexdigest(), times)
    return chosen(times)


def chosen(times: Mapping[str, PassTimes]) -> Precision:
    """The fastest for trees, and for plain decoding another one only where it clearly is faster."""
    trees, plain = (min(times, key=lambda name: getattr(times[name], rows)) for rows in ("tree", "one"))
    return Precision(trees, plain if times[plain].one < CLEARLY * times[trees].one else trees)


def pass_times(folder: Path) -> Mapping[str, PassTimes]:
    """The target in every dtype, pass by pass in turns, so that other work disturbs them alike; its weights are gone
    afterwards."""
    targets = {name: TorchTarget(load_causal(folder, dtype, torch.device("cpu")), ()) for name, dtype in DTYPES.items()}
    roots = {name: target.prefill([0] * CONTEXT, TREE_ROWS, Sampling())[0] for name, target in targets.items()}
    least: dict[tuple[str, int], float] = {}
    for rows in (1, TREE_ROWS):
        for _ in range(REPEATS):
            for name, target in targets.items():
                lap = _milliseconds(target, pack(mock_tree(roots[name], rows), CONTEXT))
                least[name, rows] = min(lap, least.get((name, rows), lap))
    return {name: PassTimes(least[name, 1], least[name, TREE_ROWS]) for name in targets}


def _milliseconds(target: TorchTarget, packed: PackedTree) -> float:
    began = perf_counter()
    np.asarray(target.verify(packed).choice)
    return 1e3 * (perf_counter() - began)


def remembered(key: str) -> Mapping[str, PassTimes] | None:
    """What was measured before; None where nothing was, or where it cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(_file().read_text(encoding="utf8"))[key]
        return {name: PassTimes(**kept[name]) for name in DTYPES}
    return None


def remember(key: str, times: Mapping[str, PassTimes]) -> None:
    """Keep it beside what else was measured; where nothing can be written, the next start measures again."""
    kept: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        kept = json.loads(_file().read_text(encoding="utf8"))
    kept[key] = {name: vars(found) for name, found in times.items()}
    with suppress(OSError, FileError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        replace_file(_file(), json.dumps(kept).encode())


def _file() -> Path:
    return kept_files() / "precision.json"
