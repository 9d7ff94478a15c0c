"""No step of a round reads a number from the device, the meta device has none to give, or sends it one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine.records import Request, Sampling
from engine.runtime.graphs.machine import setting_of
from engine.runtime.graphs.passes import GraphDrafter, GraphTarget
from engine.runtime.graphs.report import Report
from engine.runtime.graphs.round import GraphRound
from tests.engine.runtime.small import small_drafter, small_target

ROWS = 19


class Transfers(TorchDispatchMode):
    """Notes copies to another device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.seen: list[str] = []

    def __torch_dispatch__(self, call: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        if call.overloadpacket.__name__ in ("to", "_to_copy") and "device" in (named or {}):
            self.seen.append(str(call))
        return call(*given, **(named or {}))


def test_transfers_are_noticed() -> None:
    with Transfers() as transfers:
        torch.zeros(2).to("meta")
    assert len(transfers.seen) == 1


def refused(*_: object, **__: object) -> None:
    """In the place of functions that make tensors of the host's numbers."""
    raise AssertionError("a round made a tensor of the host's numbers")


def test_the_meta_device_gives_no_number() -> None:
    """What the test below rests on; plain indexing by a place on the device is the trap."""
    values = torch.arange(3, device="meta")
    with pytest.raises(RuntimeError):
        values[values[0]]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 12, 0.95, 3)], ids=["greedy", "warm"])
@torch.inference_mode()
def test_a_round_never_waits_for_the_host(sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        target = small_target()
        drafters = [GraphDrafter(small_drafter(target, seed), None, 256, ROWS) for seed in (1, 2)]
        cache = GraphTarget(target.fastest, target.config, 256, ROWS)  # type: ignore[arg-type]
    for method in ("autoregressive", "dflash", "ddtree", "routed", "merged", "joint"):
        setting = setting_of(Request((1, 2), method, 9, 40, sampling, frozenset({4, 5})), 256)
        work = GraphRound(setting, cache, drafters[:setting.method.drafter_count])
        with monkeypatch.context() as patched, Transfers() as transfers:
            for name in ("tensor", "as_tensor", "from_numpy"):
                patched.setattr(torch, name, refused)
            work.run(64)
            buffer = Report().buffer(work.board)
        assert transfers.seen == []
        assert buffer.device.type == "meta" and buffer.dtype == torch.int32
