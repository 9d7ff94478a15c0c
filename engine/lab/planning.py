"""Makes sweep plans of what a form or a command line says, and reads prompt sets: shipped ones by name, or a user's
file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.decoding.budget_policy import AUTO, MOST_AUTO
from engine.decoding.methods import METHODS, method_named, share_named
from engine.errors import RequestError
from engine.lab.settings import BASELINE, Setting, SweepPlan
from engine.records import Sampling
from engine.requests.limits import (
    LARGEST,
    MOST_CONCURRENCY,
    MOST_NODES,
    MOST_REPEATS,
    MOST_TOKENS,
    TRIED_BUDGETS,
    check_sampling,
    whole,
)
from engine.requests.prompts import Prompt, read_prompts

SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "prompts"


def shipped_sets() -> list[str]:
    """The names of the shipped sets."""
    return sorted(path.stem for path in SHIPPED.glob("*.jsonl"))


def prompt_set(name: str, limit: int | None = None) -> tuple[Prompt, ...]:
    """The first ``limit`` prompts of a shipped set or of a file; RequestError says what is wrong, and in which line."""
    if limit is not None and limit < 1:
        raise RequestError(f"The limit is {limit} prompts; it has to be 1 or more.")
    path = file_of(name)
    try:
        there = path.exists()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise RequestError(f"There is no prompt set and no file {name[:200]!r}; the sets are "
                           f"{', '.join(shipped_sets())}.")
    return tuple(read_prompts(path)[:limit])


def file_of(name: str) -> Path:
    """The file of a shipped set, or the user's, which may not exist."""
    return SHIPPED / f"{name}.jsonl" if name in shipped_sets() else Path(name)


WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,12}")
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Choice:
    """The settings of a sweep as a person chooses them: every method at every budget, with each number of requests at
    once in ``concurrency``. If ``auto_budget`` is not 0,
    each method is also measured at the pace ``auto`` with at most so
    many nodes per round, and ``budgets`` may be empty."""

    methods: tuple[str, ...]
    budgets: tuple[int, ...] = TRIED_BUDGETS
    split: str = "total"
    drafters: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    auto_budget: int = 0
    concurrency: tuple[int, ...] = (1,)


def parse_budgets(text: str) -> tuple[int, ...]:
    """The budgets in a typed text such as ``16, 32 64``; see ``tidy_budgets``."""
    words = text.replace(",", " ").split()
    wrong = [word for word in words if not WHOLE_NUMBER.fullmatch(word)]
    if wrong:
        raise RequestError(f"{wrong[0][:40]!r} is not a node budget; write whole numbers, as in: 16, 32, 64.")
    return tidy_budgets(map(int, words))


def choose_budgets(text: str) -> tuple[tuple[int, ...], int]:
    """Parse budgets that may include ``auto``: the numbers, and the value of ``Choice.auto_budget``."""
    words = text.replace(",", " ").split()
    fixed = [word for word in words if word != AUTO]
    alone = bool(words) and not fixed
    return () if alone else parse_budgets(" ".join(fixed)), MOST_AUTO if AUTO in words else 0


def tidy_budgets(budgets: Iterable[int]) -> tuple[int, ...]:
    """Budgets in ascending order without repeats; RequestError for none, or for one outside the engine's bounds."""
    return _tidy("The node budget", budgets, 0, MOST_NODES,
                 "No node budget was given; write at least one, as in: 16, 32, 64.")


def tidy_concurrency(counts: Iterable[int]) -> tuple[int, ...]:
    """Numbers of requests at once in ascending order without repeats; RequestError for none, or for one outside the
    bounds."""
    return _tidy("The number of requests at once", counts, 1, MOST_CONCURRENCY,
                 "No number of requests at once was given; write at least one, as in: 1, 2, 4, 8.")


def _tidy(name: str, numbers: Iterable[int], least: int, most: int, none: str) -> tuple[int, ...]:
    tidy = tuple(sorted({whole(name, number, least, most) for number in numbers}))
    if not tidy:
        raise RequestError(none)
    return tidy


def settings(choice: Choice) -> tuple[Setting, ...]:
    """The baseline, then every chosen method at every budget, each setting once, for every number of requests at once.
    The baseline of one request is always there: its texts are what all others are compared with.

    A method without a drafter has no budget; ``split`` applies only to methods that have a choice of it. Raises
    RequestError for an unknown method or split, or for numbers that the engine does not take.
    """
    alone = _alone(choice)
    counts = tidy_concurrency(choice.concurrency)
    concurrent_settings = [replace(setting, concurrency=count) for count in counts for setting in alone]
    return tuple(dict.fromkeys([alone[0], *concurrent_settings]))


def _alone(choice: Choice) -> tuple[Setting, ...]:
    check_sampling(choice.sampling)
    own_pace = tidy_budgets([choice.auto_budget]) if choice.auto_budget else ()
    budgets = tidy_budgets(choice.budgets) if choice.budgets or not own_pace else ()
    rows = [method_named(name) for name in choice.methods]
    if choice.drafters and not any(row.takes(len(choice.drafters)) for row in rows):
        raise RequestError(f"None of the chosen methods takes the {len(choice.drafters)} drafters "
                           f"{', '.join(choice.drafters)}; name as many as a method has, or none.")
    chosen: dict[Setting, None] = {_setting(BASELINE, 0, choice): None}
    for name, row in zip(choice.methods, rows, strict=True):
        for budget in budgets if row.drafter_count else (0,):
            chosen.setdefault(_setting(name, budget, choice))
        for budget in own_pace if row.drafter_count else ():
            chosen.setdefault(replace(_setting(name, budget, choice), pace=AUTO))
    return tuple(chosen)


def _setting(name: str, budget: int, choice: Choice) -> Setting:
    row, sampling = METHODS[name], choice.sampling
    chosen = share_named(row, choice.split)
    splits = {share: split for split, share in reversed(list(row.shares.items()))}
    drafters = choice.drafters if row.takes(len(choice.drafters)) else ()
    return Setting(name, budget, splits[chosen], drafters, sampling.temperature, sampling.top_k, sampling.top_p)


def check(plan: SweepPlan, methods: Sequence[str], drafters: Sequence[str]) -> None:
    """RequestError where a plan cannot be measured by a rig that runs these methods and has these drafters."""
    missing = [setting.method for setting in plan.settings if setting.method not in methods]
    if missing:
        raise RequestError(f"This rig cannot run {missing[0]}; it runs {', '.join(methods)}.")
    unknown = [name for setting in plan.settings for name in setting.drafters if name not in drafters]
    if unknown:
        raise RequestError(f"This rig has no drafter {unknown[0][:60]!r}; it has {', '.join(drafters) or 'none'}.")
    if not plan.prompts:
        raise RequestError("The sweep has no prompt; choose a prompt set or upload a file.")
    whole("The number of repeats", plan.repeats, 1, MOST_REPEATS)
    whole("max_tokens", plan.max_tokens, 1, MOST_TOKENS)
    whole("The seed", plan.seed, 0, LARGEST)
    if len(plan) > MOST_CELLS:
        raise RequestError(
            f"The sweep has {len(plan)} runs ({len(plan.prompts)} prompts × {len(plan.settings)} settings × "
            f"{plan.repeats} repeats); at most {MOST_CELLS} are allowed.")
