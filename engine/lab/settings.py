"""Settings, cells and plans of a sweep: how a person chooses them, and in which order they are measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from random import Random

from engine.decoding.budget_policy import AUTO, FIXED, MAX_AUTO_NODES
from engine.decoding.methods import METHODS, method_named, split_rule_of
from engine.decoding.options import check_option, prompt_request
from engine.errors import RequestError
from engine.lab.reading import Reading
from engine.records import PromptRequest, Sampling
from engine.requests.limits import MAX_CONCURRENCY, MAX_REPEATS, TRIED_BUDGETS, check_int
from engine.requests.prompts import Prompt, read_prompts
from engine.requests.rig_names import AUTO_DTYPE

BASELINE = "autoregressive"  # speed-ups are relative to it, in every sweep and race
TURNS_PER_REQUEST = 4  # prompts that each concurrent request answers before they repeat
MAX_CELLS = 1_000_000
SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "prompts"


@dataclass(frozen=True)
class Setting:
    """The options of ``records.PromptRequest`` that a sweep varies, and the number of concurrent requests."""

    method: str
    budget: int = 64  # 0 without a drafter; the maximum per round at the pace auto
    split: str = "total"
    drafters: tuple[str, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    pace: str = FIXED
    concurrency: int = 1

    @property
    def budget_label(self) -> str:
        """The budget as in a command line: ``64``, or ``auto``."""
        return str(self.budget) if self.pace == FIXED else self.pace

    @property
    def label(self) -> str:
        """Its name in tables and legends: ``ddtree 64``, ``merged auto each``, ``ddtree 64 T 0.7, 8 at once``."""
        budget, split = self.budget_label, self.split
        parts = [self.method, budget if budget != "0" else "", split if split != "total" else "",
                 "+".join(self.drafters), f"T {self.temperature:g}" if self.temperature else ""]
        several = f", {self.concurrency} at once" if self.concurrency > 1 else ""
        return " ".join(part for part in parts if part) + several

    @property
    def baseline(self) -> Setting:
        """The setting to compare its speed with: plain decoding of as many requests, with the same sampling."""
        return replace(self, method=BASELINE, budget=0, split="total", drafters=(), pace=FIXED)

    @property
    def curve(self) -> Setting:
        """The same setting without budget and concurrency; settings that share it are points of one curve."""
        return replace(self, budget=0, pace=FIXED, concurrency=1)

    @property
    def curve_label(self) -> str:
        return self.curve.label

    @property
    def with_one_request(self) -> Setting:
        return replace(self, concurrency=1)

    @property
    def drafts(self) -> bool:
        return METHODS[self.method].drafter_count > 0


@dataclass(frozen=True)
class Cell:
    """The smallest unit of a sweep: one run of the plan's prompt of that index."""

    prompt: int
    setting: Setting
    repeat: int = 0


@dataclass(frozen=True)
class Task:
    """A cell, its request, and the requests that run concurrently with it."""

    cell: Cell
    request: PromptRequest
    others: tuple[PromptRequest, ...] = ()


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep measures: every prompt × setting × repeat, in an order given by ``seed``. Repeat r samples with
    seed + r."""

    prompts: tuple[Prompt, ...]
    settings: tuple[Setting, ...]
    repeats: int = 3
    max_tokens: int = 128
    seed: int = 0
    rig: str = "demo"
    dtype: str = AUTO_DTYPE
    prompt_set: str = ""

    def __len__(self) -> int:
        return len(self.prompts) * len(self.settings) * self.repeats

    @property
    def categories(self) -> list[str]:
        return sorted({prompt.category for prompt in self.prompts if prompt.category})

    def request(self, cell: Cell) -> PromptRequest:
        prompt = self.prompts[cell.prompt]
        setting = {one.name: getattr(cell.setting, one.name) for one in fields(Setting) if one.name != "concurrency"}
        return prompt_request({"prompt": prompt.text, "turns": prompt.turns, "max_tokens": self.max_tokens,
                               "seed": self.seed + cell.repeat, **setting})

    def task(self, cell: Cell) -> Task:
        """Return a cell's task. The prompts after it, cyclically, run concurrently with it, so every prompt accompanies
        others equally often."""
        concurrency = cell.setting.concurrency
        following = range(1, 1 + TURNS_PER_REQUEST * concurrency) if concurrency > 1 else ()
        others = [replace(cell, prompt=(cell.prompt + steps) % len(self.prompts)) for steps in following]
        return Task(cell, self.request(cell), tuple(map(self.request, others)))


@dataclass(frozen=True)
class Conditions:
    """What a sweep was measured on: the rig's title, the hardware, the dtype, and versions by package."""

    rig: str
    hardware: str
    dtype: str
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CellResult:
    """A cell's reading, or a ``failure`` that says why there is none."""

    cell: Cell
    reading: Reading | None
    failure: str = ""
    hardware: str = ""


def measuring_order(plan: SweepPlan) -> list[Cell]:
    """Order the cells in randomised blocks: a block holds every setting of one prompt and repeat, shuffled.

    So compared runs are close in time, and drift affects all settings equally. Every prompt comes once before any comes
    again, so a sweep that is stopped early is balanced.
    """
    random = Random(plan.seed)
    ordered = []
    for repeat in range(plan.repeats):
        for prompt in random.sample(range(len(plan.prompts)), len(plan.prompts)):
            ordered += [Cell(prompt, setting, repeat) for setting in random.sample(plan.settings, len(plan.settings))]
    return ordered


def block_of(cell: Cell) -> tuple[int, int]:
    """Return the block of a cell. One device measures a block, because its cells are compared with each other."""
    return cell.prompt, cell.repeat


def shipped_sets() -> list[str]:
    """Return the names of the shipped prompt sets."""
    return sorted(path.stem for path in SHIPPED.glob("*.jsonl"))


def file_of(name: str) -> Path:
    """Return the file of a shipped set, or a user's file, which may not exist."""
    return SHIPPED / f"{name}.jsonl" if name in shipped_sets() else Path(name)


def prompt_set(name: str, limit: int | None = None) -> tuple[Prompt, ...]:
    """Return the first ``limit`` prompts of a shipped set or of a file; RequestError names the line that is wrong."""
    if limit is not None and limit < 1:
        raise RequestError(f"The limit is {limit} prompts; it has to be 1 or more.")
    path = file_of(name)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a name that no file can have
        exists = False
    if not exists:
        raise RequestError(f"There is no prompt set and no file {name[:200]!r}; the sets are "
                           f"{', '.join(shipped_sets())}.")
    return tuple(read_prompts(path)[:limit])


GREEDY = Sampling()


def settings(methods: Iterable[str], budgets: Iterable[int | str] = TRIED_BUDGETS, split: str = "total",
             drafters: tuple[str, ...] = (), sampling: Sampling = GREEDY,
             concurrency: Iterable[int] = (1,)) -> tuple[Setting, ...]:
    """Return the baseline, then every method at every budget, for every concurrency.

    The baseline of one request is always included, because all texts are compared with it. ``split`` and ``drafters``
    apply to methods that have a choice of them. RequestError for an invalid value.
    """
    for name, value in asdict(sampling).items():
        check_option(name, value)
    counts = sorted({check_int("The number of requests at once", count, 1, MAX_CONCURRENCY) for count in concurrency})
    if not counts:
        raise RequestError("No number of requests at once was given; write at least one, as in: 1, 2, 4, 8.")
    words = list(budgets)
    nodes = sorted({check_option("budget", word) for word in words if word != AUTO})
    if not words:
        raise RequestError("No node budget was given; write at least one, as in: 16, 32, 64.")
    rows = {name: method_named(name) for name in methods}
    if drafters and not any(row.takes(len(drafters)) for row in rows.values()):
        raise RequestError(f"None of the chosen methods takes the {len(drafters)} drafters {', '.join(drafters)}; name "
                           "as many as a method has, or none.")
    sampled = Setting(BASELINE, 0, temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p)
    alone = [sampled]
    for name, row in rows.items():
        rule = split_rule_of(row, split)
        setting = replace(sampled, method=name, drafters=drafters if row.takes(len(drafters)) else (),
                          split=next(own for own, other in row.split_rules.items() if other is rule))
        if row.drafter_count:
            alone += [replace(setting, budget=budget) for budget in nodes]
            alone += [replace(setting, budget=MAX_AUTO_NODES, pace=AUTO)] if AUTO in words else []
    concurrent = [replace(setting, concurrency=count) for count in counts for setting in alone]
    return tuple(dict.fromkeys([alone[0], *concurrent]))


def check(plan: SweepPlan, methods: Sequence[str], drafters: Sequence[str]) -> None:
    """Raise RequestError if a rig with these methods and drafters cannot measure the plan."""
    missing = [setting.method for setting in plan.settings if setting.method not in methods]
    if missing:
        raise RequestError(f"This rig cannot run {missing[0]}; it runs {', '.join(methods)}.")
    unknown = [name for setting in plan.settings for name in setting.drafters if name not in drafters]
    if unknown:
        raise RequestError(f"This rig has no drafter {unknown[0][:60]!r}; it has {', '.join(drafters) or 'none'}.")
    if not plan.prompts:
        raise RequestError("The sweep has no prompt; choose a prompt set or upload a file.")
    check_int("The number of repeats", plan.repeats, 1, MAX_REPEATS)
    check_option("max_tokens", plan.max_tokens)
    check_option("seed", plan.seed)
    if len(plan) > MAX_CELLS:
        raise RequestError(
            f"The sweep has {len(plan)} runs ({len(plan.prompts)} prompts × {len(plan.settings)} settings × "
            f"{plan.repeats} repeats); at most {MAX_CELLS} are allowed.")
