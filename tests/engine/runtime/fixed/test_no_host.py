"""No step of a round reads a number from the device: the meta device has none to give."""

from __future__ import annotations

import pytest
import torch

from engine.records import Request, Sampling
from engine.runtime.fixed.machine import setting_of
from engine.runtime.fixed.passes import FixedDrafter, FixedTarget
from engine.runtime.fixed.report import Report
from engine.runtime.fixed.round import FixedRound
from tests.engine.runtime.small import small_drafter, small_target

ROWS = 19


def test_the_meta_device_gives_no_number() -> None:
    """What the test below rests on; plain indexing by a place on the device is the trap."""
    values = torch.arange(3, device="meta")
    with pytest.raises(RuntimeError):
        values[values[0]]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 12, 0.95, 3)], ids=["greedy", "warm"])
@torch.inference_mode()
def test_a_round_never_waits_for_the_host(sampling: Sampling) -> None:
    with torch.device("meta"):
        target = small_target()
        heads = [FixedDrafter(small_drafter(target, seed), None, 256, ROWS) for seed in (1, 2)]
        cache = FixedTarget(target.fastest, target.config, 256, ROWS)  # type: ignore[arg-type]
    for method in ("autoregressive", "dflash", "ddtree", "routed", "merged", "joint"):
        setting = setting_of(Request((1, 2), method, 9, 40, sampling, frozenset({4, 5})), 256)
        work = FixedRound(setting, cache, heads[:setting.method.heads])
        work.run(64)
        buffer = Report().buffer(work.board)
        assert buffer.device.type == "meta" and buffer.dtype == torch.int32
