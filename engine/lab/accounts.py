"""Accounts of what drafting costs and saves, in rounds of plain decoding: within a run, and across runs.

A draft where none pays is a loss. A long text soon makes up for it; many short answers, each of which tries anew, would
not. So one ledger keeps the losses and savings of all runs, and a run begins with no more credit than the ledger has
left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

CREDIT_ROUNDS, CREDIT_SHARE = 0.75, 0.015  # rounds that drafting may lose: at a run's start, and per round of its text
MOST_SAVED_ROUNDS = 8.0  # of a run's savings, how many plain rounds it may lose again
FIRST_LEDGER_ROUNDS, MOST_LEDGER_ROUNDS = 3.0, 24.0  # a ledger's credit before the first run, and the most it may hold


class DraftingLedger:
    """How many plain rounds drafting may still lose, over all runs of the same drafters on the same target."""

    def __init__(self) -> None:
        self.rounds = FIRST_LEDGER_ROUNDS

    def book(self, rounds: float) -> None:
        """Add plain rounds that drafting saved; a negative number is a loss."""
        self.rounds = min(self.rounds + rounds, MOST_LEDGER_ROUNDS)


class DraftingLedgers:
    """A rig's ledgers, one for each method with its drafters."""

    def __init__(self) -> None:
        self._ledgers: dict[tuple[object, ...], DraftingLedger] = defaultdict(DraftingLedger)

    def of(self, method: str, drafters: Sequence[object]) -> DraftingLedger:
        """The ledger of a method and these very drafters, told apart by identity."""
        return self._ledgers[method, *map(id, drafters)]


class DraftingAccounts:
    """One run's account, which books everything in the ledger too."""

    def __init__(self, plain_ms: float, ledger: DraftingLedger) -> None:
        self._plain_ms, self._ledger = plain_ms, ledger
        self._credit = min(CREDIT_ROUNDS, ledger.rounds)

    def draft(self, spent_ms: float, tokens: int) -> None:
        """Book a round that drafted: its time, and the tokens that it kept."""
        self._book(tokens - spent_ms / self._plain_ms)

    def grow(self, tokens: int) -> None:
        """Count tokens that the text has grown by."""
        self._book(CREDIT_SHARE * tokens)

    def correct(self, rounds: float) -> None:
        """The last round took this many plain rounds less than expected."""
        self._book(rounds)

    @property
    def solvent(self) -> bool:
        """Whether drafting has lost no more than it may."""
        return self._credit >= 0

    def _book(self, rounds: float) -> None:
        self._credit = min(self._credit + rounds, MOST_SAVED_ROUNDS)
        self._ledger.book(rounds)
