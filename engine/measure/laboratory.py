"""The live rig as the laboratory that sweeps and races measure with."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import torch
import transformers

from engine.budget.auto import SharedRows
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO
from engine.decoding.together import BatchRequest
from engine.lab.company import read_among
from engine.lab.reading import read
from engine.lab.settings import Company, Conditions, Reading
from engine.records import Ask
from engine.serving.chat import pieces
from engine.serving.live import LiveRig
from engine.serving.rigs import open_rig
from engine.trace import Piece


class LiveLaboratory:
    """See ``lab.settings.Laboratory``. It takes turns with all other users of ``live``, one run at a time."""

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
        """RequestError where the rig cannot run this request; nothing is run."""
        self.live.run(ask)

    def measure(self, ask: Ask) -> Reading:
        """See ``lab.settings.Laboratory``."""
        with self.live.rounds(ask) as rounds:
            return read(rounds)

    def measure_among(self, ask: Ask, company: Company) -> Reading:
        """See ``lab.company.JointLaboratory``. Requests at ``auto`` share one total of rows, whose costs are measured
        first."""
        with self.live.held(f"with {company.at_once} requests at once"), torch.inference_mode():
            asked = [self._batched(each) for each in (ask, *company.others)]
            return read_among(self.rig.target, asked, company.at_once, SharedRows())

    def _batched(self, ask: Ask) -> BatchRequest:
        request, drafters = self.live.request(ask), list(self.rig.drafters_for(ask.method, ask.drafters).values())
        adaptive = ask.pace == AUTO and bool(drafters)
        return BatchRequest(request, drafters, self.live.auto_budget(request, drafters) if adaptive else None)

    def _middle(self, ask: Ask) -> int:
        return len(self.live.request(ask).prompt_ids) + ask.max_tokens // 2

    def load_cost(self, ask: Ask, requests: int) -> CostCurve:
        """The cost of rounds of so many requests like this one, in the middle of its text; a new one takes seconds to
        measure."""
        return self.live.load_curve(self._middle(ask), ask.sampling, requests)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        """See ``lab.settings.Laboratory``."""
        return pieces(self.rig.tokenizer, token_ids)


def laboratory(name: str, dtype: str = "bfloat16", device: str = "") -> LiveLaboratory:
    """A laboratory on a newly opened rig; RigError says what is missing or does not fit."""
    return LiveLaboratory(LiveRig(open_rig(name, dtype, device)))
