"""The records of a round, in the order in which they are made. Read this file first, then ``reference.py``.

Everything is a struct of numpy arrays, never node objects: the same layout serves the engine, a tensor on a
device, a trace file and the page. Node 0 of a tree is the root, and ``parents[i] < i``; the root's own parent
is written as 0. What can be derived (depths, the mask, paths) is not stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int32]
Floats = NDArray[np.float32]

OPTIONAL = MappingProxyType({"optional": True})  # metadata of a field that a trace's line lacks when it is empty
STAGES = ("draft", "build", "pack", "verify", "accept", "keep", "other")
WAIT = "wait"  # additional stage of a shared round: time spent waiting for the other runs

MAX_BUDGET = 4096  # a pass over more rows than this is a prefill, not a draft tree
MAX_TOKENS = 1_000_000  # of one text: more than any model's context
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1  # what a trace file and a tensor can hold


@dataclass(frozen=True)
class Option:
    """Metadata of a run option: its name in messages, help text and bounds.

    ``low`` ≤ value ≤ ``high``; ``low`` is excluded unless ``inclusive``; 0 is also valid if ``or_zero``. For texts and
    lists the bounds count characters or items. ``page_high`` is the limit for network clients. Validation, command-line
    flags, the page's form and the browser's types are generated from these.
    """

    name: str
    help: str
    low: float = 0
    high: float = math.inf
    page_high: float = math.inf
    inclusive: bool = True
    or_zero: bool = False


@dataclass(frozen=True)
class Sampling:
    """How the target turns its logits into a choice."""

    temperature: Annotated[float, Option(  # beyond these bounds, logits overflow float32 or are all equal
        "The temperature", "0 is greedy", 0.01, 100.0, page_high=2.0, or_zero=True)] = 0.0
    top_k: Annotated[int, Option("top-k", "0 cuts nothing", 0, MAX_INT64, page_high=100_000)] = 0
    top_p: Annotated[float, Option("top-p", "1 cuts nothing", 0, 1, inclusive=False)] = 1.0
    seed: Annotated[int, Option("The seed", "of the draws", 0, MAX_INT64, page_high=MAX_INT32)] = 0
    min_p: Annotated[float, Option("min-p", "least share of the likeliest token; 0 cuts nothing", 0, 1)] = 0.0
    repetition_penalty: Annotated[float, Option(
        "The repetition penalty", "divides positive logits of prompt and text; 1 is off", 0.1, 10.0)] = 1.0
    presence_penalty: Annotated[float, Option(
        "The presence penalty", "taken from logits of written tokens", -2, 2)] = 0.0
    frequency_penalty: Annotated[float, Option(
        "The frequency penalty", "the same for each time it was written", -2, 2)] = 0.0
    logit_bias: Annotated[tuple[tuple[int, float], ...], Option(
        "The logit bias", "added to logits, as in 42:-5, 7:1", -100, 100)] = ()

    @property
    def penalises(self) -> bool:
        """Whether logits depend on the tokens of the text."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)

    @property
    def adjusts(self) -> bool:
        """Whether the target chooses by other logits than the model's."""
        return self.penalises or bool(self.logit_bias)


@dataclass(frozen=True)
class Precision:
    """A rig's dtype, used for both plain decoding and trees, and the reason for it.

    ``plain_dtype``: a dtype in which plain decoding alone would be ``plain_gain`` times as fast, or "".
    """

    dtype: str
    reason: str = ""
    plain_dtype: str = ""
    plain_gain: float = 1.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Generation options, independent of the prompt.

    ``budget`` counts *drafted* nodes: the target verifies budget + 1 rows. ``split``: the drafters of ``merged`` share
    the budget (``total``) or get all of it (``each``). ``pace``: every round uses the whole budget (``fixed``), or the
    number of nodes that is fastest on this machine, up to ``budget`` (``auto``).
    """

    method: Annotated[str, Option("The method", "how trees are drafted, combined and accepted")] = "ddtree"
    budget: Annotated[int, Option("The node budget", "drafted nodes per round", 0, MAX_BUDGET)] = 64
    max_tokens: Annotated[int, Option(
        "Max tokens", "where a text ends at the latest", 1, MAX_TOKENS, page_high=4096)] = 256
    sampling: Sampling = Sampling()
    split: Annotated[str, Option("The split", "what the budget means for merged")] = "total"
    pace: Annotated[str, Option("The pace", "whether a round verifies the whole budget or what pays")] = "fixed"

    def shared(self) -> dict[str, Any]:
        """Return the options shared by ``Request`` and ``PromptRequest``, as keyword arguments."""
        return {field.name: getattr(self, field.name) for field in fields(RunOptions)}


@dataclass(frozen=True)
class Request(RunOptions):
    """A request to the engine; ``stop_ids`` end the text and are not part of it."""

    prompt_ids: tuple[int, ...]
    _: KW_ONLY
    stop_ids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PromptRequest(RunOptions):
    """A ``Request`` before tokenisation. ``drafters`` are names in order (default: the rig's choice for the method);
    ``turns`` are the previous (role, text) messages, with the roles system, user and assistant."""

    prompt: Annotated[str, Option("The prompt", "what is asked", page_high=20_000)]
    _: KW_ONLY
    drafters: Annotated[tuple[str, ...], Option(
        "The drafters", "drafters by name, in order, for methods with that many")] = ()
    turns: Annotated[tuple[tuple[str, str], ...], Option(
        "The turns", "the conversation before the prompt", page_high=64)] = ()
    forced: Annotated[tuple[int, ...], Option(
        "The forced tokens", "ids of tokens that the answer is forced to begin with", 0,
        MAX_INT32, page_high=4096)] = ()
    thinking: Annotated[str, Option(
        "The thinking switch", "of chat templates that have one; auto is what suits the drafters")] = "auto"


@dataclass(frozen=True, eq=False)
class Lattice:
    """What one drafter proposes for the positions after the root.

    tokens (depth, rows, k) int32, logprobs (depth, rows, k) float32 in descending order along k and normalised
    over the whole vocabulary before the cut to k, follow (depth, rows, k) int32: the row at the next depth that
    a cell leads to. Block diffusion gives marginals, one row a depth (paper 002, section 3); if a token depends
    on the one before it, transitions, a row per predecessor; a drafter that sees its path gives conditionals, a row
    per path.
    """

    tokens: Integers
    logprobs: Floats
    follow: Integers

    @property
    def depth(self) -> int:
        """The number of positions after the root that it covers."""
        return int(self.tokens.shape[0])

    def cut(self, depth: int) -> Lattice:
        """Return the lattice of the first ``depth`` positions after the root."""
        if depth >= self.depth:
            return self
        return Lattice(self.tokens[:depth], self.logprobs[:depth], self.follow[:depth])

    def narrowed(self, width: int) -> Lattice:
        """Return the lattice of the ``width`` most likely tokens of each row."""
        if width >= self.tokens.shape[2]:
            return self
        return Lattice(self.tokens[..., :width], self.logprobs[..., :width], self.follow[..., :width])


Proposals = Sequence[Lattice]  # what one drafter proposes at each position of a known text


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Tokens to verify: tokens, parents (n,) int32, logprobs (n,) float32 cumulative from the root (whose own is
    0), drafters (n,) int32: a bit mask of the drafters that propose the node (1, 2, both 3; 0 for the root)."""

    tokens: Integers
    parents: Integers
    logprobs: Floats
    drafters: Integers

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def confidence(self) -> float:
        """μ: the mean of exp(logprob) over the drafted nodes (paper 001, section 5); 0 if nothing was drafted."""
        return float(np.exp(self.logprobs[1:]).sum()) / (len(self) - 1) if len(self) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class PackedTree:
    """A tree as the rows of one target pass: tokens, positions (absolute), parents (rows,) int32, and visible (rows,
    rows) bool: whether a row sees another, as it does its ancestors and itself (paper 000, section 4.2)."""

    tokens: Integers
    positions: Integers
    parents: Integers
    visible: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class Verification:
    """The target's choice and statistics at each node, all (n,); nothing of the vocabulary's size leaves the device.

    choice int32: the token that it chooses there (argmax, or a draw from its processed distribution). Under the model's
    own distribution, at temperature 1 and uncut, all float32: logprobs, the choice's log probability; entropy in nats;
    gap, the log probability of the most likely token minus that of the second; offered, the log probability of this
    node's own token at its parent. processed float32: ``offered`` after temperature, top-k and top-p, which acceptance
    uses; at temperature 0 it is 0 for the argmax and −inf for all others. The root's offered and processed are 0.
    """

    choice: Integers
    logprobs: Floats
    entropy: Floats
    gap: Floats
    offered: Floats
    processed: Floats

    def at(self, node: int) -> int:
        return int(self.choice[node])


@dataclass(frozen=True, eq=False)
class Trials:
    """The children that an acceptance rule tried, in order: nodes (t,) int32, chances (t,) float32 of acceptance,
    draws (t,) float32 uniform in [0, 1). A trial succeeds when its draw lies below its chance."""

    nodes: Integers
    chances: Floats
    draws: Floats


@dataclass(frozen=True, eq=False)
class Acceptance:
    """What is accepted of a tree. keep (a,) int32: the rows to keep, root first; bonus: the target's own next token,
    which is the next round's root."""

    keep: Integers
    bonus: int
    trials: Trials | None = None


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The target's most likely tokens after each kept row, the likeliest first: tokens (a, k) int32, logprobs (a, k)
    float32 before temperature, top-k and top-p."""

    tokens: Integers
    logprobs: Floats


@dataclass(frozen=True, eq=False)
class Round:
    """One draft, one verify, one commit. ``start`` is the length of the cache before it, so the root's position.

    ``drafts`` has one lattice a drafter, ``candidates`` one tree a drafter (the losing one of ``routed`` included),
    ``seconds`` the time per stage. Rounds that nobody records have no ``alternatives``.
    """

    index: int
    start: int
    drafts: tuple[Lattice, ...]
    candidates: tuple[DraftTree, ...]
    tree: DraftTree
    verification: Verification
    acceptance: Acceptance
    seconds: Mapping[str, float] = field(default_factory=dict)
    alternatives: Alternatives | None = field(default=None, metadata=OPTIONAL)

    @property
    def scores(self) -> tuple[float, ...]:
        """The mean node confidence μ of each candidate (paper 001, section 5)."""
        return tuple(tree.confidence for tree in self.candidates)

    @property
    def committed(self) -> Integers:
        """The tokens that this round adds to the text, the root first: (a,) int32."""
        return self.tree.tokens.take(self.acceptance.keep)
