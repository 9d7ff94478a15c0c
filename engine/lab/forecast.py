"""What a what-if says: τ of every method and budget on one known text, and the speed that it predicts.

The text does not depend on the tree (greedy, and for a sampled text because the draw belongs to the position), so
drafting at every position and walking the known continuation gives the acceptance lengths of every setting exactly.
Speed is predicted from the measured cost curve and is labelled so (design, contract 6).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.decoding.acceptance_length import mean_length
from engine.lab.cost import CostCurve
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
        """See ``acceptance_length``."""
        return mean_length(self.tokens, len(self.lengths))

    @property
    def predicted_tokens_per_second(self) -> float:
        """Predicted, never measured; 0 where no cost curve was given."""
        return 1e3 * self.tokens / self.predicted_ms if self.predicted_ms else 0.0


@dataclass(frozen=True)
class Gain:
    """What the n-th best drafted node of a method is worth, averaged over the rounds of its largest budget.

    Place n − 1 belongs to the n-th node in descending cumulative probability. ``expected``: its mean cumulative
    probability under the drafter, in tokens. ``realised``: the share of rounds in which it was kept. Drawn against
    the curve's milliseconds per extra row, the crossing explains the best budget.
    """

    method: str
    split: str
    expected: tuple[float, ...]
    realised: tuple[float, ...]


@dataclass(frozen=True)
class WhatIf:
    """Every setting's forecast for one text, in the order of methods and then of budgets.

    ``departures`` counts the places where the target's choice in the one pass over the whole text is another token
    than the text has: 0 in float32, rounding in bfloat16. ``seconds`` is how long the what-if itself took, the cost
    curve's measurement aside.
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
    def best(self) -> Forecast | None:
        """The setting with the highest predicted tokens/s; None without a cost curve."""
        priced = [each for each in self.forecasts if each.predicted_ms]
        return max(priced, key=lambda each: each.predicted_tokens_per_second, default=None)
