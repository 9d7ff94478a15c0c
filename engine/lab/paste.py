"""Flags to paste into engines: the draft length, tree and budget that would have been best on recorded drafts at a cost
curve, and what is expected of each. For a server that reports counts alone, draft lengths from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.budget.cost import CostCurve
from engine.lab.anatomy import Anatomy
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, RedraftedLength

FEW_ROUNDS, FEW_DRAFTS = 30, 200  # below them, flags come with a caution
LEAST_EARNED = 0.1  # tokens that a place of a server's draft has to earn, where its cost is not known
LEAST_SIBLING = 0.02  # tokens that a row of siblings of a rank has to earn to count to a tree's width


@dataclass(frozen=True)
class Flags:
    """What to paste: the ``engine``, its flags, and what is expected of them, a sentence."""

    engine: str
    flags: str
    expected: str


def flags_of_run(anatomy: Anatomy, cost: CostCurve) -> list[Flags]:
    """The best chain's and the best tree's flags of the drafter that earned most at this cost; none without redrafts or
    from a curve that no best may be read from."""
    chains = [row for row in anatomy.redrafts if row.kind == CHAIN]
    trees = [row for row in anatomy.redrafts if row.kind in (MARGINALS, TRANSITIONS)]
    if not chains or not trees or cost.disorder:
        return []
    length, tree = (max(rows, key=lambda row: speed(row, cost)) for rows in (chains, trees))
    chained, branched = expectation(length, cost), expectation(tree, cost)
    loses = max(speed(length, cost), speed(tree, cost)) * cost.plain_ms <= 1
    off = " Plain decoding is faster: leave speculation off." if loses else ""
    width = sum(earned.value >= LEAST_SIBLING for earned in anatomy.by_rank.values())
    return [*chain_flags(length.budget, chained + off),
            Flags("SGLang, a tree", f"--speculative-eagle-topk {max(2, width)} --speculative-num-draft-tokens "
                  f"{tree.budget + 1}", f"{branched} Only with an EAGLE drafter: its DFLASH drafts chains.{off}"),
            Flags("Canopy", f"--method ddtree --budget {tree.budget}", branched + off)]


def chain_flags(length: int, expected: str) -> list[Flags]:
    """A draft length in the words of the engines that draft chains; SGLang counts the root, too."""
    return [Flags("vLLM", f'--speculative-config \'{{"method": "dflash", "model": "DRAFTER", '
                  f'"num_speculative_tokens": {length}}}\'', expected),
            Flags("SGLang", f"--speculative-algorithm DFLASH --speculative-draft-model-path DRAFTER "
                  f"--speculative-num-draft-tokens {length + 1}", expected),
            Flags("llama.cpp", f"--spec-type draft-dflash --spec-draft-n-max {length}", expected)]


def speed(row: RedraftedLength, cost: CostCurve) -> float:
    """Tokens per millisecond of rounds with this tree."""
    return (1 + row.accepted.value) / cost.round_ms(row.budget + 1, row.budget, 1)


def expectation(row: RedraftedLength, cost: CostCurve) -> str:
    """What these rounds show of a tree, and what the curve makes of it."""
    tau = row.accepted
    few = f" Only {tau.count} rounds: record more." if tau.count < FEW_ROUNDS else ""
    return (f"τ {1 + tau.value:.2f} ({1 + tau.low:.2f} to {1 + tau.high:.2f}) with {row.budget} drafted as a "
            f"{row.kind} of {row.drafter}, and predicted {speed(row, cost) * cost.plain_ms:.2f}× plain decoding by the "
            f"cost on {cost.hardware}.{few}")


def flags_of_server(accepted: Sequence[float], drafts: int) -> list[Flags]:
    """From a server's counts: the share of its drafts whose token at each place, from 1, was accepted. That share is
    what the place's row earned; nothing is known of places that were never drafted."""
    if not accepted or drafts <= 0:
        return []
    length = max((place for place, share in enumerate(accepted, 1) if share >= LEAST_EARNED), default=0)
    hazards = [1 - share / before if before else 1.0 for before, share in zip([1.0, *accepted], accepted, strict=False)]
    few = f" Only {drafts} drafts were counted: let it answer more." if drafts < FEW_DRAFTS else ""
    worst = max(range(len(hazards)), key=lambda place: hazards[place])
    longer = " A longer draft may do better: the last place earned as much." if length == len(accepted) else ""
    expected = (f"τ {1 + sum(accepted[:length]):.2f} with {length} drafted, {1 + sum(accepted):.2f} with "
                f"{len(accepted)} now; the riskiest is place {worst + 1} ({hazards[worst]:.0%} of those that reach it "
                f"end there). What a row costs there is not known: places that earned less than {LEAST_EARNED} tokens "
                f"are dropped.{longer}{few}")
    return chain_flags(length, expected) if length else [
        Flags("any", "", f"No place of the draft earns {LEAST_EARNED} tokens: leave speculation off.{few}")]
