"""budget=auto over texts whose drafts were recorded, at costs that are written down: what it loses and keeps."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from engine.decoding.budget_policy import FixedBudget
from engine.lab.accounts import CREDIT_ROUNDS, DraftingAccounts, DraftingLedger, DraftingLedgers
from engine.lab.adaptive import AdaptiveBudget, least_budget
from engine.lab.cost import CostCurve
from tests.engine.lab.recorded_drafts import DraftedText, drafted_texts, milliseconds

ROWS = (1, 2, 3, 5, 9, 13, 16, 17, 25, 32, 33)
PHRASES, NETWORK, SLOW, FAST = (0.08, 0.034), (12.0, 0.0), (15.0, 0.0), (3.5, 0.0)  # ms of a draft, and of each node


def curve(passes: dict[int, float], draft: tuple[float, float]) -> CostCurve:
    """Passes in milliseconds by rows."""
    verify = tuple(float(value) for value in np.interp(ROWS, list(passes), list(passes.values())))
    drafts = tuple(draft[0] + draft[1] * (rows - 1) for rows in ROWS)
    return CostCurve("rig", "machine", "float32", "greedy", 64, 5, ROWS, verify, verify, verify, drafts, 0.3,
                     verify[0] + 0.3)


FOUR_BITS = {1: 11.0, 2: 12, 4: 14, 5: 18, 8: 22, 9: 24, 17: 40, 33: 75}
PAYING = {
    "bfloat16": ("smollm2", curve({1: 25, 2: 27, 3: 29, 5: 31.5, 9: 41, 17: 58, 33: 90}, PHRASES)),
    "four bits": ("smollm2", curve(FOUR_BITS, PHRASES)),
    "tiles": ("smollm2", curve({1: 25, 5: 27, 9: 29, 17: 36, 33: 50}, PHRASES)),
    "demo": ("demo", curve({1: 2.4, 2: 2.9, 5: 3.6, 9: 4.6, 17: 6.5, 33: 11}, FAST)),
}
LOSING = {
    "dear rows": ("smollm2", curve({1: 28.6, 2: 60, 5: 110, 9: 197, 17: 309, 33: 500}, PHRASES)),
    "less dear rows": ("smollm2", curve({1: 30, 2: 48, 5: 80, 9: 144, 17: 160, 33: 240}, PHRASES)),
    "a dear drafter": ("smollm2", curve(FOUR_BITS, NETWORK)),
    "a dear drafter and dear rows": ("demo", curve({1: 5.5, 2: 9, 5: 18, 9: 30, 17: 48, 33: 80}, SLOW)),
}


def cut(texts: Sequence[DraftedText], tokens: int) -> list[DraftedText]:
    """Their beginnings, in an order that is drawn."""
    found = [DraftedText(text.logprobs[:tokens], text.kept[:tokens]) for text in texts]
    return random.Random(1).sample(found, len(found))


def of_plain(rig: str, costs: CostCurve, tokens: int) -> float:
    """The time of auto over all texts of a rig, one after the other, as a part of plain decoding's."""
    ledger, texts = DraftingLedger(), cut(drafted_texts(rig), tokens)
    return sum(milliseconds(text, AdaptiveBudget(costs, ledger), costs) for text in texts) / sum(
        len(text.kept) * costs.plain_ms for text in texts)


@pytest.mark.parametrize("tokens", [32, 64, 99])
@pytest.mark.parametrize("case", LOSING)
def test_where_plain_decoding_wins_short_answers_lose_three_percent_at_most(case: str, tokens: int) -> None:
    assert of_plain(*LOSING[case], tokens) <= 1.03


@pytest.mark.parametrize("tokens", [32, 99])
@pytest.mark.parametrize("case", PAYING)
def test_where_trees_pay_auto_gains_what_the_best_budget_does(case: str, tokens: int) -> None:
    rig, costs = PAYING[case]
    texts = cut(drafted_texts(rig), tokens)
    plain = sum(len(text.kept) * costs.plain_ms for text in texts)
    fixed = min(sum(milliseconds(text, Nodes(budget), costs) for text in texts) / plain for budget in (1, 2, 4, 8, 16))
    assert fixed < 0.85, "trees pay"
    assert of_plain(rig, costs, tokens) <= 1.03 * fixed


def test_trees_are_built_small_where_each_node_is_drafted_for_itself() -> None:
    assert least_budget(PAYING["four bits"][1]) == 3, "a hundredth of 11.3 ms at 0.034 ms a node"
    assert least_budget(LOSING["a dear drafter"][1]) == 24, "a network proposes all in one pass"


def test_a_run_begins_with_what_earlier_ones_left_it_to_lose() -> None:
    ledger = DraftingLedger()
    first = DraftingAccounts(10.0, ledger)
    assert first.solvent and ledger.rounds == 3
    first.draft(45.0, 1)  # three plain rounds and a half are lost
    assert not first.solvent and ledger.rounds == -0.5
    second = DraftingAccounts(10.0, ledger)
    assert not second.solvent
    for _ in range(34):
        second.grow(1)
    assert second.solvent, "1.5 % of 34 plain rounds make up for half a round"
    second.draft(10.0, 40)
    third = DraftingAccounts(10.0, ledger)
    third.draft(10.0 * (1 + CREDIT_ROUNDS), 1)
    assert third.solvent, "as much as a run may lose, however much others saved"
    third.draft(11.0, 1)
    assert not third.solvent and DraftingAccounts(10.0, ledger).solvent


def test_ledgers_are_by_method_and_drafters() -> None:
    ledgers, one, other = DraftingLedgers(), object(), object()
    assert ledgers.of("ddtree", [one]) is ledgers.of("ddtree", [one])
    assert len({id(found) for found in (ledgers.of("ddtree", [one]), ledgers.of("ddtree", [other]),
                                        ledgers.of("joint", [one]), ledgers.of("joint", [one, other]))}) == 4


class Nodes(FixedBudget):
    """The same budget in every round."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        return drafters, self._nodes
