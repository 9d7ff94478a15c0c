"""The records of a what-if: τ of every method and budget on one known text, and the predicted speed.

The text does not depend on the tree (if sampled, because the draw belongs to the position). So drafting at every
position and walking along the known text gives the acceptance lengths of every setting exactly. Speed is predicted from
the measured cost curve, and is labelled as predicted (design, contract 6).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.budget.cost import CostCurve
from engine.decoding.outcome import mean_length
from engine.records import Sampling


@dataclass(frozen=True)
class Forecast:
    """One setting on the known text.

    ``budget`` counts drafted nodes as in ``Request``; it is the largest allowed where ``pace`` is ``auto``. Per round:
    ``lengths``, tokens kept, the root included; ``rows``, what the target verifies, the root included. ``build_ms``
    is the measured median of building and combining one round's trees. ``predicted_ms`` is the whole text's time
    without the prefill from the cost curve; 0 where no curve was given.
    """

    method: str
    split: str
    budget: int
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    build_ms: float = 0.0
    predicted_ms: float = 0.0
    pace: str = "fixed"

    @property
    def tokens(self) -> int:
        """The text's length: Σ lengths."""
        return sum(self.lengths)

    @property
    def tau(self) -> float:
        """See ``mean_length``."""
        return mean_length(self.tokens, len(self.lengths))

    @property
    def predicted_tokens_per_second(self) -> float:
        """Predicted, never measured; 0 where no cost curve was given."""
        return 1e3 * self.tokens / self.predicted_ms if self.predicted_ms else 0.0


@dataclass(frozen=True)
class Gain:
    """What the n-th best drafted node of a method is worth, averaged over the rounds of its largest budget.

    Index n − 1 is the n-th node in descending cumulative probability. ``expected``: its mean cumulative probability
    under the drafter, in tokens. ``realised``: the share of rounds in which it was kept. Plotted against the curve's
    milliseconds per extra row, their crossing explains the best budget.
    """

    method: str
    split: str
    expected: tuple[float, ...]
    realised: tuple[float, ...]


@dataclass(frozen=True)
class WhatIf:
    """Every setting's forecast for one text, in the order of methods and then of budgets.

    ``departures`` counts the positions where one pass over the whole text chooses another token than the text has: 0 in
    float32; in bfloat16, rounding may cause some. ``seconds`` is the time that the what-if took, without measuring the
    cost curve.
    """

    prompt: str
    rig: str
    hardware: str
    dtype: str
    sampling: Sampling
    prompt_tokens: int
    tokens: int
    departures: int
    forecasts: tuple[Forecast, ...]
    gains: tuple[Gain, ...]
    cost: CostCurve | None
    seconds: float

    def of(self, method: str, split: str = "total") -> tuple[Forecast, ...]:
        """One method's forecasts by budget: a line of the plot."""
        return tuple(each for each in self.forecasts if (each.method, each.split) == (method, split))

    @property
    def withheld(self) -> str:
        """Why no speed is predicted from its cost curve, in a sentence; empty where it is, and without a curve."""
        return self.cost.disorder if self.cost else ""

    @property
    def best(self) -> Forecast | None:
        """The setting with the highest predicted tokens/s; None without a cost curve that a best can be read from."""
        if self.withheld:
            return None
        priced = [each for each in self.forecasts if each.predicted_ms]
        return max(priced, key=lambda each: each.predicted_tokens_per_second, default=None)
