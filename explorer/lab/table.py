"""A sweep's table: its rows, the recommended setting, and how sure that is, in a sentence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict

from engine.decoding.methods import METHODS
from engine.lab.against_plain import unsteady
from engine.lab.settings import Setting
from engine.lab.speed import FASTER, SpeedRecord
from engine.lab.statistics import Estimate
from engine.lab.summary import Row, Summary
from explorer.lab.style import label_of, range_text

NEAR_FASTEST = 0.95  # settings with at least this fraction of the best median are listed
MAX_NAMED = 2


class TableRow(TypedDict):
    """A setting and what was measured of it, see ``summary.Row``: ``total`` are the tokens/s of all requests together,
    ``record`` is what is printed of them. ``modelled`` is the break-even by the cost of a pass, if that is known."""

    method: str
    budget: int
    nodes: str
    split: str
    pace: str
    concurrency: int
    label: str
    line: str
    lossless: bool
    fastest: bool
    runs: int
    failed: int
    same_text: int
    compared: int
    repeating: int
    tau: Estimate
    total: Estimate
    speedup: Estimate | None
    break_even: Estimate | None
    modelled: float | None
    record: SpeedRecord


class TableView(TypedDict):
    """The table for one concurrency, fastest first, withheld rows last. ``best``: the lossless row with the most
    tokens/s over all requests. ``rivals``: the settings that ``remark`` only counts. ``outcome``: see ``outcome``."""

    rows: list[TableRow]
    best: TableRow | None
    remark: str
    rivals: list[str]
    outcome: str


def table_view(summary: Summary, modelled: Mapping[Setting, float] = MappingProxyType({})) -> TableView:
    """Return the table. ``modelled``: break-evens by the cost of a pass. A best row is not marked as the fastest if its
    speed-up is withheld."""
    best = summary.best
    near, _ = rivals(summary)
    return {"rows": [row_view(row, row is best, modelled.get(row.setting)) for row in _fastest_first(summary.rows)],
            "best": row_view(best, fastest=True) if best else None, "remark": remark(summary),
            "rivals": near if len(near) > MAX_NAMED else [], "outcome": outcome(best)}


def row_view(row: Row, fastest: bool = False, modelled: float | None = None) -> TableRow:
    """Return a row for the page; ``fastest`` marks it, unless its speed-up is withheld."""
    setting = row.setting
    return {
        "method": setting.method, "budget": setting.budget, "nodes": setting.budget_label, "split": setting.split,
        "pace": setting.pace, "concurrency": setting.concurrency, "label": label_of(setting),
        "line": setting.curve_label,
        "lossless": METHODS[setting.method].lossless, "fastest": fastest and not row.withheld, "runs": row.runs,
        "failed": row.failed,
        "same_text": row.same_text, "compared": row.compared, "repeating": row.repeating, "tau": row.tau,
        "total": row.total, "speedup": row.speedup, "break_even": row.break_even, "modelled": modelled,
        "record": row.record}


def outcome(best: Row | None) -> str:
    """Return how the fastest setting compares with plain decoding: ``plain`` if it is that, ``withheld`` if its
    speed-up is, ``few`` if too few prompts give no interval, ``unclear`` if the interval contains 1, else ``faster``;
    empty without a row."""
    if best is None:
        return ""
    if not best.setting.drafts:
        return "plain"
    if best.withheld or best.speedup is None:
        return "withheld" if best.withheld else ""
    return {"": "few", FASTER: FASTER}.get(best.record.outcome, "unclear")


def remark(summary: Summary) -> str:
    """Return how clear the lead of the fastest setting is, in sentences, with the settings that come close and what
    else the figures hold."""
    best = summary.best
    if best is None:
        return ""
    prompts = best.total.prompts
    words = [f"Over {prompts} prompt{'s' if prompts > 1 else ''}{_lead(summary, best)}"]
    plain = next((row.total for row in summary.rows if row.setting == row.setting.baseline), None)
    if plain and unsteady(plain):
        words.append(f"Plain decoding alone ran at {range_text(plain, 0)} tokens/s, so other programs "
                     "were using this machine, and no speed-up is said: measure again when it is quiet.")
    elif best.withheld:
        words.insert(1, best.withheld)
    if repeating := sum(row.repeating for row in summary.rows):
        words.append(f"In {repeating} of {sum(row.runs for row in summary.rows)} runs the text repeats itself, which "
                     "every drafter guesses right; these figures count it.")
    return " ".join(words)


def _lead(summary: Summary, best: Row) -> str:
    if best.total.low is None:
        return "; six or more give 95 % intervals."
    if outcome(best) == "plain":
        return " no drafter paid on this machine."
    if outcome(best) == "unclear" and best.speedup:
        return (f" its speed-up lies between {best.speedup.low:.2f}× and {best.speedup.high:.2f}×, so it may be no "
                "speed-up at all; more prompts would tell.")
    near, how = rivals(summary)
    if len(near) > MAX_NAMED:
        return f"; {len(near)} other settings are {how}."
    return f"; {how}: {'; '.join(near)}." if near else f"; {how}."


def rivals(summary: Summary) -> tuple[list[str], str]:
    """Return the settings that may be as fast as the fastest, and in words how near they are."""
    best = summary.best
    if best is None or best.total.low is None:
        return [], ""
    others = [row for row in _fastest_first(summary.rows)
              if row is not best and METHODS[row.setting.method].lossless]
    if overlapping := [row for row in others if row.total.span[1] >= best.total.low]:
        return [label_of(row.setting) for row in overlapping], "as fast within the 95 % intervals"
    near = [row for row in others if row.total.median >= NEAR_FASTEST * best.total.median]
    return [label_of(row.setting) for row in near], "within 5 % of it" if near else "no other setting comes within 5 %"


def _fastest_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (bool(row.withheld), -row.total.median))
