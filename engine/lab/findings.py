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
MAX_CALIBRATION_ERROR = 0.15  # difference between the promised and the accepted share


@dataclass(frozen=True)
class DoctorFinding:
    """One check of one drafter, or of the target if ``drafter`` is empty: what was ``seen``, with its figure, and what
    to do about it (empty if the status is fine)."""

    name: str
    drafter: str
    status: str
    seen: str
    advice: str = ""


@dataclass(frozen=True, eq=False)
class Marks:
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


def marks(proposed: NDArray[np.int32], text: NDArray[np.int32], confidence: NDArray[np.float32]) -> Marks:
    """Score chains against the text. All arguments are (anchors, depth); ``text`` is −1 after the end."""
    inside = text >= 0
    right = (proposed == text) & inside
    through = np.cumprod(np.concatenate([np.ones((len(right), 1), np.bool_), right], 1), 1).astype(np.bool_)
    reached = through[:, :-1] & inside
    total = reached.sum(0)
    return Marks(total, (reached & right).sum(0), (confidence * reached).sum(0) / np.maximum(total, 1))


def variant_finding(check: tuple[str, str], chosen: Marks, others: Mapping[str, Marks], advice: str) -> DoctorFinding:
    """Compare the configured drafter with its variants. ``check`` is (name, drafter); ``advice`` may contain {best}."""
    if not others:
        return DoctorFinding(*check, FINE, f"There is no other way to try; {chosen.accepted:.2f} tokens accepted a "
                             "round.")
    best = max(others, key=lambda name: others[name].accepted)
    accepted = others[best].accepted
    gain = accepted / max(chosen.accepted, 1e-9)
    seen = (f"{chosen.accepted:.2f} drafted tokens accepted a round as it is run, {accepted:.2f} at best otherwise "
            f"({best}; {len(others)} tried).")
    if gain < SUSPICIOUS_GAIN or accepted - chosen.accepted < MIN_GAIN:
        return DoctorFinding(*check, FINE, seen)
    return DoctorFinding(*check, WRONG if gain >= WRONG_GAIN else SUSPICIOUS, seen, advice.format(best=best))


def confidence_finding(drafter: str, proposals: Marks) -> DoctorFinding:
    """Compare the probability that the drafter gives its chain with the share that is accepted."""
    solid = proposals.reached >= MIN_POSITIONS
    if not solid.any():
        return _too_few("confidence", drafter, proposals)
    weights = proposals.reached[solid] / proposals.reached[solid].sum()
    promised, came = (float((values[solid] * weights).sum()) for values in (proposals.confidence, proposals.shares))
    seen = f"The mean probability that it gives a chain's token is {promised:.2f}; {came:.2f} of them are accepted."
    if abs(promised - came) <= MAX_CALIBRATION_ERROR:
        return DoctorFinding("confidence", drafter, FINE, seen)
    excess = "more" if promised > came else "less"
    return DoctorFinding("confidence", drafter, SUSPICIOUS, seen, f"It promises {excess} than it keeps: the text is "
                         "unlike its training data, or its inputs are; see the other checks.")


def positions_finding(drafter: str, proposals: Marks) -> DoctorFinding:
    """Check acceptance by depth: low at depth 1 means the wrong drafter, a dip means one wrong slot."""
    solid, shares = proposals.reached >= MIN_POSITIONS, proposals.shares
    if not solid[0]:
        return _too_few("positions", drafter, proposals)
    advice = ""
    dips = [depth + 1 for depth in range(1, len(shares) - 1) if solid[depth + 1]
            and shares[depth] < DIP_RATIO * min(shares[depth - 1], shares[depth + 1])]
    if shares[0] < GOOD_FIRST_ACCEPTANCE:
        advice = (f"Even the first drafted token is accepted in less than {GOOD_FIRST_ACCEPTANCE:.0%} of the places: "
                  "ask what the drafter was trained for, or look for a wrong check here.")
    elif dips:
        advice = (f"Depth {dips[0]} is accepted far less than its neighbours: check how that slot of the block is laid "
                  "and read.")
    seen = "Accepted of those reached, by depth: " + " ".join(f"{share:.2f}" for share in shares[solid]) + "."
    return DoctorFinding("positions", drafter, SUSPICIOUS if advice else FINE, seen, advice)


def _too_few(name: str, drafter: str, proposals: Marks) -> DoctorFinding:
    return DoctorFinding(name, drafter, SUSPICIOUS, f"Only {proposals.reached[0]} places to judge by.",
                         "Give longer prompts, or more of them.")


def worst_first(findings: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Sort the findings: wrong, suspicious, fine."""
    return sorted(findings, key=lambda finding: -STATUSES.index(finding.status))
