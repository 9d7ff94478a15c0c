"""Conclusions from measuring several requests at once: the best budget for each number, and where plain decoding is
faster."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.summary import Row, Summary


def under_load(summary: Summary) -> bool:
    """Whether anything was measured with several requests at once."""
    return any(row.setting.together > 1 for row in summary.rows)


def curves(summary: Summary) -> tuple[Setting, ...]:
    """The curves of the drafting methods, as ``Setting.curve`` names them."""
    return tuple(dict.fromkeys(row.setting.curve for row in summary.rows if METHODS[row.setting.method].drafter_count))


def of_curve(summary: Summary, curve: Setting) -> tuple[Row, ...]:
    """The rows of one curve."""
    return tuple(row for row in summary.rows if row.setting.curve == curve)


def ridge(rows: Sequence[Row]) -> dict[int, Row]:
    """For each number of requests at once, ascending, the row with the largest median total tokens/s."""
    def count(row: Row) -> int:
        return row.setting.together
    return {together: max(members, key=lambda row: (row.total.median, -row.setting.budget))
            for together, members in groupby(sorted(rows, key=count), key=count)}


def load_words(summary: Summary, curve: Setting) -> list[str]:
    """Sentences about a curve, by its medians: the ridge, and where plain decoding is faster."""
    rows = of_curve(summary, curve)
    measured = {row.setting.together for row in rows}
    plain = [row for row in of_curve(summary, curve.baseline) if row.setting.together in measured]
    found = [f"{_named(row)} for {together}" for together, row in ridge([*plain, *rows]).items()]
    best = f"The best budget of {curve.label}, by requests at once: {', '.join(found)}." if found else ""
    return [sentence for sentence in (best, *plain_words(rows)) if sentence]


def _named(row: Row) -> str:
    return row.setting.nodes if METHODS[row.setting.method].drafter_count else "none (plain decoding)"


def plain_words(rows: Sequence[Row]) -> list[str]:
    """Sentences on where plain decoding is faster, from few requests at once to many; neighbouring numbers with the
    same result share one."""
    said: dict[int, str] = {}
    for count in sorted({row.setting.together for row in rows}):
        fixed = sorted((row.setting.budget, row.speedup.median) for row in rows
                       if row.speedup and row.setting.pace == FIXED and row.setting.together == count)
        if fixed:
            said[count] = _where([budget for budget, _ in fixed], [budget for budget, faster in fixed if faster < 1])
    groups = [(words, [count for count, _ in members])
              for words, members in groupby(said.items(), key=lambda item: item[1])]
    return [f"{_span(counts, len(groups) > 1 and counts[-1] == max(said))} {words}." for words, counts in groups]


def _where(budgets: Sequence[int], losing: Sequence[int]) -> str:
    """At which of the ascending budgets plain decoding is faster."""
    if not losing:
        return "drafting pays at every budget measured"
    if len(losing) == len(budgets):
        return "plain decoding is faster at every budget measured"
    winning = [budget for budget in budgets if budget not in losing]
    if winning[-1] < losing[0]:
        return f"plain decoding is faster at budgets above {winning[-1]}"
    if losing[-1] < winning[0]:
        return f"plain decoding is faster at budgets below {winning[0]}"
    named = "budgets" if len(losing) > 1 else "budget"
    return f"plain decoding is faster at the {named} {', '.join(map(str, losing))}"


def _span(counts: Sequence[int], last: bool) -> str:
    """A range of numbers of requests at once, in words; ``last`` where it is open-ended."""
    first, end = counts[0], counts[-1]
    if last and first > 1:
        return f"From {first} requests on"
    if first == end:
        return f"With {first} request{'s' if first > 1 else ''} at once"
    return f"With {first} to {end} requests at once"
