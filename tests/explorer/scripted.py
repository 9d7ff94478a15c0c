"""A source whose text is known in advance, run through the real loop, so that tests can predict what the page shows.

The target writes a fixed script; each drafter guesses it well in one half and badly in the other. The script holds
texts that pages often render wrongly: template marks, closing tags, newlines, tabs, right-to-left text, and a
character whose bytes are split over two tokens."""

import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from engine.budget.auto import AutoBudget
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.records import (
    Alternatives,
    Integers,
    Lattice,
    PackedTree,
    PromptRequest,
    Request,
    Round,
    Sampling,
    Verification,
)
from engine.trace import End, Entry, Header, Line, Piece, Trace, trace_from_lines
from tests.engine.helpers import decode

STORY = (
    "The boxes hold 6 * 9 = 54 books. With the 13 loose ones, there are 54 + 13 = 67 books. So Omar has 67 books.\n"
    "Answer: 67\n\n"
)
CODE = (
    "```python\ndef total_books(boxes, each, loose):\n"
    "\t\"\"\"Return all books, ${7*6} and </script> shown as typed.\"\"\"\n"
    "\treturn boxes * each + loose\n\nprint(total_books(6, 9, 13))\n```\nIt prints 67. שלום 🌳"
)
OTHERS = (
    "The", " the", " a", " of", " it", "\n", " is", " so", " and", " 6", " 9", " 54", " each", " then", " has", ".",
    ",", " return", " left", " total", " are", " in", "(", ")", " =", " +", " books", " box", " def", " x",
)
DEPTH = 10
DRAFTERS = {"story": 0, "code": 1, "spare": 0}  # name: the half of the script that it guesses well


def pieces_of(text: str) -> list[Piece]:
    """Split the text into tokens: words with their space, single signs; the tree at the end as two halves of bytes."""
    pieces: list[Piece] = []
    for part in re.findall(r" ?\$\{7\*6\}| ?</script>| ?[^\W\d_]+| ?\d| ?[^\w\s]|\s|_", text):
        data = part.encode()
        if part.strip() == "🌳":
            pieces += [tuple(data[:3]), tuple(data[3:])]
        else:
            pieces.append(part)
    return pieces


@dataclass
class Script:
    """Hold the text's token ids, the pieces by id, the ids of wrong guesses, and the index of the second half."""

    ids: list[int]
    pieces: dict[int, Piece]
    others: list[int]
    half: int


def write_script() -> Script:
    """Return the script with ids numbered in order of first use; id 0 ends the text."""
    parts = [*pieces_of(STORY), *pieces_of(CODE)]
    known: dict[Piece, int] = {}
    for part in [*parts, *OTHERS]:
        known.setdefault(part, len(known) + 1)
    return Script([known[part] for part in parts], {0: "", **{token: part for part, token in known.items()}},
                  [known[part] for part in OTHERS], len(pieces_of(STORY)))


def prompt_for(tokens: int) -> str:
    """Return a prompt whose answer repeats the script for that many tokens."""
    return f"Go on for {tokens} tokens."


ENDLESS = prompt_for(4000)  # longer than any test waits


class ScriptedTarget:
    """Write the script whatever the prompt; on the script, give its next token a probability of at least 0.6."""

    def __init__(self, script: Script, endless: bool = False) -> None:
        self.script = script
        self.endless = endless
        self.context_limit = 2**14 if endless else 1024
        self.written = 0

    def positions_for(self, prompt_tokens: int) -> int:
        return self.context_limit

    def fork(self) -> "ScriptedTarget":
        return ScriptedTarget(self.script, self.endless)

    def next_token(self, position: int) -> int:
        ids = self.script.ids
        return ids[position % len(ids)] if self.endless or position < len(ids) else 0

    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Any]:
        self.written = 0
        return self.next_token(0), np.asarray(prompt_ids)

    def verify_batch(self, forks: Sequence["ScriptedTarget"], packed: Sequence[PackedTree]) -> list[Verification]:
        return [fork.verify(tree) for fork, tree in zip(forks, packed, strict=True)]

    def verify(self, packed: PackedTree) -> Verification:
        on_script, choice = [True], []
        for row in range(len(packed)):
            position = self.written + int(packed.positions[row] - packed.positions[0])
            if row:
                on_script.append(on_script[packed.parents[row]] and packed.tokens[row] == self.next_token(position))
            choice.append(self.next_token(position + 1) if on_script[row] else self.script.others[position % 7])
        random = np.random.default_rng(self.written)
        sure = np.where(on_script, random.uniform(0.6, 0.99, len(packed)), 0.4)
        right = packed.tokens == np.asarray(choice)[packed.parents]
        offered = np.log(np.where(right, sure[packed.parents], 0.02))
        processed = np.where(right, 0.0, -np.inf)
        offered[0] = processed[0] = 0
        self.choice = np.asarray(choice, np.int32)
        return Verification(
            self.choice, np.log(sure).astype("f4"), (-2 * np.log(sure)).astype("f4"),
            np.log(sure / (1.02 - sure)).astype("f4"), offered.astype("f4"),
            processed.astype("f4"))

    def masses(self, rows: Integers, tokens: Integers) -> Any:
        return (self.choice[rows] == tokens).astype(np.float32)

    def redraw(self, row: int, tokens: Integers, masses: Any, draw: float) -> int:
        return int(self.choice[row])

    def commit(self, keep: Integers) -> Any:
        self.written += len(keep)
        return keep

    def release(self) -> None: ...


@dataclass
class ScriptedDrafter:
    """Guess the script: with probability ``skill`` in its own half, rarely in the other."""

    script: Script
    target: ScriptedTarget
    half: int
    skill: float = 0.86

    def begin(self, rows: int) -> None: ...

    def observe(self, token_ids: Integers, features: Any) -> None: ...

    def release(self) -> None: ...

    def fork(self) -> "ScriptedDrafter":
        return self

    def draft(self, root: int, width: int) -> Lattice:
        base, width = self.target.written, max(2, min(width, len(self.script.others)))
        tokens, logprobs = [], []
        for ahead in range(1, DEPTH + 1):
            random = np.random.default_rng([base, ahead, self.half])
            right = self.target.next_token(base + ahead)
            home = (base + ahead >= self.script.half) == bool(self.half)
            chance = np.exp(-ahead * (0.03 if home else 0.45)) * self.skill
            others = [token for token in random.permutation(self.script.others).tolist() if token != right]
            rank = 0 if random.random() < chance else int(random.integers(1, 4))
            row = (others[:rank] + [right] + others[rank:])[:width]
            weights = np.concatenate([[chance], (1 - chance) * 0.5 ** np.arange(1, len(row))])
            order = np.argsort(-weights, kind="stable")
            tokens.append(np.asarray(row)[np.argsort(order)][order])
            logprobs.append(np.log(np.maximum(weights[order] * 0.98, 1e-6)))
        return Lattice(np.asarray(tokens, np.int32)[:, None], np.asarray(logprobs, np.float32)[:, None],
                       np.zeros((DEPTH, 1, width), np.int32))


ROWS = (1, 2, 5, 9, 17, 33, 65, 129, 257)
PASSES_MS = tuple(4 + 0.04 * rows for rows in ROWS)  # the times of ``with_fixed_times``
CURVE = CostCurve("scripted rig", "no hardware", "float32", "greedy", 128, 5, ROWS, PASSES_MS, PASSES_MS, PASSES_MS,
                  (2.0,) * len(ROWS), 0.5, 4.04)


@dataclass
class ScriptedSource:
    """Serve the script as a live source. ``pause_seconds`` lengthens each round as much as a test needs."""

    pause_seconds: float = 0.0
    name: str = "scripted rig"
    hardware: str = "no hardware"
    script: Script = field(default_factory=write_script)
    closed: int = 0
    good_at: str = ""
    released: bool = False
    room: float = 1.0  # the fraction that one run takes, so one runs at a time
    dtype: str = "float32"

    def __post_init__(self) -> None:
        self.methods = tuple(METHODS)
        self.drafters = tuple(DRAFTERS)

    def default_drafters(self, method: str) -> Sequence[str]:
        return self.drafters[:METHODS[method].drafter_count]

    def prepare(self, ask: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                cache_key: str | None = "") -> "ScriptedRun":
        return ScriptedRun(partial(self.run, ask), self.room)

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        asked = re.fullmatch(r"Go on for (\d+) tokens\.", ask.prompt)
        target = ScriptedTarget(self.script, bool(asked))
        names = ask.drafters or tuple(self.default_drafters(ask.method))
        if not set(names) <= set(self.drafters) or len(names) != METHODS[ask.method].drafter_count:
            raise RequestError(f"The drafters are {', '.join(self.drafters)}; asked for were {', '.join(names)}.")
        drafters = [ScriptedDrafter(self.script, target, DRAFTERS[name]) for name in names]
        prompt = dict(enumerate(ask.prompt[:200], start=1000))
        request = Request((*prompt, *ask.forced), stop_ids=frozenset([0]), **ask.shared())
        if asked:
            request = replace(request, max_tokens=int(asked.group(1)))
        policy = AutoBudget(CURVE, pools_rows=False) if ask.pace == AUTO and drafters else None
        rounds = decode(request, target, drafters, policy)
        yield Header(request, ask.prompt, self.name, names, self.hardware, self.dtype, target.context_limit,
                     {**prompt, **self.script.pieces}, {}, turns=ask.turns, forced=len(ask.forced))
        count = written = 0
        try:
            for round_ in rounds:
                time.sleep(self.pause_seconds)
                count += 1
                written += len(round_.acceptance.keep)
                yield Entry(with_fixed_times(round_), {}, 0.01 * count)
            yield End("length" if written >= request.max_tokens else "stop", count, 0.01 * count)
        finally:
            self.closed += 1
            rounds.close()

    def close(self) -> None:
        self.released = True


@dataclass
class ScriptedRun:
    """Run the script once."""

    lines: Callable[[], Generator[Line, None, None]]
    share: float


def with_fixed_times(round_: Round) -> Round:
    """Return the round with times that are the same on every machine."""
    keep = round_.acceptance.keep
    tokens = np.stack([round_.verification.choice[keep], np.full(len(keep), 1)], axis=1).astype(np.int32)
    alternatives = Alternatives(tokens, np.log(np.full(tokens.shape, [0.8, 0.1])).astype(np.float32))
    return replace(round_, alternatives=alternatives, seconds={
        "draft": 0.002, "build": 0.0002, "pack": 0.0001, "verify": 0.004 + 0.00004 * len(round_.tree),
        "accept": 0.0001, "keep": 0.0003, "other": 0.0001})


@lru_cache(maxsize=128)
def scripted_trace(method: str, budget: int = 24, **asked: Any) -> Trace:
    """Return the cached trace of a method's run over the script. Do not change it."""
    ask = PromptRequest("How many books does Omar have? ${7*6}", method=method, budget=budget, **asked)
    return trace_from_lines(ScriptedSource().run(ask))
