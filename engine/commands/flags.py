"""A verb of the command line, and the flags that several verbs share, each declared once; verbs choose among them and
set defaults. Torch-free."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.commands import values
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.requests.limits import COLDEST, HOTTEST, LARGEST, MOST_CONCURRENCY, MOST_REPEATS, MOST_TOKENS
from engine.requests.rig_names import AUTO_DTYPE, DEFAULT_RIG, DTYPE_NAMES, RIGS_FOLDER

DONE, NOT_DONE = 0, 1
Result = dict[str, Any]


def done(result: Result) -> int:
    """The exit status of a verb that cannot fail once it has run: 0."""
    return DONE


@dataclass(frozen=True)
class Verb:
    """A verb. ``description`` is the text of --help; ``add`` adds the flags; ``run`` does the work, prints its progress
    and returns what --json prints, or raises CanopyError with the sentence why it cannot; ``summary`` is the text at
    the end, which may be empty; ``status`` is the exit status for a result."""

    description: str | None
    add: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Result]
    summary: Callable[[Result], str]
    status: Callable[[Result], int] = done


def nothing_more(result: Result) -> str:
    """The empty summary of a verb that has printed everything already."""
    return ""


Flags = ArgumentParser | _ArgumentGroup
SHIPPED = RIGS_FOLDER / "prompts"
MOST_PROMPTS = 10**6


def add_rig(verb: Flags) -> None:
    """Add --rig."""
    verb.add_argument("--rig", type=values.name, default=DEFAULT_RIG, metavar="NAME",
                      help="a rig's name, a folder with a rig.json, TARGET::DRAFTER, or random:SHAPE, weights made at "
                           f"random in a published size, such as random:qwen3-8b (default: {DEFAULT_RIG})")


def add_dtype(verb: Flags, default: str | None = AUTO_DTYPE, else_: str = AUTO_DTYPE) -> None:
    """Add --dtype."""
    verb.add_argument("--dtype", type=values.one_of(*DTYPE_NAMES), default=default, metavar="DTYPE",
                      help=f"{', '.join(DTYPE_NAMES)}; {AUTO_DTYPE} is what is fastest on this processor "
                           f"(default: {else_})")


def add_prompts(verb: Flags, default: str | list[str] | None, limit: int | None, count: str | None = None) -> None:
    """Add --prompts and --limit; without a default the file has to be named."""
    several = "; several files" if count else ""
    verb.add_argument("--prompts", type=values.name, default=default, required=default is None, nargs=count,
                      metavar="SET", help=f"a shipped set by name, or a file of JSON lines{several}")
    verb.add_argument("--limit", type=values.whole(1, MOST_PROMPTS), default=limit, metavar="N",
                      help=f"use the first so many prompts (default: {limit or 'all'})")


def add_method(verb: Flags) -> None:
    """Add --method."""
    verb.add_argument("--method", type=values.method, default="ddtree", metavar="METHOD",
                      help=f"one of {', '.join(METHODS)} (default: ddtree)")


def add_methods(verb: Flags, default: Sequence[str], more: Sequence[str] = ()) -> None:
    """Add --methods."""
    names = (*METHODS, *more)
    verb.add_argument("--methods", type=values.one_of(*names), nargs="+", default=list(default), metavar="METHOD",
                      help=f"of {', '.join(names)} (default: {' '.join(default) or 'all'})")


def add_budget(verb: Flags) -> None:
    """Add --budget."""
    verb.add_argument("--budget", type=values.budget_or_auto, default=64, metavar="NODES",
                      help=f"drafted nodes per round, or {AUTO} (default: 64)")


def add_budgets(verb: Flags, default: Sequence[int]) -> None:
    """Add --budgets."""
    verb.add_argument("--budgets", type=values.budget, nargs="+", default=list(default), metavar="NODES",
                      help=f"drafted nodes per round (default: {' '.join(map(str, default))})")


def add_budgets_or_auto(verb: Flags, default: Sequence[int | str]) -> None:
    """Add --budgets, one of which may be ``auto``."""
    verb.add_argument("--budgets", type=values.budget_or_auto, nargs="+", default=list(default), metavar="NODES",
                      help=f"drafted nodes per round, or {AUTO} (default: {' '.join(map(str, default))})")


def nodes_and_pace(budget: int | str) -> tuple[int, str]:
    """The budget and the pace of a request, from the value of --budget."""
    return (MOST_AUTO, AUTO) if isinstance(budget, str) else (budget, FIXED)


def add_split(verb: Flags) -> None:
    """Add --split."""
    verb.add_argument("--split", type=values.one_of(*values.SPLITS), default="total", metavar="SPLIT",
                      help=f"what the budget means for merged: {' or '.join(values.SPLITS)} (default: total)")


def add_concurrency(verb: Flags, default: list[int] | None, what: str) -> None:
    """Add --concurrency, and the same by its older name, --together."""
    kind = values.whole(1, MOST_CONCURRENCY)
    verb.add_argument("--concurrency", type=kind, nargs="+", default=default, metavar="N", help=what)
    verb.add_argument("--together", type=kind, nargs="+", dest="concurrency", default=SUPPRESS, help=SUPPRESS)


def add_drafters(verb: Flags, what: str = "drafters by name, in order") -> None:
    """Add --drafters, or by its other name --heads."""
    verb.add_argument("--drafters", "--heads", dest="drafters", type=values.name, nargs="*", default=[], metavar="NAME",
                      help=what)


def add_temperature(verb: Flags) -> None:
    """Add --temperature."""
    verb.add_argument("--temperature", type=values.number(COLDEST, HOTTEST, zero=True), default=0.0, metavar="T",
                      help="0 is greedy (default)")


def add_sampling(verb: Flags) -> None:
    """Add --temperature, --top-k, --top-p and --seed."""
    add_temperature(verb)
    verb.add_argument("--top-k", type=values.whole(0, LARGEST), default=0, metavar="K", help="0 cuts nothing (default)")
    add_top_p(verb)
    add_seed(verb)


def add_top_p(verb: Flags) -> None:
    """Add --top-p."""
    verb.add_argument("--top-p", type=values.top_p, default=1.0, metavar="P", help="1 cuts nothing (default)")


def add_seed(verb: Flags) -> None:
    """Add --seed."""
    verb.add_argument("--seed", type=values.whole(0, LARGEST), default=0, metavar="N", help="of the draws (default: 0)")


def add_max_tokens(verb: Flags, default: int) -> None:
    """Add --max-tokens."""
    verb.add_argument("--max-tokens", type=values.whole(1, MOST_TOKENS), default=default, metavar="N",
                      help=f"where a text ends at the latest (default: {default})")


def add_repeats(verb: Flags, default: int = 3) -> None:
    """Add --repeats."""
    verb.add_argument("--repeats", type=values.whole(1, MOST_REPEATS), default=default, metavar="N",
                      help=f"how often each is measured (default: {default})")


def add_out(verb: Flags, name: str, what: str, default: Path | None = None) -> None:
    """Add a flag for a file to write."""
    verb.add_argument(name, type=values.writable_file, default=default, metavar="FILE", help=what)


def add_json(verb: Flags) -> None:
    """Add --json."""
    verb.add_argument("--json", action="store_true", help="print one JSON object as the last line")
