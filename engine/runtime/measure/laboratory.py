"""The live rig as a laboratory: what sweeps and races measure with."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import torch
import transformers

from engine.lab.reading import read
from engine.lab.settings import Conditions, Reading
from engine.records import Ask
from engine.runtime.rigs.chat import pieces
from engine.runtime.rigs.live import LiveRig
from engine.runtime.rigs.rigs import open_rig
from engine.trace import Piece


class LiveLaboratory:
    """See ``lab.settings.Laboratory``. It shares the rig with whoever else runs ``live``, one run at a time."""

    def __init__(self, live: LiveRig) -> None:
        self.live, self.rig = live, live.checkpoints

    @property
    def conditions(self) -> Conditions:
        """See ``lab.settings.Laboratory``."""
        versions = {**self.rig.revisions, "python": platform.python_version(), "torch": torch.__version__,
                    "transformers": transformers.__version__}
        return Conditions(self.rig.name, self.live.hardware, self.rig.dtype, versions)

    @property
    def methods(self) -> Sequence[str]:
        """See ``lab.settings.Laboratory``."""
        return self.live.methods

    @property
    def drafters(self) -> Sequence[str]:
        """See ``lab.settings.Laboratory``."""
        return self.live.drafters

    def check(self, ask: Ask) -> None:
        """RequestError where the rig cannot run this; nothing is run."""
        self.live.run(ask)

    def measure(self, ask: Ask) -> Reading:
        """See ``lab.settings.Laboratory``."""
        with self.live.rounds(ask) as rounds:
            return read(rounds)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        """See ``lab.settings.Laboratory``."""
        return pieces(self.rig.tokenizer, token_ids)


def laboratory(name: str, dtype: str = "bfloat16", device: str = "") -> LiveLaboratory:
    """A rig of its own, by name; RigError says what is missing or does not fit."""
    return LiveLaboratory(LiveRig(open_rig(name, dtype, device)))
