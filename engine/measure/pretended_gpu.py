"""A pretended CUDA device: its tensors say that they are on ``cuda:0`` and compute on the CPU.

They refuse what a GPU refuses, tensors of two devices in one call and numpy of a device's tensor. Kernels, copies and
synchronisations are counted, by the round's stage and by the engine's line that causes them. So what goes wrong at a
first run on a GPU fails on any machine, and the calls of a round can be tested even if its time cannot.
"""

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
MEMORY_BYTES = 2**36
# Operations whose result has a size or value that the host waits for.
SYNCHRONISING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal", "aten::masked_select"}
ALLOCATING = ("aten::empty", "aten::new_empty")


KERNEL, TO_DEVICE, TO_HOST, SYNCHRONISATION = KINDS = ("kernel", "to_device", "to_host", "synchronisation")
RECORD = "record"  # the stage of what is read of a round after its end
# What the protocols' functions do in a round, by their names.
STAGES = {"prefill": "prefill", "draft": "draft", "draft_batch": "draft", "observe": "draft", "verify_batch": "verify",
          "accept": "accept", "commit": "keep"}


@dataclass
class Counts:
    """What a GPU would have done: how many ``calls`` of each stage and kind, and the ``lines`` of the engine that made
    those that are no kernels, by kind."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, kind: str) -> None:
        self.calls[running_stage(), kind] += 1
        if kind != KERNEL:
            self.lines[kind, running_line()] += 1

    def total(self, kind: str) -> int:
        """The calls of a kind in all stages."""
        return sum(count for (_, one), count in self.calls.items() if one == kind)

    def clear(self) -> None:
        self.calls.clear()
        self.lines.clear()


def running_stage() -> str:
    """The stage of the round that is running."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        if frame.f_code.co_name in STAGES and "/engine/" in frame.f_code.co_filename:
            return STAGES[frame.f_code.co_name]
    return RECORD


def running_line() -> str:
    """The innermost line of the engine that is running, as ``models/passes.py:94``."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        _, engine, name = frame.f_code.co_filename.rpartition("/engine/")
        if engine and frame.f_code.co_filename != __file__ and "/tests/" not in frame.f_code.co_filename:
            return f"{name}:{frame.f_lineno}"
    return "?"


def calls_per_round(counts: Counts, rounds: Iterable[Any], recorded: bool = False) -> dict[tuple[str, str], float]:
    """The calls of each stage and kind, on average over the ``rounds`` after the first. The statistics of ``recorded``
    rounds are read."""
    made = -1
    for round_ in rounds:
        if recorded:
            _ = round_.verification.entropy
        if made < 0:
            counts.clear()
        made += 1
    return {key: count / made for key, count in counts.calls.items()} if made > 0 else {}


class DeviceTensor(Tensor):
    """A tensor on the pretended device; ``memory`` is the CPU's tensor that holds it."""

    memory: Tensor

    @staticmethod
    def __new__(cls, memory: Tensor) -> "DeviceTensor":
        with torch.inference_mode(False):
            tensor: DeviceTensor = Tensor._make_wrapper_subclass(
                cls, memory.size(), strides=memory.stride(), storage_offset=memory.storage_offset(),
                dtype=memory.dtype, device=torch.device("meta"), requires_grad=False)
        tensor.memory = memory
        return tensor

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    @property
    def data(self) -> Tensor:
        return Tensor.data.__get__(self)  # type: ignore[attr-defined,no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.memory = memory_of(value)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"DeviceTensor({self.memory})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError(f"{func} on a pretended device outside of pretended_gpu()")


def is_on_gpu(value: object) -> bool:
    """Whether something is a tensor of the pretended device."""
    return isinstance(value, DeviceTensor)


def is_cuda(place: Tensor | torch.device | str | None) -> bool:
    """Whether a device, or a tensor's, is the pretended one."""
    if isinstance(place, Tensor):
        return is_on_gpu(place)
    return place is not None and torch.device(place).type == "cuda"


def memory_of(value: Any) -> Any:
    """The CPU's tensor behind a device's, the CPU itself for the device; anything else as it is."""
    if isinstance(value, DeviceTensor):
        return value.memory
    return CPU if isinstance(value, torch.device) else value


class Dispatch(TorchDispatchMode):
    """Compute each operation on the CPU, and count what a GPU would do."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name
        if name in ("aten::to", "aten::_to_copy"):  # the first in inference mode
            return self._copied(func, args, kwargs)
        if name == "aten::copy_":
            return self._filled(func, args, kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(map(is_on_gpu, tensors)) and not is_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        self._must_share_a_device(name, args, tensors)
        return self._computed(func, name, args, kwargs, tensors)

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        source: Tensor = args[0]
        wanted = [value for value in (*args[1:], kwargs.get("device")) if isinstance(value, (torch.device, Tensor))]
        there = is_cuda(wanted[0]) if wanted else is_on_gpu(source)
        held = memory_of(source)
        result = func(held, *tree_map(memory_of, args[1:]), **tree_map(memory_of, kwargs))
        if is_on_gpu(source) != there:
            self.counts.add(TO_DEVICE if there else TO_HOST)
        elif result is held:
            return source
        elif there:
            self.counts.add(KERNEL)
        return DeviceTensor(result) if there else result

    def _filled(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        target, source = args[:2]
        if is_on_gpu(target) or is_on_gpu(source):
            same = is_on_gpu(target) == is_on_gpu(source)
            self.counts.add(KERNEL if same else TO_DEVICE if is_on_gpu(target) else TO_HOST)
        func(*tree_map(memory_of, args), **kwargs)
        return target  # type: ignore[no-any-return]

    def _must_share_a_device(self, name: str, args: Any, tensors: Sequence[Tensor]) -> None:
        """A GPU takes the host's numbers (tensors without dimensions) and, for indexing, the host's indices."""
        on_host = [tensor for tensor in tensors if not is_on_gpu(tensor) and tensor.dim()]
        if not on_host or not any(map(is_on_gpu, tensors)):
            return
        if name in ("aten::index", "aten::index_put", "aten::index_put_") and is_on_gpu(args[0]):
            self.counts.add(TO_DEVICE)
            return
        raise RuntimeError(f"Expected all tensors to be on the same device: {name} at {running_line()}")

    def _computed(self, func: Any, name: str, args: Any, kwargs: Any, tensors: Sequence[Tensor]) -> Any:
        if name in SYNCHRONISING:
            self.counts.add(SYNCHRONISATION)
        given = tree_map(memory_of, args)
        if name == "aten::histc":  # has no kernel for integers on a CPU
            given = (given[0].float(), *given[1:])
        result = func(*given, **tree_map(memory_of, kwargs))
        memories = {id(tensor.memory): tensor for tensor in tensors if isinstance(tensor, DeviceTensor)}
        storages = {tensor.memory.untyped_storage().data_ptr() for tensor in memories.values()}
        written = any(value.alias_info is not None and value.alias_info.is_write for value in func._schema.arguments)
        fresh = any(leaf.untyped_storage().data_ptr() not in storages
                    for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        if (written or fresh) and not name.startswith(ALLOCATING):  # else it is a view
            self.counts.add(KERNEL)
        return tree_map(lambda value: memories[id(value)] if id(value) in memories
                        else DeviceTensor(value) if isinstance(value, Tensor) else value, result)


class Functions(TorchFunctionMode):
    """What torch decides in C++ before an operation is dispatched."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.numpy and is_on_gpu(args[0]):
            raise TypeError(f"can't convert cuda:0 device type tensor to numpy at {running_line()}")
        if func is Tensor.tolist and is_on_gpu(args[0]):
            return args[0].cpu().tolist()
        if func is Tensor.to:  # without an index, torch would ask the missing driver for the current device
            args = tuple(CUDA if isinstance(value, str) and value == "cuda" else value for value in args)
        if func in (torch.tensor, torch.as_tensor, torch.scalar_tensor):
            return self._made(func, args, kwargs)
        if func is scaled_dot_product_attention and is_on_gpu(args[0]):
            return self._attended(args, kwargs)
        if func is Tensor.__setitem__ and is_on_gpu(args[0]) and isinstance(args[2], (int, float, bool)):
            return self._set(*args)
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        if not is_cuda(kwargs.get("device")) or is_on_gpu(args[0]):
            return func(*args, **kwargs)  # type: ignore[no-any-return]
        self.counts.add(TO_DEVICE)
        return DeviceTensor(func(*args, **kwargs | {"device": "cpu"}))

    def _attended(self, args: Any, kwargs: Any) -> Tensor:
        """One fused kernel, whose result lies row by row, all heads of a row together, as a GPU's do."""
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not all(map(is_on_gpu, given)):
            raise RuntimeError(f"Expected all tensors to be on the same device: attention at {running_line()}")
        self.counts.add(KERNEL)
        with torch._C.DisableTorchFunction():
            mixed = scaled_dot_product_attention(*tree_map(memory_of, args), **tree_map(memory_of, kwargs))
            return DeviceTensor(mixed.transpose(1, 2).contiguous().transpose(1, 2))

    def _set(self, target: Tensor, index: Any, value: float) -> None:
        indices = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, Tensor) for part in indices):
            target.index_put_(indices, DeviceTensor(torch.tensor(value, dtype=target.dtype)))
        else:
            target[index].fill_(value)


def moved(to: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """``nn.Module.to`` that puts parameters and buffers on the pretended device; those that are shared stay shared."""
    def move(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != "cuda":
            return to(module, *args, **kwargs)
        there: dict[int, Any] = {}
        for part in module.modules():
            for held in (part._parameters, part._buffers):
                for name, value in held.items():
                    if value is None or is_on_gpu(value):
                        continue
                    data = value.data.to(dtype) if dtype is not None and value.is_floating_point() else value.data
                    fresh = DeviceTensor(data)
                    held[name] = there.setdefault(
                        id(value), nn.Parameter(fresh, requires_grad=False) if held is part._parameters else fresh)
        return module
    return move


ANSWERS: dict[str, Any] = {
    "_lazy_init": lambda: None,
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "empty_cache": lambda: None,
    "synchronize": lambda *_: None,
    "get_device_name": lambda *_: "Pretended GPU",
    "get_device_capability": lambda *_: (9, 0),
    "get_device_properties": lambda *_: SimpleNamespace(
        major=9, minor=0, name="Pretended GPU", total_memory=MEMORY_BYTES, multi_processor_count=132),
    "mem_get_info": lambda *_: (MEMORY_BYTES, MEMORY_BYTES),
    "memory_reserved": lambda *_: 0,
    "memory_allocated": lambda *_: 0,
    "get_rng_state": lambda *_: torch.empty(0),
    "set_rng_state": lambda *_: None,
}


@contextmanager
def patched() -> Iterator[None]:
    """``torch.cuda`` that answers for the pretended device, and modules that move to it."""
    with mock.patch.multiple(torch.cuda, **ANSWERS), mock.patch.object(nn.Module, "to", moved(nn.Module.to)):
        yield


@contextmanager
def pretended_gpu() -> Generator[Counts, None, None]:
    """A pretended GPU for this thread, with the counts of what it does."""
    counts = Counts()
    with patched(), Dispatch(counts), Functions(counts):
        yield counts
