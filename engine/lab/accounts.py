"""What drafting costs and brings, in rounds of plain decoding: within a run, and from one run to the next.

A draft that is tried where none pays is a loss. In a long text it is soon made up for; over many short answers, each of
which tries anew, it would not be. So what runs lost and saved is kept in one ledger for all of them, and a run begins
with no more credit than the ledger still has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

CREDIT_ROUNDS, CREDIT_SHARE = 0.75, 0.015  # what drafting may lose: at a run's begin, and of the text's plain rounds
MOST_SAVED_ROUNDS = 8.0  # that a run may have saved up to lose again
FIRST_LEDGER_ROUNDS, MOST_LEDGER_ROUNDS = 3.0, 24.0  # of all runs: before the first one, and at most


class DraftingLedger:
    """What drafting may still lose over all runs of the same drafters on the same target."""

    def __init__(self) -> None:
        self.rounds = FIRST_LEDGER_ROUNDS

    def book(self, rounds: float) -> None:
        """Plain rounds that drafting saved; below 0 it lost them."""
        self.rounds = min(self.rounds + rounds, MOST_LEDGER_ROUNDS)


class DraftingLedgers:
    """A rig's ledgers: one for each method and the drafters that serve it."""

    def __init__(self) -> None:
        self._ledgers: dict[tuple[object, ...], DraftingLedger] = defaultdict(DraftingLedger)

    def of(self, method: str, drafters: Sequence[object]) -> DraftingLedger:
        """The ledger of these drafters themselves, not of their like."""
        return self._ledgers[method, *map(id, drafters)]


class DraftingAccounts:
    """The same of one run, which passes everything on to the ledger."""

    def __init__(self, plain_ms: float, ledger: DraftingLedger) -> None:
        self._plain_ms, self._ledger = plain_ms, ledger
        self._credit = min(CREDIT_ROUNDS, ledger.rounds)

    def draft(self, spent_ms: float, tokens: int) -> None:
        """A round that drafted: its time, and the tokens that it kept."""
        self._book(tokens - spent_ms / self._plain_ms)

    def grow(self, tokens: int) -> None:
        """Tokens that the text has grown by."""
        self._book(CREDIT_SHARE * tokens)

    def correct(self, rounds: float) -> None:
        """So many plain rounds fewer than was expected the last round took."""
        self._book(rounds)

    @property
    def solvent(self) -> bool:
        """Whether drafting has lost no more than it may."""
        return self._credit >= 0

    def _book(self, rounds: float) -> None:
        self._credit = min(self._credit + rounds, MOST_SAVED_ROUNDS)
        self._ledger.book(rounds)
