"""Judges the doctor's measurements: one finding per check, with the figure that it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FINE, SUSPICIOUS, WRONG = "fine", "suspicious", "wrong"
STATUSES = FINE, SUSPICIOUS, WRONG
WRONG_GAIN, SUSPICIOUS_GAIN = 1.25, 1.08  # accepted drafted tokens of the best variant, relative to the configured one
MIN_GAIN = 0.1  # tokens: a smaller gain is noise
MIN_POSITIONS = 20  # a share over fewer positions is not judged
GOOD_FIRST_ACCEPTANCE = 0.4  # of first drafted tokens; a drafter that suits the text reaches it
DIP_RATIO = 0.6  # a depth stands out if its acceptance is below 0.6 times that of both neighbours
MAX_CALIBRATION_ERROR = 0.15  # difference between the predicted and the accepted share


@dataclass(frozen=True)
class DoctorFinding:
    """One check of one drafter, or of the target if ``drafter`` is empty. ``seen``: what was measured; ``advice``: what
    to do about it, empty if the status is fine."""

    name: str
    drafter: str
    status: str
    seen: str
    advice: str = ""


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Acceptance of greedy chains by depth, all (depth,): ``reached``: chains accepted up to this depth; ``hits``:
    those also accepted at it; ``confidence``: the drafter's mean probability there."""

    reached: NDArray[np.int64]
    hits: NDArray[np.int64]
    confidence: NDArray[np.float64]

    @property
    def accepted(self) -> float:
        """The mean number of accepted drafted tokens per round, root excluded."""
        return float(self.hits.sum() / max(1, self.reached[0]))

    @property
    def shares(self) -> NDArray[np.float64]:
        return self.hits / np.maximum(self.reached, 1)


def score(proposed: NDArray[np.int32], text: NDArray[np.int32], confidence: NDArray[np.float32]) -> ChainScores:
    """Score chains against the text. All arguments are (anchors, depth); ``text`` is −1 after the end."""
    inside = text >= 0
    right = (proposed == text) & inside
    through = np.cumprod(np.concatenate([np.ones((len(right), 1), np.bool_), right], 1), 1).astype(np.bool_)
    reached = through[:, :-1] & inside
    total = reached.sum(0)
    return ChainScores(total, (reached & right).sum(0), (confidence * reached).sum(0) / np.maximum(total, 1))


def variant_finding(check: tuple[str, str], configured: ChainScores, others: Mapping[str, ChainScores],
                    advice: str) -> DoctorFinding:
    """Compare the configured drafter with its variants. ``check`` is (name, drafter); ``advice`` may contain {best}."""
    if not others:
        return DoctorFinding(*check, FINE, f"There is no variant to try; {configured.accepted:.2f} drafted tokens "
                             "accepted a round.")
    best = max(others, key=lambda name: others[name].accepted)
    accepted = others[best].accepted
    gain = accepted / max(configured.accepted, 1e-9)
    seen = (f"{configured.accepted:.2f} drafted tokens accepted a round as configured, {accepted:.2f} with the best "
            f"variant ({best}; {len(others)} tried).")
    if gain < SUSPICIOUS_GAIN or accepted - configured.accepted < MIN_GAIN:
        return DoctorFinding(*check, FINE, seen)
    return DoctorFinding(*check, WRONG if gain >= WRONG_GAIN else SUSPICIOUS, seen, advice.format(best=best))


def confidence_finding(drafter: str, proposals: ChainScores) -> DoctorFinding:
    """Compare the probability that the drafter gives its chain with the share that is accepted."""
    enough_data = proposals.reached >= MIN_POSITIONS
    if not enough_data.any():
        return _too_few("confidence", drafter, proposals)
    weights = proposals.reached[enough_data] / proposals.reached[enough_data].sum()
    predicted = float((proposals.confidence[enough_data] * weights).sum())
    accepted = float((proposals.shares[enough_data] * weights).sum())
    seen = f"Its mean probability of a chain's token is {predicted:.2f}; {accepted:.2f} of the tokens are accepted."
    if abs(predicted - accepted) <= MAX_CALIBRATION_ERROR:
        return DoctorFinding("confidence", drafter, FINE, seen)
    excess = "high" if predicted > accepted else "low"
    return DoctorFinding("confidence", drafter, SUSPICIOUS, seen, f"Its confidence is too {excess}: the text or its "
                         "inputs are unlike its training data; see the other checks.")


def positions_finding(drafter: str, proposals: ChainScores) -> DoctorFinding:
    """Check acceptance by depth: low at depth 1 means the wrong drafter, a dip means one wrong slot."""
    enough_data, shares = proposals.reached >= MIN_POSITIONS, proposals.shares
    if not enough_data[0]:
        return _too_few("positions", drafter, proposals)
    advice = ""
    dips = [depth + 1 for depth in range(1, len(shares) - 1) if enough_data[depth + 1]
            and shares[depth] < DIP_RATIO * min(shares[depth - 1], shares[depth + 1])]
    if shares[0] < GOOD_FIRST_ACCEPTANCE:
        advice = (f"Even the first drafted token is accepted at less than {GOOD_FIRST_ACCEPTANCE:.0%} of the "
                  "positions: check what the drafter was trained for, and the other checks.")
    elif dips:
        advice = (f"Depth {dips[0]} is accepted far less than its neighbours: check how that slot of the block is "
                  "filled and read.")
    seen = "Accepted of those reached, by depth: " + " ".join(f"{share:.2f}" for share in shares[enough_data]) + "."
    return DoctorFinding("positions", drafter, SUSPICIOUS if advice else FINE, seen, advice)


def _too_few(name: str, drafter: str, proposals: ChainScores) -> DoctorFinding:
    return DoctorFinding(name, drafter, SUSPICIOUS, f"There are only {proposals.reached[0]} positions to judge by.",
                         "Use longer prompts, or more of them.")


def worst_first(findings: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Sort the findings: wrong, suspicious, fine."""
    return sorted(findings, key=lambda finding: -STATUSES.index(finding.status))
