"""What the doctor says: one finding per check, each with the figure it rests on. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

FINE, SUSPICIOUS, WRONG = "fine", "suspicious", "wrong"
WEIGHT = MappingProxyType({FINE: 0, SUSPICIOUS: 1, WRONG: 2})


@dataclass(frozen=True)
class DoctorFinding:
    """One check of one head, or of the target where ``head`` is empty.

    ``name`` is the check's: taps, tap order, mask token, slot 0, rope, dtype, vocabulary, chat template, thinking
    mode, confidence, positions. ``status`` is ``fine``, ``suspicious`` or ``wrong``. ``seen`` is a sentence with the
    figure that was measured, ``advice`` what to do about it (empty where the status is fine).
    """

    name: str
    head: str
    status: str
    seen: str
    advice: str = ""


def worst_first(findings: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Wrong before suspicious before fine, otherwise in the order of the checks."""
    return sorted(findings, key=lambda each: -WEIGHT[each.status])
