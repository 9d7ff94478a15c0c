"""One uniform number per absolute position, from the seed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def position_draws(seed: int, count: int) -> NDArray[np.float64]:
    """Uniform draws in [0, 1) of positions 0 … count − 1, (count,) float64; those of fewer positions are a prefix."""
    return np.random.Generator(np.random.Philox(seed)).random(count)


def trial_draws(seed: int) -> np.random.Generator:
    """The generator of an acceptance rule's own trials: from the seed too, but independent of the position draws."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(1,))))
