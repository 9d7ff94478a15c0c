"""The protocols of target and drafter, the draws of a run, and whether a request can be served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.decoding.methods import Method, method_named
from engine.decoding.options import check_options
from engine.errors import RequestError
from engine.records import Floats, Integers, Lattice, PackedTree, Request, Sampling, Verification

Features = Any  # the target's tapped hidden states, on its device; the loop only hands them to the drafters


class Target(Protocol):
    """The model whose text it is."""

    @property
    def context_limit(self) -> int:
        """How many positions a text may have, prompt included."""

    def positions_for(self, prompt_tokens: int) -> int:
        """Return how many positions a text may have after a prompt of ``prompt_tokens`` tokens."""

    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Features]:
        """Read the prompt into an empty cache with room for ``rows`` more rows. Returns the target's choice after the
        prompt, and the features of every prompt position."""

    def verify_batch(self, forks: Sequence[Any], packed: Sequence[PackedTree]) -> list[Verification]:
        """Run one pass over the packed rows of each fork, after its cached ones. Its cache holds them until its
        ``commit``."""

    def commit(self, keep: Integers) -> Features:
        """Keep these rows (a,) int32 of the last pass, in this order; return their features."""

    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        """Draw a token from max(p − m, 0), renormalised, or from p if nothing is left.

        p is the processed distribution at this row of the last pass (see ``Verification.processed``; at temperature 0
        all mass is on its argmax). m is ``masses`` at ``tokens`` and 0 elsewhere. ``draw`` is uniform in [0, 1).
        """

    def release(self) -> None:
        """Free the cache."""

    def fork(self) -> Target:
        """Return a target with the same weights and its own, empty cache, for another text."""


class Drafter(Protocol):
    """Proposes tokens that may follow the root, after it has observed what was committed."""

    def begin(self, rows: int) -> None:
        """Forget everything; make room for a text of ``rows`` positions."""

    def observe(self, token_ids: Integers, features: Features) -> None:
        """Read committed tokens (n,) int32, in order, with the target's features at their positions."""

    def draft(self, root: int, width: int) -> Lattice:
        """Return what may follow ``root``, with the ``width`` most likely tokens of each row."""

    def release(self) -> None:
        """Free whatever ``begin`` and ``observe`` allocated."""

    def fork(self) -> Drafter:
        """Return a drafter with the same weights for another text."""


@runtime_checkable
class BatchDrafter(Protocol):
    """A drafter that drafts for several texts in one pass."""

    @property
    def weights(self) -> object:
        """An object that all its forks share and no other drafter has."""

    def draft_batch(self, forks: Sequence[Any], roots: Sequence[int], widths: Sequence[int]) -> list[Lattice]:
        """Return what ``draft`` of each fork would return."""


@runtime_checkable
class SelfDrafter(Protocol):
    """A drafter that drafts with the target's own weights and cache."""

    def use_target(self, target: Any) -> None:
        """Draft for the text of this fork of the target, which reads and commits it as for any drafter."""


def position_draws(seed: int, count: int) -> NDArray[np.float64]:
    """Return uniform draws in [0, 1) of positions 0 … count − 1, (count,) float64; fewer are a prefix of more."""
    return np.random.Generator(np.random.Philox(seed)).random(count)


def trial_draws(seed: int) -> np.random.Generator:
    """Return the generator of an acceptance rule's own trials, independent of the position draws."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(1,))))


def check(request: Request, target: Target, drafter_count: int) -> Method:
    """Return the request's method; RequestError if a name is unknown or a number does not fit target or drafters."""
    check_options(request)
    method = method_named(request.method)
    if drafter_count < method.drafter_count:
        raise RequestError(
            f"The method {request.method} needs {method.drafter_count} drafters; this rig has {drafter_count}.")
    if not request.prompt_ids:
        raise RequestError("The prompt is empty; write at least one character.")
    size = len(request.prompt_ids)
    if size >= (limit := target.positions_for(size)):
        raise RequestError(
            f"The prompt has {size} tokens; the target knows {limit} positions, so shorten it to at most {limit - 1}.")
    return method
