"""Opens a rig in another's place while the page runs: the new one is loaded first, then the old one is freed."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import torch

from engine.checkpoints.opening import Opening, Tell
from engine.measure.instruments import LiveInstruments
from engine.requests.rig_names import AUTO_DTYPE
from engine.serving.live import LiveRig
from engine.serving.rigs import Rig, open_rig


@dataclass(frozen=True)
class OpenLiveRig:
    """An open rig: as the source of answers, and as the instruments that measure."""

    source: LiveRig
    instruments: LiveInstruments


class LiveRigOpener:
    """See ``explorer.sources.answering.RigOpener``; rigs are opened in ``dtype``."""

    def __init__(self, dtype: str = AUTO_DTYPE) -> None:
        self.dtype = dtype

    def open(self, name: str, beside: object, tell: Tell) -> OpenLiveRig:
        """Load a rig while another one may answer; RigError says why it cannot be, and frees what was loaded of it."""
        self.collect()  # the caching allocator then returns what it keeps unused
        running = beside.checkpoints if isinstance(beside, LiveRig) else None
        opening = Opening(tell, running.name, held_bytes(running)) if running else Opening(tell)
        live = LiveRig(open_rig(name, self.dtype, opening=opening), shares=True)
        return OpenLiveRig(live, LiveInstruments(live, name))

    def collect(self) -> None:
        """Return the memory of objects without references to the device."""
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def held_bytes(rig: Rig) -> int:
    """The bytes that the weights of a rig take."""
    drafters = [getattr(drafter, "inside", drafter) for drafter in rig.drafters.values()]
    models = [rig.target.model, *(drafter.model for drafter in drafters if hasattr(drafter, "model"))]
    return sum(value.nbytes for model in models for value in model.parameters())
