"""Memory: checks that a rig fits before anything large is read, spreads its layers over GPUs, estimates a run's bytes.

If one GPU is too small, layers go to the GPUs in order, so that hidden states move from each GPU to the next once.
Embedding, final norm and output head lie on the first GPU with the drafters, which share them.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path
from traceback import clear_frames
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.checkpoints.files import count_parameters
from engine.errors import RequestError, RigError
from engine.machine.progress import ReportProgress, ignore_progress
from engine.models.target import TorchTarget, positions_of
from engine.records import Request

GIGA = 1e9
MIN_POSITIONS = 4096  # a rig is refused if a cache of this length does not fit
MAX_GPU_PERCENT = 90  # of free memory; the rest is for logits, masks and longer texts
MAX_RUNS = 8
REUSABLE_FRACTION = 1 / 8  # of the memory of runs: for texts whose prefixes later runs reuse
RUNS_FRACTION = 0.5  # of the memory that is free once the rig is loaded
CACHELESS_LAYER_TYPES = frozenset({"linear_attention", "conv", "mamba", "moe", "mlp"})  # they keep no keys and values
LOGIT_BYTES = 8  # per logit of a row: in float32, and a copy while they are read
ADJUSTED_BYTES = 8  # more per logit if biases or penalties change it: two float32 arrays
DeviceMap = Mapping[str, int]  # from modules' names to GPUs' numbers; empty for a single device


@dataclass(frozen=True)
class LoadContext:
    """Callbacks and the memory in use while a rig loads. ``report`` is called at every step and piece of a download;
    it raises to cancel. ``other_rig`` names a rig that goes on answering; ``other_rig_bytes`` is what it
    holds on a CPU."""

    report: ReportProgress = ignore_progress
    other_rig: str = ""
    other_rig_bytes: int = 0


DEFAULT_CONTEXT = LoadContext()


@dataclass(frozen=True)
class Storage:
    """A rig's dtype by name: the dtype of weights, keys and values, and further bytes per weight."""

    name: str
    weights: torch.dtype
    extra_bytes: float = 0.0

    @property
    def weight_bytes(self) -> float:
        return self.weights.itemsize + self.extra_bytes


def check_memory(count: int, text_config: Any, storage: Storage, device: torch.device,
                 context: LoadContext = DEFAULT_CONTEXT) -> None:
    """Raise RigError if ``count`` weights and a cache of ``MIN_POSITIONS`` need more memory than is free."""
    weights, cache = int(count * storage.weight_bytes), usual_cache_bytes(text_config, storage)
    free = max(0, free_bytes(device) - (0 if device.type == "cuda" else context.other_rig_bytes))
    if weights + cache > free:
        where = "the GPU" if device.type == "cuda" else "this machine"
        beside = f" beside the {context.other_rig}" if context.other_rig else ""
        raise RigError(
            f"The rig needs about {(weights + cache) / GIGA:.1f} GB ({weights / GIGA:.1f} of weights in "
            f"{storage.name}, {cache / GIGA:.1f} of cache), and {where} has {free / GIGA:.1f} GB "
            f"free{beside}; choose a smaller target, or free memory that other programs hold.")


def fits(count: int, text_config: Any, storage: Storage, device: torch.device, context: LoadContext) -> bool:
    """Return whether ``check_memory`` raises nothing."""
    try:
        check_memory(count, text_config, storage, device, context)
    except RigError:
        return False
    return True


def usual_cache_bytes(text_config: Any, storage: Storage) -> int:
    """Return the bytes of a cache of usual length."""
    return cache_bytes(text_config, min(MIN_POSITIONS, positions_of(text_config)), storage.weights)


def cache_bytes(text_config: Any, positions: int, dtype: torch.dtype) -> int:
    """Return the bytes of keys and values (or of latents) at this many positions of all attention layers."""
    layers = layer_configs(text_config)
    kinds = getattr(text_config, "layer_types", None) or ["attention"] * len(layers)
    numbers = 0
    for layer, kind in zip(layers, kinds, strict=True):
        if kind in CACHELESS_LAYER_TYPES:
            continue
        if getattr(layer, "kv_lora_rank", None):
            numbers += int(layer.kv_lora_rank + layer.qk_rope_head_dim)
        else:
            heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
            size = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
            numbers += 2 * int(heads) * int(size)
    return numbers * positions * dtype.itemsize


def layer_configs(text_config: Any) -> list[Any]:
    """Return each layer's config, because layers may differ."""
    return list(getattr(text_config, "per_layer_config", None) or [text_config] * int(text_config.num_hidden_layers))


def free_bytes(device: torch.device) -> int:
    """Return how many bytes can still be allocated on a GPU; of a CPU, all of the machine's memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def choose_device_map(folders: Sequence[Path], config: PreTrainedConfig, storage: Storage, device: torch.device,
                  context: LoadContext) -> DeviceMap:
    """Return the GPUs of the target's modules; {} if all folders, the target's first, fit on the device.

    RigError if all GPUs together have too little room, or if this machine cannot spread a model.
    """
    text_config, counts = config.get_text_config(), [count_parameters(folder) for folder in folders]
    several = device.type == "cuda" and device.index is None and torch.cuda.device_count() > 1
    if not several or fits(sum(counts), text_config, storage, device, context):
        check_memory(sum(counts), text_config, storage, device, context)
        return {}
    free = [free_bytes(torch.device("cuda", number)) for number in range(torch.cuda.device_count())]
    drafters = int(sum(counts[1:]) * storage.weight_bytes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=storage.weights)
    return make_device_map(model, usual_cache_bytes(text_config, storage), drafters, free)


def make_device_map(model: PreTrainedModel, cache: int, drafter_bytes: int, free: Sequence[int]) -> DeviceMap:
    """Return the GPUs of a model's modules. ``cache``: bytes of all caches; ``drafter_bytes``: those on the first GPU;
    ``free``: those of each GPU. RigError if they do not suffice."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise RigError(f"The layers of a {model.config.model_type} cannot be told apart, so it cannot be spread over "
                       "several GPUs; choose a target that fits on one.")
    sizes = [_parameter_bytes(layer) + cache // len(layers) for layer in layers]
    rest = _parameter_bytes(model) - sum(map(_parameter_bytes, layers)) + drafter_bytes
    gpus = assign_gpus(sizes, rest, free)
    if not gpus:
        raise RigError(f"The rig needs about {(sum(sizes) + rest) / GIGA:.1f} GB, and the {len(free)} GPUs have "
                       f"{', '.join(f'{size / GIGA:.1f}' for size in free)} GB free, of which {MAX_GPU_PERCENT} % are "
                       "taken at most; choose a smaller target, or free memory that other programs hold.")
    prefix = model.base_model_prefix
    others = [name for name, _ in model.named_children() if name != prefix]
    others += [f"{prefix}.{name}" for name, _ in model.base_model.named_children() if name != "layers"]
    return {**dict.fromkeys(others, 0), **{f"{prefix}.layers.{number}": gpu for number, gpu in enumerate(gpus)}}


def assign_gpus(layers: Sequence[int], rest: int, free: Sequence[int]) -> list[int]:
    """Choose a GPU for each layer, in order, so that the fullest is as empty as possible; [] if there is too little
    room. All numbers are bytes; ``rest`` lies on the first GPU."""
    for percent in range(1, MAX_GPU_PERCENT + 1):
        remaining, gpu = [size * percent // 100 for size in free], 0
        remaining[0] -= rest
        gpus: list[int] = []
        for size in layers:
            while gpu < len(remaining) and remaining[gpu] < size:
                gpu += 1
            if gpu == len(remaining):
                break
            remaining[gpu] -= size
            gpus.append(gpu)
        if len(gpus) == len(layers) and remaining[0] >= 0:
            return gpus
    return []


def _parameter_bytes(module: nn.Module) -> int:
    return sum(value.nbytes for value in module.parameters())


class RunMemory:
    """The bytes for all runs of a rig (``bytes``), and for texts whose prefixes later runs reuse."""

    def __init__(self, target: TorchTarget) -> None:
        self._target = target
        unused = RUNS_FRACTION * unused_bytes(target.device)
        self.reusable_bytes = int(REUSABLE_FRACTION * unused)
        self.bytes = unused - self.reusable_bytes

    def share(self, request: Request, drafter_count: int) -> float:
        """Return the fraction of this memory that a run takes, from 1 / ``MAX_RUNS`` to 1."""
        return min(1.0, max(1 / MAX_RUNS, run_bytes(self._target, request, drafter_count) / self.bytes))


def run_bytes(target: TorchTarget, request: Request, drafter_count: int) -> int:
    """Estimate a run's bytes: the caches of target and drafters, the features, and a round's logits."""
    rows = 2 * request.budget + 1  # the budget may be one for each of two drafters
    positions = min(len(request.prompt_ids) + request.max_tokens, target.context_limit) + rows
    cache, features = cache_bytes(target.config, positions, target.model.dtype), feature_bytes(target, positions)
    logit_bytes = LOGIT_BYTES + (ADJUSTED_BYTES if request.sampling.adjusts else 0)
    return (1 + drafter_count) * cache + features + logit_bytes * rows * int(target.config.vocab_size)


def reusable_bytes(target: TorchTarget, positions: int) -> int:
    """Return the bytes that ``positions`` of a reusable text take."""
    return cache_bytes(target.config, positions, target.model.dtype) + feature_bytes(target, positions)


def feature_bytes(target: TorchTarget, positions: int) -> int:
    """Return the bytes that the features of ``positions`` take."""
    return len(target.taps) * int(target.config.hidden_size) * positions * int(target.model.dtype.itemsize)


def unused_bytes(device: torch.device) -> int:
    """Return how many bytes are free on the device now; on a CPU by the system's count, if it has one."""
    if device.type == "cuda":
        return free_bytes(device) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    sizes = [free_bytes(device)]
    with suppress(OSError, StopIteration, ValueError):  # the machine's
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):  # the container's
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        sizes.append(max(0, limit - used))
    return min(sizes)


def trim_heap() -> None:
    """Return memory of past runs' threads to the system; GNU's allocator never shrinks their arenas by itself."""
    with suppress(AttributeError, OSError):
        CDLL(None).malloc_trim(0)


@contextmanager
def memory_errors(attempt: str) -> Iterator[None]:
    """Turn an out-of-memory error of the block into ``memory_error``."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise memory_error(error, attempt) from error


def memory_error(error: Exception, attempt: str) -> Exception:
    """Return the error for the user: a RequestError if the device has no memory for this request, else the error
    itself. ``attempt`` describes the request, to complete the message."""
    if not isinstance(error, torch.OutOfMemoryError):
        return error
    clear_frames(error.__traceback__)  # its frames still hold tensors
    torch.cuda.empty_cache()
    needed = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    more = f" ({needed[1]} more was needed)" if needed else ""
    return RequestError(f"The GPU ran out of memory{more} {attempt}; lower the budget or max tokens, or shorten the "
                        "prompt.")
