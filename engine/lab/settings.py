"""The nouns of the lab: what is measured, how often, and what a measurement holds. Read this file first.

    SweepPlan ─► order ─► Cell ─► Laboratory.measure ─► Reading ─► CellResult ─► store ─► summary, report

All records are frozen, made of plain values and torch-free: the page, the store and the workers share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from engine.decoding.budget_policy import FIXED
from engine.records import PromptRequest, Sampling
from engine.requests.prompts import Prompt
from engine.requests.rig_names import AUTO_DTYPE
from engine.trace import Piece, mean_length

BASELINE = "autoregressive"  # what speed-up is measured against, in every sweep and race
TURNS = 4  # how many prompts run beside a measured one, for each request at once, before they are repeated


@dataclass(frozen=True)
class Setting:
    """What a sweep varies. Fields are as in ``records.PromptRequest``; ``budget`` counts drafted nodes and is 0 without
    a drafter; at the pace ``auto`` it is the most that a round may verify. ``concurrency`` is the number of requests at
    once."""

    method: str
    budget: int = 64
    split: str = "total"
    drafters: tuple[str, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    pace: str = FIXED
    concurrency: int = 1

    @property
    def nodes(self) -> str:
        """The budget as in a command line: ``64``, or ``auto``."""
        return str(self.budget) if self.pace == FIXED else self.pace

    @property
    def label(self) -> str:
        """Its name in tables and legends: ``ddtree 64``, ``merged 64 each``, ``ddtree auto``, ``ddtree 64 T 0.7``,
        ``ddtree 64, 8 at once``."""
        parts = [self.method, self.nodes if self.nodes != "0" else "", self.split if self.split != "total" else "",
                 "+".join(self.drafters), f"T {self.temperature:g}" if self.temperature else ""]
        return " ".join(part for part in parts if part) + (f", {self.concurrency} at once" if self.concurrency > 1
                                                           else "")

    @property
    def baseline(self) -> Setting:
        """The setting that its speed is compared with: decoding without a drafter, with as many requests at once and
        the same sampling."""
        return replace(self, method=BASELINE, budget=0, split="total", drafters=(), pace=FIXED)

    @property
    def curve(self) -> Setting:
        """The part that settings on the same curve share: everything but the budget and the requests at once."""
        return replace(self, budget=0, pace=FIXED, concurrency=1)

    @property
    def alone(self) -> Setting:
        """This setting with one request at a time."""
        return replace(self, concurrency=1)


@dataclass(frozen=True)
class Cell:
    """The smallest unit of a sweep: one run. ``prompt`` is an index into the plan's prompts; ``repeat`` counts from 0.
    With several requests at once, the others run beside this prompt's from its first round to its last."""

    prompt: int
    setting: Setting
    repeat: int = 0


@dataclass(frozen=True)
class BackgroundRequests:
    """The requests that run beside a measured one. ``others`` take turns, so that ``concurrency`` requests, the
    measured one included, are at work in each of its rounds."""

    others: tuple[PromptRequest, ...] = ()
    concurrency: int = 1


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep measures: every prompt × setting × repeat once.

    ``prompt_set`` is the name or file that the prompts came from. ``seed`` fixes the order of the cells; repeat r draws
    with seed + r for every setting, so that settings are compared on the same draws.
    """

    prompts: tuple[Prompt, ...]
    settings: tuple[Setting, ...]
    repeats: int = 3
    max_tokens: int = 128
    seed: int = 0
    rig: str = "demo"
    dtype: str = AUTO_DTYPE
    prompt_set: str = ""

    def __len__(self) -> int:
        """How many cells it has."""
        return len(self.prompts) * len(self.settings) * self.repeats

    def ask(self, cell: Cell) -> PromptRequest:
        """The ask that a cell makes of the rig."""
        return self._ask(cell, cell.prompt)

    def background(self, cell: Cell) -> BackgroundRequests:
        """The requests that run beside a cell's: the prompts that follow it in the set, cyclically, under the same
        setting. Over all cells of a setting, every prompt so runs beside the others equally often."""
        concurrency = cell.setting.concurrency
        places = range(cell.prompt + 1, cell.prompt + 1 + TURNS * concurrency if concurrency > 1 else 0)
        return BackgroundRequests(tuple(self._ask(cell, place % len(self.prompts)) for place in places), concurrency)

    def _ask(self, cell: Cell, place: int) -> PromptRequest:
        setting = cell.setting
        sampling = Sampling(setting.temperature, setting.top_k, setting.top_p, self.seed + cell.repeat)
        prompt = self.prompts[place]
        return PromptRequest(prompt.text, method=setting.method, budget=setting.budget, max_tokens=self.max_tokens,
                   sampling=sampling, split=setting.split, drafters=setting.drafters, pace=setting.pace,
                   turns=prompt.turns)


@dataclass(frozen=True)
class Conditions:
    """What a sweep was measured on: the rig's title, the hardware's name, the dtype, and versions by package."""

    rig: str
    hardware: str
    dtype: str
    versions: Mapping[str, str] = field(default_factory=dict)


Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class AcceptanceCounts:
    """What walks accepted, by depth after the root and by rank in the drafter's row (``acceptance_counts.RANKS``
    columns, the last of which also counts all worse ranks).

    reached[d − 1]: rounds whose walk came to depth d − 1, where a drafter proposed something for depth d;
    proposed[d − 1][r]: the distinct tokens of rank r that the trees held there; accepted[d − 1][r]: how often the
    walk went on to one. A token that several drafters propose counts at its best rank, and two drafters may propose two
    tokens of one rank. Rounds that the end of the text cut short are left out.
    """

    reached: tuple[int, ...] = ()
    proposed: Counts = ()
    accepted: Counts = ()


@dataclass(frozen=True)
class Reading:
    """One measured run. A figure per round is a tuple with an item for each round.

    token_ids: the text; lengths: tokens committed, root included; rows: rows verified; expected: the tree's expected
    length 1 + Σ q over its distinct drafted prefixes; round_seconds: engine time, whose sum is ``seconds``, without the
    prefill, which is ``prefill_seconds``; stage_seconds: by ``records.STAGES``; gaps[i]: the target's gap in nats
    between its first and second token where it chose the token *after* token i; bonus: the token that would follow the
    text, −1 without a round; ``cut``: the end of the text ended the last round's walk early, so that round's length is
    not the drafter's; ``committed``: tokens that all requests at work, this one included, added in the round, empty
    where it ran alone.
    """

    token_ids: tuple[int, ...]
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    expected: tuple[float, ...]
    round_seconds: tuple[float, ...]
    prefill_seconds: float
    stage_seconds: Mapping[str, float]
    gaps: tuple[float, ...]
    acceptance: AcceptanceCounts
    bonus: int
    cut: bool
    committed: tuple[int, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds the text took."""
        return len(self.lengths)

    @property
    def seconds(self) -> float:
        """Engine time without the prefill."""
        return sum(self.round_seconds)

    @property
    def tau(self) -> float:
        return mean_length(len(self.token_ids), len(self.lengths))

    @property
    def tokens_per_second(self) -> float:
        """This request's tokens per second of engine time, without the prefill; 0 without a round."""
        return len(self.token_ids) / self.seconds if self.lengths else 0.0

    @property
    def total_tokens_per_second(self) -> float:
        """The tokens per second of all requests at work, over the same rounds."""
        return sum(self.committed or self.lengths) / self.seconds if self.lengths else 0.0


@dataclass(frozen=True)
class CellResult:
    """A cell's result: a reading, or a sentence that says why there is none. ``hardware`` is what it ran on."""

    cell: Cell
    reading: Reading | None
    failure: str = ""
    hardware: str = ""


class Laboratory(Protocol):
    """Something that measures runs, one at a time: the live rig
    (``engine/measure/instruments.py``) or a scripted one."""

    @property
    def conditions(self) -> Conditions:
        """What it measures on."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods that it can run."""

    @property
    def drafters(self) -> Sequence[str]:
        """The names of its drafters."""

    def measure(self, ask: PromptRequest) -> Reading:
        """Run to the end and return the reading; waits while another run holds the rig.

        Raises CanopyError, with a sentence for the person, where the ask cannot be served.
        """

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        """The text of tokens by id, as in a trace's entries."""


Block = tuple[int, int]  # prompt, repeat


def measuring_order(plan: SweepPlan) -> list[Cell]:
    """Every cell once, in randomised blocks: a block is one prompt and repeat, and holds every setting, shuffled.

    Compared runs, the baseline's included, lie close together in time, and drift within a block affects all settings
    alike. All prompts come once before any comes again, so that a sweep that is stopped early has covered as many
    prompts as possible.
    """
    random = Random(plan.seed)
    ordered = []
    for repeat in range(plan.repeats):
        for prompt in random.sample(range(len(plan.prompts)), len(plan.prompts)):
            ordered += [Cell(prompt, setting, repeat) for setting in random.sample(plan.settings, len(plan.settings))]
    return ordered


def block_of(cell: Cell) -> Block:
    """The block that a cell belongs to: its cells are compared with each other, so one device measures them."""
    return cell.prompt, cell.repeat
