"""Writes a run's best draft length and tree as flags of other engines.

Sources: vLLM's documentation, SGLang's ``arg_groups/speculative_hook.py``, ``llama-server --help`` (``READ_IN``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from engine.budget.cost import CostCurve
from engine.lab.anatomy import Anatomy
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, RedraftedLength

READ_IN = "vLLM 0.33, SGLang 0.5.23 and llama.cpp of November 2026"
MIN_ROUNDS, MIN_DRAFTS = 30, 200  # below them, flags come with a caution
MIN_EARNED = 0.1  # tokens that a depth of a server's draft must earn if its cost is not known
MIN_SIBLING_EARNED = 0.02  # tokens that a row of this rank must earn to count for a tree's width

# By kind of drafter: vLLM's method, SGLang's algorithm, llama.cpp's type. A kind that is not here runs in none of them.
NAMES: Mapping[str, tuple[str, str, str]] = MappingProxyType({
    "dflash": ("dflash", "DFLASH", "draft-dflash"),
    "dspark": ("dspark", "DSPARK", "draft-dspark"),
    "eagle3": ("eagle3", "EAGLE3", "draft-eagle3"),
    "mtp": ("mtp", "NEXTN", "draft-mtp"),
    "uno": ("", "UNO", ""),
    "ngram": ("ngram", "NGRAM", "ngram-mod"),
    "autoregressive": ("draft_model", "STANDALONE", "draft-simple"),
    "": ("METHOD", "ALGORITHM", "TYPE")})
WITHOUT_CHECKPOINT = ("mtp", "ngram")
STEPWISE = ("eagle3", "mtp", "autoregressive")  # SGLang asks for the number of their steps
TREES = (*STEPWISE, "uno", "ngram", "")  # kinds whose drafts SGLang verifies as trees
UNKNOWN_KIND = " The kind of drafter is unknown: put its name in place of the capitals."


@dataclass(frozen=True)
class Flags:
    """The flags to paste for an ``engine``, and what to expect of them, in a sentence."""

    engine: str
    flags: str
    expected: str


def flags_of_run(anatomy: Anatomy, cost: CostCurve) -> list[Flags]:
    """Return flags for the best chain and the best tree of a run at this cost; none without redrafts, or if the curve
    predicts no best budget."""
    chains = [row for row in anatomy.redrafts if row.kind == CHAIN]
    trees = [row for row in anatomy.redrafts if row.kind in (MARGINALS, TRANSITIONS)]
    if not chains or not trees or cost.unusable_reason:
        return []
    length, tree = (max(rows, key=lambda row: tokens_per_ms(row, cost)) for rows in (chains, trees))
    loses = max(tokens_per_ms(length, cost), tokens_per_ms(tree, cost)) * cost.plain_ms <= 1
    off = " Plain decoding is faster: leave speculation off." if loses else ""
    branched = expectation(tree, cost) + off
    width = max(2, sum(earned.value >= MIN_SIBLING_EARNED for earned in anatomy.by_rank.values()))
    return [*chain_flags(anatomy.kinds.get(length.drafter, ""), length.budget, expectation(length, cost) + off),
            *tree_flags(anatomy.kinds.get(tree.drafter, ""), length.budget, width, tree.budget, branched),
            Flags("Canopy", f"--method ddtree --budget {tree.budget}", branched)]


def chain_flags(kind: str, length: int, expected: str) -> list[Flags]:
    """Return a draft length as flags of each engine that runs this kind of drafter. SGLang counts the root, too."""
    if kind not in NAMES:
        return [Flags("other engines", "", f"None of vLLM, SGLang and llama.cpp runs a drafter of the kind {kind}.")]
    method, algorithm, type_ = NAMES[kind]
    expected += "" if kind else UNKNOWN_KIND
    has_checkpoint = kind not in WITHOUT_CHECKPOINT
    flags = []
    if method:
        model = '"model": "DRAFTER", ' if has_checkpoint else ""
        flags.append(Flags("vLLM", f'--speculative-config \'{{"method": "{method}", {model}'
                           f'"num_speculative_tokens": {length}}}\'', expected))
    steps = f" --speculative-num-steps {length} --speculative-eagle-topk 1" if kind in STEPWISE else ""
    breadth = " --speculative-ngram-max-bfs-breadth 1" if kind == "ngram" else ""
    flags.append(Flags("SGLang", f"{_algorithm(kind)}{steps}{breadth} --speculative-num-draft-tokens {length + 1}",
                       expected))
    if type_:
        drafter = " --model-draft DRAFTER" if has_checkpoint else ""
        limit = "--spec-ngram-mod-n-max" if kind == "ngram" else "--spec-draft-n-max"
        flags.append(Flags("llama.cpp", f"--spec-type {type_}{drafter} {limit} {length}", expected))
    return flags


def tree_flags(kind: str, steps: int, width: int, nodes: int, expected: str) -> list[Flags]:
    """Return a tree as SGLang's flags; none if it verifies no trees of this kind of drafter."""
    if kind not in TREES:
        return []
    shape = (f"--speculative-ngram-max-bfs-breadth {width}" if kind == "ngram" else
             f"--speculative-num-steps {steps} --speculative-eagle-topk {width}")
    caution = "" if kind else f"{UNKNOWN_KIND} DFLASH and DSPARK draft chains."
    return [Flags("SGLang, a tree", f"{_algorithm(kind)} {shape} --speculative-num-draft-tokens {nodes + 1}",
                  expected + caution)]


def _algorithm(kind: str) -> str:
    path = " --uno-lora-path DRAFTER" if kind == "uno" else (
        "" if kind in WITHOUT_CHECKPOINT else " --speculative-draft-model-path DRAFTER")
    return f"--speculative-algorithm {NAMES[kind][1]}{path}"


def tokens_per_ms(row: RedraftedLength, cost: CostCurve) -> float:
    """Return the tokens per millisecond of rounds with this tree."""
    return (1 + row.accepted.value) / cost.round_ms(row.budget + 1, row.budget, 1)


def expectation(row: RedraftedLength, cost: CostCurve) -> str:
    """Say what these rounds show of a tree, and what the cost curve predicts for it."""
    tau = row.accepted
    few = f" Only {tau.count} rounds: record more." if tau.count < MIN_ROUNDS else ""
    return (f"τ {1 + tau.value:.2f} ({1 + tau.low:.2f} to {1 + tau.high:.2f}) with {row.budget} drafted as a "
            f"{row.kind} of {row.drafter}, and predicted {tokens_per_ms(row, cost) * cost.plain_ms:.2f}× plain "
            f"decoding by the cost on {cost.hardware}.{few}")


def flags_of_server(accepted: Sequence[float], drafts: int) -> list[Flags]:
    """Suggest a draft length from a server's counters. ``accepted``: the fraction of drafts whose token was accepted,
    by depth from 1."""
    if not accepted or drafts <= 0:
        return []
    length = max((depth for depth, share in enumerate(accepted, 1) if share >= MIN_EARNED), default=0)
    few = f" Only {drafts} drafts were counted: let it answer more." if drafts < MIN_DRAFTS else ""
    if not length:
        return [Flags("any", "", f"No depth of the draft earns {MIN_EARNED} tokens: leave speculation off.{few}")]
    hazards = [1 - share / before if before else 1.0 for before, share in zip([1.0, *accepted], accepted, strict=False)]
    worst = max(range(len(hazards)), key=hazards.__getitem__)
    longer = " A longer draft may do better: the last depth earned as much." if length == len(accepted) else ""
    return chain_flags("", length, (
        f"τ {1 + sum(accepted[:length]):.2f} with {length} drafted, {1 + sum(accepted):.2f} with {len(accepted)} now; "
        f"most end at depth {worst + 1} ({hazards[worst]:.0%} of those that reach it). The cost of a row is unknown "
        f"there: depths that earned less than {MIN_EARNED} tokens are dropped.{longer}{few}"))
