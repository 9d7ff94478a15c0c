"""Chooses the dtype of a rig if none is named, measured once on this processor and remembered.

One dtype serves plain decoding and trees, so that both write one text. It is chosen by expected tokens per second at
each dtype's best budget: the acceptance lengths of the rig's card over the measured time of a pass. Weights that a file
stores in 4 bits may be multiplied as 4 bits, "int4" (``models/packed_linear.py``). Figures: ``LOG.md``.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from engine.checkpoints.files import count_parameters, display_name, weight_files
from engine.checkpoints.gguf import origin_of
from engine.checkpoints.loading import causal_config, load_causal
from engine.checkpoints.memory import LoadContext, Storage, fits
from engine.decoding.tree import pack
from engine.errors import FileError, RigError
from engine.machine.files import kept_files, replace_file
from engine.models.device import hardware
from engine.models.packed_linear import GROUP, levels_of, rounded_levels
from engine.models.passes import compiled_layers, compiled_product
from engine.models.target import TorchTarget
from engine.records import Precision, Sampling
from engine.requests.rig_names import AUTO_DTYPE, EXACTNESS, INT4
from engine.serving.cost import mock_tree

# The dtype that is computed in, by the name of the weights' dtype.
DTYPES: Mapping[str, torch.dtype] = MappingProxyType({
    "float32": torch.float32, "bfloat16": torch.bfloat16, INT4: torch.bfloat16})
DEFAULT_DTYPE = "bfloat16"
BY_EXACTNESS = (INT4, "float32", "bfloat16")  # bit for bit; but for rounding far below any gap; but for near-ties
EXPECTED_BUDGETS = (0, 1, 3, 7, 16)  # 0 is plain decoding
SAMPLE_WEIGHT = "mlp.gate_proj.weight"  # shows whether a file has 4-bit weights; some files keep others finer
CONTEXT = 64  # tokens of prefix
PASS_VERSION = 4  # increase it when passes become faster or slower: remembered times are then measured again
PASS_REPEATS = 9  # the fastest counts, because other programs only ever slow a pass down
MIN_RELATIVE_RATE = 0.9  # a more exact dtype is chosen if it reaches this fraction of the fastest one's speed
MAX_QUANTISED = 4_500_000_000  # parameters of a target that is rounded to 4 bits on request: a "4B" has 4.02 billion
MAX_PARAMETERS = 10**9  # parameters: reading a larger target twice would take longer than the better dtype could save

PassTimes = Mapping[int, float]  # milliseconds of a pass of the target by its rows


def precision(requested: str, folder: Path, device: torch.device, context: LoadContext,
              lengths: Mapping[int, float]) -> Precision:
    """Choose the dtype of the target in a folder: the requested one or, for "auto", the best for drafters of these
    acceptance ``lengths`` by nodes. It is ``DEFAULT_DTYPE``, unmeasured, on a GPU and for targets too large to try."""
    if requested != AUTO_DTYPE:
        return Precision(requested, f"{requested} was asked for; {EXACTNESS[requested]}.")
    text = causal_config(folder).get_text_config()
    count = count_parameters(folder)
    small = device.type == "cpu" and count <= MAX_PARAMETERS
    if not small or not fits(2 * count, text, storage_of("float32"), device, context):
        why = "on a GPU" if device.type != "cpu" else "for a target too large to try several"
        return Precision(DEFAULT_DTYPE, f"{DEFAULT_DTYPE}, as usual {why}; {EXACTNESS[DEFAULT_DTYPE]}.")
    names = tuple(name for name in DTYPES if name != INT4 or in_four_bits(folder))
    context.report(f"Choosing the precision of {display_name(folder)} …", None)
    compiled = INT4 in names and (compiled_layers(()) is not None, compiled_product() is not None)
    key = sha256("|".join([text.to_json_string(), hardware(device), str(torch.get_num_threads()), torch.__version__,
                           str(PASS_VERSION), str(compiled), *names]).encode()).hexdigest()
    times = load_times(key)
    if times is None:
        context.report(f"Measuring in which precision {display_name(folder)} is fastest here …", None)
        times = pass_times(folder, names)
        save_times(key, times)
    return choose_dtype(times, lengths)


def storage_of(name: str) -> Storage:
    """Return what a rig in this dtype keeps in memory. Beside the bfloat16 weights that read prompts, an int4 rig holds
    each weight as 4 bits or as a copy in another layout; all are counted as copies."""
    dtype = DTYPES[name]
    return Storage(name, dtype, dtype.itemsize if name == INT4 else 0.0)


def choose_dtype(times: Mapping[str, PassTimes], lengths: Mapping[int, float]) -> Precision:
    """Choose the most exact dtype whose best setting reaches ``MIN_RELATIVE_RATE`` of the fastest one's."""
    tokens = {0: 1.0, **lengths}
    rates = {name: max(1e3 * tokens[nodes] / times[name][nodes + 1] for nodes in EXPECTED_BUDGETS) for name in times}
    enough = MIN_RELATIVE_RATE * max(rates.values())
    name = next(name for name in BY_EXACTNESS if rates.get(name, 0.0) >= enough)
    others = ", ".join(f"{other} {rate:.0f}" for other, rate in rates.items() if other != name)
    plain = min(times, key=lambda other: times[other][1])
    gain = times[name][1] / times[plain][1]
    return Precision(
        name, f"{name}, expected to write {rates[name]:.0f} tokens/s at its best setting ({others}), by this "
              f"processor's passes and the rig's acceptance lengths; {EXACTNESS[name]}.",
        *((plain, gain) if MIN_RELATIVE_RATE * gain > 1 else ()))


def pass_times(folder: Path, names: Sequence[str]) -> Mapping[str, PassTimes]:
    """Measure the target's passes in each of these dtypes, interleaved, so that other programs disturb all equally."""
    targets: dict[str, TorchTarget] = {}
    for name in names:
        targets[name] = TorchTarget(load_causal(folder, DTYPES[name], torch.device("cpu")), ())
        enable_int4(targets[name], name, folder)
    roots = {name: target.prefill([0] * CONTEXT, EXPECTED_BUDGETS[-1] + 1, Sampling())[0]
             for name, target in targets.items()}
    least: dict[str, dict[int, float]] = {name: {} for name in names}
    for rows in (nodes + 1 for nodes in EXPECTED_BUDGETS):
        for _ in range(PASS_REPEATS):
            for name, target in targets.items():
                packed, began = pack(mock_tree(roots[name], rows), CONTEXT), perf_counter()
                np.asarray(target.verify_batch([target], [packed])[0].choice)
                lap = 1e3 * (perf_counter() - began)
                least[name][rows] = min(lap, least[name].get(rows, lap))
    return least


def enable_int4(target: TorchTarget, name: str, folder: Path) -> str:
    """Switch the target from this folder to 4-bit products if the dtype asks for them. Other weights of small
    safetensors models are rounded, which the returned sentence says. RigError if neither is possible."""
    if name != INT4 or target.enable_int4():
        return ""
    small = origin_of(folder) is None and count_parameters(folder) <= MAX_QUANTISED
    if small and target.enable_int4(rounded_levels):
        return (f"The weights of {display_name(folder)} are rounded to 4 bits here, in groups of {GROUP} as in Q4_K: "
                "lossless means against these weights.")
    others = ", ".join(other for other in (AUTO_DTYPE, *DTYPES) if other != INT4)
    raise RigError(f"{display_name(folder)} cannot be read as {INT4}: its weights are not stored in 4 bits, and "
                   "are not safetensors of 4 billion numbers at most, or its architecture or device has no product for "
                   f"them; choose one of {others}.")


def in_four_bits(folder: Path) -> bool:
    """Return whether the target in a folder seems to have 4-bit weights, judged by one of them."""
    for file in weight_files(folder):
        with suppress(OSError, SafetensorError), safe_open(file, framework="pt") as weights:
            name = next((name for name in weights.keys() if name.endswith(SAMPLE_WEIGHT)), None)  # noqa: SIM118
            if name:
                return levels_of(weights.get_tensor(name).to(torch.bfloat16)) is not None
    return False


def load_times(key: str) -> Mapping[str, PassTimes] | None:
    """Return the stored pass times; None if there are none, or if they cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        stored = json.loads(_file().read_text(encoding="utf8"))[key]
        return {name: {nodes + 1: float(times[str(nodes + 1)]) for nodes in EXPECTED_BUDGETS}
                for name, times in stored.items()}
    return None


def save_times(key: str, times: Mapping[str, PassTimes]) -> None:
    """Store pass times for later starts, if the file can be written."""
    stored: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        stored = json.loads(_file().read_text(encoding="utf8"))
    stored[key] = times
    with suppress(OSError, FileError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        replace_file(_file(), json.dumps(stored).encode())


def _file() -> Path:
    return kept_files() / "precision.json"
