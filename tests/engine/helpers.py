"""Building blocks of the engine's tests: random lattices and trees, slow references, and the toy's drafters."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.decoding.budget_policy import BudgetPolicy
from engine.decoding.loop import DecodeRun
from engine.decoding.methods import METHODS
from engine.decoding.protocols import Drafter, Target
from engine.drafters.ngram import NGramDrafter
from engine.records import DraftTree, Integers, Lattice, Request, Round, Sampling
from tests.engine.toy import ToyDrafter, ToyTarget

# few distinct values, so that ties are common; 0 is probability 1, −inf is probability 0
COARSE = st.sampled_from([0.0, -0.25, -0.5, -1.0, -1.5, float("-inf")])
FINE = st.floats(-6, 0, width=32)


@st.composite
def lattices(draw: st.DrawFn, max_rows: int = 3, vocabulary: int = 6) -> Lattice:
    """Draw a lattice of up to 4 depths, ``max_rows`` rows and 4 ranks, with distinct tokens in each row."""
    depth, rows, width = draw(st.integers(1, 4)), draw(st.integers(1, max_rows)), draw(st.integers(1, 4))
    values = draw(st.sampled_from([COARSE, FINE]))
    cells = depth * rows * width
    logprobs = np.asarray(draw(st.lists(values, min_size=cells, max_size=cells)), np.float32)
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    tokens = np.stack([random.permutation(vocabulary)[:width] for _ in range(depth * rows)])
    return Lattice(
        tokens.reshape(depth, rows, width).astype(np.int32),
        -np.sort(-logprobs.reshape(depth, rows, width), axis=-1),
        random.integers(0, rows, (depth, rows, width)).astype(np.int32))


def sharp_lattice(depth: int, width: int, seed: int, vocabulary: int = 64) -> Lattice:
    """Return marginals that are sharp at the first positions and flatter at deeper ones."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(depth, 1, vocabulary)) * np.linspace(3, 1.5, depth)[:, None, None]
    logprobs = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)
    tokens = np.argsort(-logprobs, axis=-1)[..., :width].astype(np.int32)
    return Lattice(tokens, np.take_along_axis(logprobs, tokens, -1), np.zeros_like(tokens))


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 14, vocabulary: int = 3) -> DraftTree:
    """Draw any tree, with equal siblings too; log probabilities fall, or stay equal, along each path."""
    size = 1 + draw(st.integers(0, max_nodes))
    parents = [0] + [draw(st.integers(0, node - 1)) for node in range(1, size)]
    logprobs = np.zeros(size, np.float32)
    for node in range(1, size):
        logprobs[node] = logprobs[parents[node]] + np.float32(draw(st.sampled_from([0.0, -0.5, -1.0])))
    tokens = draw(st.lists(st.integers(0, vocabulary - 1), min_size=size, max_size=size))
    drafters = np.ones(size, np.int32)
    drafters[0] = 0
    return DraftTree(np.asarray(tokens, np.int32), np.asarray(parents, np.int32), logprobs, drafters)


Prefix = tuple[float, tuple[int, ...]]  # log probability, tokens behind the root


def all_prefixes(lattice: Lattice, min_logprob: float = -np.inf) -> list[Prefix]:
    """List every prefix of non-zero probability in the order of ``best_first``, down to ``min_logprob``."""
    listed: list[tuple[np.float32, tuple[int, ...]]] = []
    level: list[tuple[np.float32, tuple[int, ...], int]] = [(np.float32(0), (), 0)]
    for depth in range(lattice.depth):
        grown = []
        for order, (score, tokens, row) in enumerate(level):
            for rank, total in enumerate(score + lattice.logprobs[depth, row]):
                if total >= min_logprob and np.isfinite(total):
                    below = (*tokens, int(lattice.tokens[depth, row, rank]))
                    grown.append(((-total, order, rank), (total, below, int(lattice.follow[depth, row, rank]))))
        level = [node for _, node in sorted(grown, key=lambda pair: pair[0])]
        listed += [(score, tokens) for score, tokens, _ in level]
    return [(float(score), tokens) for score, tokens in sorted(listed, key=lambda pair: -pair[0])]


def are_the_best(drafted: list[Prefix], lattice: Lattice, nodes: int) -> bool:
    """Return whether ``drafted`` are the ``nodes`` best prefixes of the lattice."""
    return len(drafted) == nodes and drafted == all_prefixes(lattice, drafted[-1][0])[:nodes]


def prefixes(tree: DraftTree) -> list[Prefix]:
    """Return a tree's drafted nodes as prefixes; fail if the root or the order of parents is wrong."""
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        assert 0 <= tree.parents[node] < node
        paths.append((*paths[tree.parents[node]], int(tree.tokens[node])))
    assert tree.parents[0] == 0
    assert tree.logprobs[0] == 0
    return list(zip(tree.logprobs[1:].tolist(), paths[1:], strict=True))


def drafters_of(method: str, target: ToyTarget, depth: int = 6) -> list[Drafter]:
    """Return the drafters that a method needs, from its own family."""
    row = METHODS[method]
    if row.family == "ngram":
        return [NGramDrafter(target.vocabulary, depth)]
    return [ToyDrafter(target, depth, seed=seed) for seed in range(row.drafter_count)]


def ancestors(parents: Integers) -> NDArray[np.bool_]:
    """Return the mask (n, n) bool in which row i sees itself and its ancestors (paper 000, section 4.2)."""
    seen = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents.tolist()[1:], start=1):
        seen[node] |= seen[parent]
    return seen


def decode(request: Request, target: Target, drafters: Sequence[Drafter], policy: BudgetPolicy | None = None
           ) -> Generator[Round, None, None]:
    """Yield the rounds of a request."""
    return DecodeRun(request, target, drafters, policy).rounds()


def run(request: Request, target: Target, drafters: Sequence[Drafter]) -> list[Round]:
    """Return all rounds of a request."""
    return list(decode(request, target, drafters))


def text(rounds: Iterable[Round]) -> list[int]:
    """Return the tokens that the rounds commit."""
    return [token for round_ in rounds for token in round_.committed.tolist()]


def text_of(request: Request, target: Target, drafters: Sequence[Drafter]) -> list[int]:
    """Return the token ids that a request writes."""
    return text(decode(request, target, drafters))


def plain_text(request: Request, target: Target) -> list[int]:
    """Return the token ids of plain decoding."""
    return text_of(replace(request, method="autoregressive", budget=0), target, [])


def rig_text(rig: Any, request: Request, methods: Iterable[str] = ()) -> list[int]:
    """Return the text of plain decoding; fail if a method (default: all that follow the text) writes another."""
    wanted = plain_text(request, rig.target)
    for method in methods or [name for name in WALKING if METHODS[name].drafter_count]:
        drafters = list(rig.drafters_for(method).values())
        assert text_of(replace(request, method=method), rig.target, drafters) == wanted, method
    return wanted


BUILDERS = list(dict.fromkeys(row.build for row in METHODS.values()))
ACCEPTANCE_RULES = list(dict.fromkeys(row.accept for row in METHODS.values()))
LOSSLESS = [name for name, row in METHODS.items() if row.lossless]
WALKING = [name for name in LOSSLESS if METHODS[name].follows_text]
GREEDY, WARM = Sampling(), Sampling(temperature=0.9, top_k=6, top_p=0.95, seed=3)
