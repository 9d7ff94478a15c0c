"""Tree speculative decoding from top to bottom, to be read in one sitting. Numpy only, and slow on purpose.

Nothing of the engine calls it. The tests hold the fast code to it, round by round: the same trees, kept rows, bonus
tokens and text (``tests/engine/test_reference.py``). Papers: 000 (merged trees, tree attention, KV trimming), 001
(routing), 002 (DDTree over a block-diffusion drafter).

A *target* is a function from the tokens that a row sees to log probabilities (V,) of the next one. A *drafter* is a
function from the text to log probabilities (depth, V): one distribution for each of the next positions, none of which
knows what the others will be (block diffusion).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from engine.decoding.methods import METHODS
from engine.records import Floats, Request

Target = Callable[[Sequence[int]], Floats]
Drafter = Callable[[Sequence[int]], Floats]


@dataclass
class Tree:
    """Drafted tokens that one pass verifies. Node 0 is the root: the target's own token, not yet read by it; its parent
    is written as 0. ``scores`` are log probabilities of the path from the root, ``drafters`` a bit for each that
    proposes the node."""

    tokens: list[int]
    parents: list[int] = field(default_factory=lambda: [0])
    scores: list[np.float32] = field(default_factory=lambda: [np.float32(0)])
    drafters: list[int] = field(default_factory=lambda: [0])

    def add(self, token: int, parent: int, score: np.float32, proposed_by: int = 1) -> int:
        """Add a node; return its number."""
        self.tokens.append(int(token))
        self.parents.append(parent)
        self.scores.append(score)
        self.drafters.append(proposed_by)
        return len(self.tokens) - 1

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root to this one, both included."""
        return [0] if node == 0 else [*self.path(self.parents[node]), node]

    def confidence(self) -> float:
        """Return μ, the mean probability of the drafted nodes (paper 001, section 5)."""
        nodes = len(self.scores) - 1
        return float(np.exp(np.asarray(self.scores[1:])).sum()) / nodes if nodes else 0.0


@dataclass
class ReferenceRound:
    """One round: the tree that was verified, the rows that were kept, root first, and the bonus token."""

    tree: Tree
    keep: list[int]
    bonus: int


# 1. Draft: from distributions to a tree

def chain(marginals: Floats, root: int, nodes: int) -> Tree:
    """Return the likeliest token of each position (DFlash)."""
    tree = Tree([root])
    for row in marginals[:nodes]:
        score = np.float32(tree.scores[-1] + row.max())
        if not np.isfinite(score):
            break
        tree.add(int(row.argmax()), len(tree.tokens) - 1, score)
    return tree


def best_first(marginals: Floats, root: int, nodes: int) -> Tree:
    """Return the ``nodes`` most probable prefixes (paper 002, Algorithm 1). The heap holds, for every prefix that was
    taken, its next sibling and its first child; so the best prefix that was not taken is always in it. Among equals the
    shallower comes first, then the one whose parent was taken earlier, then the likelier token."""
    ranking = np.argsort(-marginals, axis=-1, kind="stable")
    tree, heap = Tree([root]), [] if not len(marginals) else [(-marginals[0].max(), 0, 0, 0)]
    while heap and len(tree.tokens) <= nodes:
        cost, depth, parent, rank = heappop(heap)
        if not np.isfinite(cost):
            break
        node = tree.add(ranking[depth, rank], parent, np.float32(-cost))
        if rank + 1 < marginals.shape[1]:
            sibling = np.float32(tree.scores[parent] + marginals[depth, ranking[depth, rank + 1]])
            heappush(heap, (-sibling, depth, parent, rank + 1))
        if depth + 1 < len(marginals):
            child = np.float32(tree.scores[node] + marginals[depth + 1].max())
            heappush(heap, (-child, depth + 1, node, 0))
    return tree


# 2. Combine: from two drafters' trees to one

def routed(trees: Sequence[Tree]) -> Tree:
    """Return the tree whose nodes are the more probable on average (paper 001, section 5)."""
    best = max(range(len(trees)), key=lambda drafter: (trees[drafter].confidence(), -drafter))
    tree = trees[best]
    return Tree(tree.tokens, tree.parents, tree.scores, [bits << best for bits in tree.drafters])


def merged(trees: Sequence[Tree]) -> Tree:
    """Return disjoint subtrees below one root; φ shifts the second's nodes by those of the first (paper 000, 3.1)."""
    union = Tree([trees[0].tokens[0]])
    for drafter, tree in enumerate(trees):
        shift = len(union.tokens) - 1
        for node in range(1, len(tree.tokens)):
            parent = tree.parents[node]
            union.add(tree.tokens[node], parent + shift if parent else 0, tree.scores[node], 1 << drafter)
    return union


def joint(trees: Sequence[Tree], nodes: int) -> Tree:
    """Return one tree over both: a prefix that several drafters propose is one node. It is scored by their mixture,
    weighted by the fourth power of μ, and the ``nodes`` best are kept."""
    weights = 4 * np.log([max(tree.confidence(), 1e-30) for tree in trees])
    weights = weights - np.logaddexp.reduce(weights)
    prefixes: dict[tuple[int, ...], tuple[float, int]] = {}
    for drafter, tree in enumerate(trees):
        for node in range(1, len(tree.tokens)):
            prefix = tuple(tree.tokens[step] for step in tree.path(node))
            score, proposed_by = prefixes.get(prefix, (-np.inf, 0))
            prefixes[prefix] = np.logaddexp(score, weights[drafter] + tree.scores[node]), proposed_by | 1 << drafter
    order = sorted(prefixes, key=lambda prefix: (-min(np.float32(prefixes[prefix][0]), np.float32(0)), len(prefix)))
    union = Tree([trees[0].tokens[0]])
    node_of: dict[tuple[int, ...], int] = {(trees[0].tokens[0],): 0}
    for prefix in order[:nodes]:
        mixture, proposed_by = prefixes[prefix]
        capped = min(np.float32(mixture), np.float32(0))
        node_of[prefix] = union.add(prefix[-1], node_of[prefix[:-1]], capped, proposed_by)
    return union


GROW = {"chain": chain, "best_first": best_first}
COMBINE: Mapping[str, Callable[[Sequence[Tree], int], Tree]] = {
    "only": lambda trees, nodes: trees[0], "routed": lambda trees, nodes: routed(trees),
    "merged": lambda trees, nodes: merged(trees), "joint": joint}


def draft_tree(request: Request, drafters: Sequence[Drafter], text: Sequence[int], deepest: int) -> Tree:
    """Return the tree of a round whose root is the text's last token, at most ``deepest`` deep."""
    method = METHODS[request.method]
    nodes = method.split_rules[request.split](request.budget, len(drafters))  # of each drafter's tree
    trees = [GROW[method.build.__name__](drafter(text)[:deepest], text[-1], budget)
             for drafter, budget in zip(drafters, nodes, strict=True)]
    return COMBINE[method.combine.__name__](trees, request.budget) if trees else Tree([text[-1]])


# 3. Verify: one pass of the target over all nodes

def tree_mask(tree: Tree) -> NDArray[np.bool_]:
    """Return the mask (n, n) bool: a row sees itself and its ancestors (paper 000, 4.2), and all before the root."""
    mask = np.zeros((len(tree.tokens),) * 2, np.bool_)
    for node in range(len(tree.tokens)):
        mask[node, tree.path(node)] = True
    return mask


def verify(target: Target, cache: Sequence[int], tree: Tree, temperature: float,
           draws: NDArray[np.float64]) -> list[int]:
    """Return the token that the target chooses after each node: the likeliest, or a draw. All nodes of a depth share
    their position's draw, so that equal prefixes choose alike: then deeper matches are the same text, and accepting
    them is exact at any temperature."""
    choices = []
    for row in tree_mask(tree):
        context = [*cache, *(tree.tokens[other] for other in np.flatnonzero(row))]
        logprobs = target(context)
        if temperature == 0:
            choices.append(int(logprobs.argmax()))
            continue
        scaled = (logprobs / np.float32(temperature)).astype(np.float64)
        heights = np.exp(scaled - scaled.max()).cumsum()
        choices.append(int((heights <= draws[len(context)] * heights[-1]).sum()))
    return choices


# 4. Accept: follow the target's choices down the tree

def accept(tree: Tree, choices: Sequence[int]) -> list[int]:
    """Return the longest path on which every token is the target's choice at its parent, the root first."""
    best = [0]
    for node in range(1, len(tree.tokens)):
        path = tree.path(node)
        agrees = all(tree.tokens[child] == choices[parent] for parent, child in zip(path, path[1:], strict=False))
        if agrees and len(path) > len(best):
            best = path
    return best


# 5. The loop

def generate(target: Target, drafters: Sequence[Drafter], request: Request,
             context_limit: int) -> Iterator[ReferenceRound]:
    """Yield the rounds that continue the prompt. The text is the target's own, whatever the drafters propose."""
    temperature, stop = request.sampling.temperature, request.stop_ids
    positions = len(request.prompt_ids) + request.max_tokens + request.budget + 2
    draws = np.random.Generator(np.random.Philox(request.sampling.seed)).random(positions)
    cache = list(request.prompt_ids)  # what the target has read: a slot of the KV cache for each token
    root = verify(target, cache[:-1], Tree([cache[-1]]), temperature, draws)[0]
    tokens_left = request.max_tokens
    while tokens_left > 0 and root not in stop and len(cache) < context_limit:
        tree = draft_tree(request, drafters, [*cache, root], context_limit - len(cache) - 1)
        choices = verify(target, cache, tree, temperature, draws)
        keep = accept(tree, choices)
        bonus = choices[keep[-1]]
        for depth, node in enumerate(keep):  # a stop token, or the end of what was asked for, ends the text anywhere
            if depth == tokens_left or tree.tokens[node] in stop:
                keep, bonus = keep[:depth], tree.tokens[node]
                break
        cache += [tree.tokens[node] for node in keep]  # the kept rows stay in the cache, the others are dropped
        tokens_left -= len(keep)
        root = bonus  # chosen by the target, to be read in the next round
        yield ReferenceRound(tree, keep, bonus)
