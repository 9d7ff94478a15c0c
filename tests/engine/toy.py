"""A small target and a drafter in numpy, exact and fast; the tests of the loop run on them.

The next token depends on the last three alone, by a table. The target obeys all of ``protocols.Target``,
position draws included, and raises an error if a caller breaks that contract.
"""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.decoding.protocols import Features, position_draws
from engine.records import Floats, Integers, Lattice, PackedTree, Sampling, Verification

ORDER = 3  # tokens of context; positions before the text count as token 0

Table = NDArray[np.float32]


class ToyTarget:
    """Implement a target by ``table`` (vocabulary³, vocabulary) float32: log probabilities by context."""

    def __init__(self, vocabulary: int = 8, context_limit: int = 128, sharpness: float = 1.5, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.vocabulary, self._limit = vocabulary, context_limit
        near, middle, far = (random.normal(size=(vocabulary, vocabulary)) for _ in range(ORDER))
        logits = sharpness * (far[:, None, None] + 1.5 * middle[None, :, None] + 2 * near[None, None])
        self.table: Table = _normalised(logits.reshape(-1, vocabulary))
        self.text: list[int] = []
        self.released = 0
        self._processed: dict[tuple[float, int, float], Table] = {}
        self._sampling = Sampling()
        self._draws = position_draws(0, 0)
        self._packed: PackedTree | None = None
        self._rows: Integers = np.zeros(0, np.int32)

    @property
    def context_limit(self) -> int:
        return self._limit

    def positions_for(self, prompt_tokens: int) -> int:
        return self._limit

    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Features]:
        """See ``protocols.Target``. The features are the tokens themselves."""
        self.text, self._sampling = list(prompt_ids), sampling
        self._draws = position_draws(sampling.seed, self._limit + 1)
        self._rows = np.asarray([self.context(self.text)], np.int32)
        choice = self.choose(self._rows, np.asarray([len(self.text)]))
        return int(choice[0]), np.asarray(prompt_ids, np.int32)

    def verify_batch(self, forks: Sequence["ToyTarget"], packed: Sequence[PackedTree]) -> list[Verification]:
        return [fork.verify(tree) for fork, tree in zip(forks, packed, strict=True)]

    def verify(self, packed: PackedTree) -> Verification:
        """Verify each row in the context of the text and the row's ancestors."""
        self._packed, size = packed, len(packed)
        self._rows = self._contexts(packed)
        choice = self.choose(self._rows, packed.positions + 1)
        nodes, above = np.arange(size), packed.parents
        law, tokens = self.table[self._rows], packed.tokens
        top = np.partition(law, -2, axis=-1)
        offered, allowed = law[above, tokens], self.processed()[self._rows[above], tokens]
        offered[0] = allowed[0] = 0
        return Verification(
            choice, law[nodes, choice], -(np.exp(law) * law).sum(-1), top[:, -1] - top[:, -2], offered, allowed)

    def commit(self, keep: Integers) -> Features:
        """See ``protocols.Target``. Raise ValueError unless the rows are a path from the root of the last pass."""
        packed = self._packed
        if packed is None or keep[0] != 0 or any(packed.parents[node] != parent for parent, node in pairwise(keep)):
            raise ValueError(f"The rows {keep.tolist()} are no path from the root of the last pass.")
        kept = packed.tokens[keep]
        self.text += kept.tolist()
        self._packed = None
        return kept

    def release(self) -> None:
        """See ``protocols.Target``; ``released`` counts how often."""
        self.text, self._packed = [], None
        self.released += 1

    def fork(self) -> "ToyTarget":
        other = copy(self)
        other.text, other._packed = [], None
        return other

    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        law = np.exp(self.processed()[self._rows[row]])
        left = law.copy()
        left[tokens] -= masses
        left = np.maximum(left, 0)
        return int(drawn((left if left.any() else law)[None], np.asarray([draw]))[0])

    def context(self, tokens: Sequence[int]) -> int:
        """Return the table's row for what follows these tokens."""
        row = 0
        for token in tokens[-ORDER:]:
            row = row * self.vocabulary + int(token)
        return row

    def processed(self) -> Table:
        """Return the table after temperature, top-k and top-p."""
        sampling = self._sampling
        key = sampling.temperature, sampling.top_k, sampling.top_p
        if key not in self._processed:
            self._processed[key] = processed(self.table, sampling)
        return self._processed[key]

    def choose(self, rows: Integers, positions: NDArray[np.integer]) -> Integers:
        """Return one token per context row, (n,) int32: the argmax, or the position's draw."""
        if self._sampling.temperature == 0:
            likeliest: Integers = self.table[rows].argmax(-1).astype(np.int32)
            return likeliest
        return drawn(np.exp(self.processed()[rows]), self._draws[positions])

    def _contexts(self, packed: PackedTree) -> Integers:
        rows = [self.context(self.text[-ORDER:] + [int(packed.tokens[0])])]
        states = self.vocabulary**ORDER
        for token, parent in zip(packed.tokens[1:].tolist(), packed.parents[1:].tolist(), strict=True):
            rows.append((rows[parent] * self.vocabulary + token) % states)
        return np.asarray(rows, np.int32)


class ToyDrafter:
    """Draft one row per depth: the target's own distributions along its likeliest path, with noise.

    ``noise`` is the share of the mass that goes to a random distribution per context, which ``seed`` decides: two
    seeds give two drafters that are good at different texts.
    """

    def __init__(self, target: ToyTarget, depth: int = 6, noise: float = 0.4, seed: int = 0) -> None:
        self.target, self.depth, self.noise, self.seed = target, depth, noise, seed
        self.text: list[int] = []
        self.released = 0
        self._marginals: dict[int, Table] = {}

    def begin(self, rows: int) -> None:
        self.text = []

    def observe(self, token_ids: Integers, features: Features) -> None:
        """See ``protocols.Drafter``. Raise ValueError unless the features are the tokens, as in ``ToyTarget``."""
        if not np.array_equal(token_ids, features):
            raise ValueError(f"The tokens {token_ids.tolist()} come with the features of {features.tolist()}.")
        self.text += token_ids.tolist()

    def draft(self, root: int, width: int) -> Lattice:
        context = self.target.context([*self.text[-ORDER:], root])
        if context not in self._marginals:
            self._marginals[context] = self._blurred(context)
        logprobs = self._marginals[context]
        tokens = np.argsort(-logprobs, axis=-1, kind="stable")[:, :width].astype(np.int32)
        return Lattice(tokens[:, None], np.take_along_axis(logprobs, tokens, -1)[:, None],
                       np.zeros_like(tokens[:, None]))

    def release(self) -> None:
        """See ``protocols.Drafter``; ``released`` counts how often."""
        self.text = []
        self.released += 1

    def fork(self) -> "ToyDrafter":
        other = copy(self)
        other.text = []
        return other

    def _blurred(self, context: int) -> Table:
        """Return (depth, vocabulary) float32 log probabilities."""
        random = np.random.default_rng([self.seed, context])
        size = self.target.vocabulary
        rows = []
        for _ in range(self.depth):
            rows.append(np.exp(self.target.table[context]))
            context = (context * size + int(rows[-1].argmax())) % size**ORDER
        other = random.dirichlet(np.full(size, 0.5), size=self.depth)
        return _normalised(np.log((1 - self.noise) * np.stack(rows) + self.noise * other + 1e-9))


def processed(logprobs: Table, sampling: Sampling) -> Table:
    """Return log probabilities (rows, vocabulary) after temperature, top-k and top-p, −inf where cut.

    At temperature 0 all mass is on the argmax.
    """
    if sampling.temperature == 0:
        best = np.arange(logprobs.shape[-1]) == logprobs.argmax(-1)[:, None]
        return np.where(best, np.float32(0), np.float32(-np.inf))
    logits = logprobs / np.float32(sampling.temperature)
    if 0 < sampling.top_k < logits.shape[-1]:
        least = np.sort(logits, axis=-1)[:, -sampling.top_k, None]
        logits = np.where(logits < least, -np.inf, logits)
    if sampling.top_p < 1:
        order = np.argsort(-logits, axis=-1, kind="stable")
        mass = np.exp(_normalised(np.take_along_axis(logits, order, -1)))
        outside = np.empty_like(logits, dtype=np.bool_)
        np.put_along_axis(outside, order, mass.cumsum(-1) - mass >= sampling.top_p, -1)
        logits = np.where(outside, -np.inf, logits)
    return _normalised(logits)


def drawn(weights: Table, draws: NDArray[np.float64]) -> Integers:
    """Draw a token (int32) for each row by inverse transform of weights (rows, vocabulary) and draws (rows,)."""
    heights = weights.astype(np.float64).cumsum(-1)
    chosen = (heights <= (draws * heights[:, -1])[:, None]).sum(-1)
    last = weights.shape[-1] - 1 - (weights[:, ::-1] > 0).argmax(-1)
    tokens: Integers = np.minimum(chosen, last).astype(np.int32)
    return tokens


def _normalised(logits: NDArray[np.floating]) -> Table:
    """Return the log-softmax in float32, computed in float64."""
    shifted = logits - logits.max(-1, keepdims=True)
    table: Table = (shifted - np.log(np.exp(shifted, dtype=np.float64).sum(-1, keepdims=True))).astype(np.float32)
    return table
