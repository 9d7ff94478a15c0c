"""A pretended CUDA device: its tensors say that they are on ``cuda:0`` and compute on the CPU.

They refuse what a GPU refuses: tensors of two devices in one call, and numpy of a device's tensor. Kernels, copies and
synchronisations are counted, by the round's stage and by the engine's line. This finds
device bugs on any machine, and lets tests count the GPU calls of a round.
"""

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
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

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
MEMORY_BYTES = 2**36
# Operations whose result has a size or value that the host waits for.
SYNCHRONISING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal", "aten::masked_select"}
ALLOCATING = ("aten::empty", "aten::new_empty")
INDEXING = ("aten::index", "aten::index_put", "aten::index_put_")  # which take the host's indices

KERNEL, TO_DEVICE, TO_HOST, SYNCHRONISATION = KINDS = ("kernel", "to_device", "to_host", "synchronisation")
RECORD = "record"  # the stage of what is read of a round after its end
# What the protocols' functions do in a round, by their names.
STAGES = {"prefill": "prefill", "draft": "draft", "draft_batch": "draft", "observe": "draft", "verify_batch": "verify",
          "accept": "accept", "commit": "keep"}


@dataclass
class Counts:
    """What a GPU would have done: ``calls`` of each stage and kind, and, but for kernels, the engine's ``lines`` that
    made them."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, kind: str) -> None:
        stage, line = running()
        self.calls[stage, kind] += 1
        if kind != KERNEL:
            self.lines[kind, line] += 1

    def total(self, kind: str) -> int:
        return sum(count for (_, one), count in self.calls.items() if one == kind)

    def clear(self) -> None:
        self.calls.clear()
        self.lines.clear()


def running() -> tuple[str, str]:
    """Return the stage of the round that is running, and the engine's innermost line, as ``models/passes.py:94``."""
    frame, line = sys._getframe(), ""
    while frame := frame.f_back:  # type: ignore[assignment]
        _, engine, name = frame.f_code.co_filename.rpartition("/engine/")
        if not engine or frame.f_code.co_filename == __file__:
            continue
        if not line and "/tests/" not in frame.f_code.co_filename:
            line = f"{name}:{frame.f_lineno}"
        if frame.f_code.co_name in STAGES:
            return STAGES[frame.f_code.co_name], line
    return RECORD, line


def calls_per_round(counts: Counts, rounds: Iterable[Any], recorded: bool = False) -> dict[tuple[str, str], float]:
    """Return the calls of each stage and kind, averaged over the ``rounds`` after the first. Statistics of ``recorded``
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
    is_cpu = is_meta = property(lambda self: False)

    @property
    def data(self) -> Tensor:
        return Tensor.data.__get__(self)  # type: ignore[attr-defined,no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.memory = memory_of(value)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError(f"{func} on a pretended device outside of pretended_gpu()")


def on_gpu(value: object) -> bool:
    """Return whether something is a tensor of the pretended device, or the device."""
    if isinstance(value, (str, torch.device)):
        return torch.device(value).type == "cuda"
    return isinstance(value, DeviceTensor)


def memory_of(value: Any) -> Any:
    """Return the CPU's tensor behind a device's, the CPU for the device; anything else as it is."""
    if isinstance(value, DeviceTensor):
        return value.memory
    return CPU if isinstance(value, torch.device) else value


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Apply ``change`` to a value, or to each in tuples, lists and dicts, in a tenth of torch's tree_map's time."""
    if isinstance(value, (tuple, list)):
        return type(value)([mapped(change, inner) for inner in value])
    if isinstance(value, dict):
        return {name: mapped(change, inner) for name, inner in value.items()}
    return change(value)


def tensors_in(*values: Any) -> list[Tensor]:
    """Return the tensors among values, and in tuples, lists and dicts among them."""
    found: list[Tensor] = []
    mapped(lambda value: found.append(value) if isinstance(value, Tensor) else None, values)
    return found


class Dispatch(TorchDispatchMode):
    """Compute each operation on the CPU, and count what a GPU would do."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name
        if name in ("aten::to", "aten::_to_copy"):  # the first in inference mode
            destinations = [value for value in (*args[1:], kwargs.get("device"))
                            if isinstance(value, (torch.device, Tensor))]
            return self._copied(func, args, kwargs, there=on_gpu(destinations[0] if destinations else args[0]))
        tensors = tensors_in(args, kwargs)
        if not any(map(on_gpu, tensors)) and not on_gpu(kwargs.get("device")):
            return func(*args, **kwargs)
        if name == "aten::copy_":
            target, source = map(on_gpu, args[:2])
            self.counts.add(KERNEL if target == source else TO_DEVICE if target else TO_HOST)
            func(*mapped(memory_of, args), **kwargs)
            return args[0]
        # a GPU takes the host's numbers, which are tensors without dimensions
        if any(map(on_gpu, tensors)) and any(tensor.dim() and not on_gpu(tensor) for tensor in tensors):
            if name not in INDEXING or not on_gpu(args[0]):
                raise RuntimeError(f"Expected all tensors to be on the same device: {name} at {running()[1]}")
            self.counts.add(TO_DEVICE)
        return self._computed(func, name, args, kwargs, tensors)

    def _copied(self, func: Any, args: Any, kwargs: Any, there: bool) -> Tensor:
        source: Tensor = args[0]
        held = memory_of(source)
        result = func(held, *mapped(memory_of, args[1:]), **mapped(memory_of, kwargs))
        if on_gpu(source) != there:
            self.counts.add(TO_DEVICE if there else TO_HOST)
        elif result is held:
            return source
        elif there:
            self.counts.add(KERNEL)
        return DeviceTensor(result) if there else result

    def _computed(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        if name in SYNCHRONISING:
            self.counts.add(SYNCHRONISATION)
        inputs = mapped(memory_of, args)
        if name == "aten::histc":  # has no kernel for integers on a CPU
            inputs = (inputs[0].float(), *inputs[1:])
        result = func(*inputs, **mapped(memory_of, kwargs))
        on_device = {id(tensor.memory): tensor for tensor in tensors if isinstance(tensor, DeviceTensor)}
        storages = {tensor.memory.untyped_storage().data_ptr() for tensor in on_device.values()}
        allocates = any(tensor.untyped_storage().data_ptr() not in storages for tensor in tensors_in(result))
        written = any(value.alias_info is not None and value.alias_info.is_write for value in func._schema.arguments)
        if (written or allocates) and not name.startswith(ALLOCATING):  # else it is a view
            self.counts.add(KERNEL)
        return mapped(lambda value: on_device[id(value)] if id(value) in on_device
                        else DeviceTensor(value) if isinstance(value, Tensor) else value, result)


class Functions(TorchFunctionMode):
    """Counts what torch decides in C++ before an operation is dispatched."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.to:  # without an index, torch would ask the missing driver for the current device
            args = tuple(CUDA if isinstance(value, str) and value == "cuda" else value for value in args)
        elif func in (torch.tensor, torch.as_tensor, torch.scalar_tensor):
            if on_gpu(kwargs.get("device")) and not on_gpu(args[0]):
                self.counts.add(TO_DEVICE)
                return DeviceTensor(func(*args, **kwargs | {"device": "cpu"}))
        elif not args or not isinstance(args[0], DeviceTensor):
            return func(*args, **kwargs)
        elif func is Tensor.numpy:
            raise TypeError(f"can't convert cuda:0 device type tensor to numpy at {running()[1]}")
        elif func is Tensor.tolist:
            return args[0].cpu().tolist()
        elif func is scaled_dot_product_attention:
            return self._attended(args, kwargs)
        elif func is Tensor.__setitem__ and isinstance(args[2], (int, float, bool)):
            target, index, value = args
            indices = index if isinstance(index, tuple) else (index,)
            if not any(isinstance(part, Tensor) for part in indices):
                return target[index].fill_(value)
            return target.index_put_(indices, DeviceTensor(torch.tensor(value, dtype=target.dtype)))
        return func(*args, **kwargs)

    def _attended(self, args: Any, kwargs: Any) -> Tensor:
        """Run one fused kernel, whose result lies row by row, all heads of a row together, as a GPU's does."""
        if not all(map(on_gpu, tensors_in(args, kwargs))):
            raise RuntimeError(f"Expected all tensors to be on the same device: attention at {running()[1]}")
        self.counts.add(KERNEL)
        with torch._C.DisableTorchFunction():
            mixed = scaled_dot_product_attention(*mapped(memory_of, args), **mapped(memory_of, kwargs))
            return DeviceTensor(mixed.transpose(1, 2).contiguous().transpose(1, 2))


def moved(to: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Return ``nn.Module.to`` that moves parameters and buffers to the pretended device; shared ones stay shared."""
    def move(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != "cuda":
            return to(module, *args, **kwargs)
        there: dict[int, Any] = {}
        for part in module.modules():
            for held in (part._parameters, part._buffers):
                for name, value in held.items():
                    if value is None or on_gpu(value):
                        continue
                    data = value.data.to(dtype) if dtype is not None and value.is_floating_point() else value.data
                    fresh = DeviceTensor(data)
                    held[name] = there.setdefault(
                        id(value), nn.Parameter(fresh, requires_grad=False) if held is part._parameters else fresh)
        return module
    return move


ANSWERS: dict[str, Any] = {  # of ``torch.cuda``
    "_lazy_init": lambda: None, "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
    "empty_cache": lambda: None, "synchronize": lambda *_: None, "get_device_name": lambda *_: "Pretended GPU",
    "get_device_capability": lambda *_: (9, 0), "mem_get_info": lambda *_: (MEMORY_BYTES, MEMORY_BYTES),
    "get_device_properties": lambda *_: SimpleNamespace(
        major=9, minor=0, name="Pretended GPU", total_memory=MEMORY_BYTES, multi_processor_count=132),
    "memory_reserved": lambda *_: 0, "memory_allocated": lambda *_: 0, "get_rng_state": lambda *_: torch.empty(0),
    "set_rng_state": lambda *_: None,
}


@contextmanager
def pretended_gpu() -> Generator[Counts, None, None]:
    """Pretend a GPU for this thread, and yield the counts of what it does."""
    counts = Counts()
    with (mock.patch.multiple(torch.cuda, **ANSWERS), mock.patch.object(nn.Module, "to", moved(nn.Module.to)),
          Dispatch(counts), Functions(counts)):
        yield counts
