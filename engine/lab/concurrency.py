"""What is said of several requests at once."""

from __future__ import annotations

from collections.abc import Sequence

from engine.lab.settings import Setting
from engine.lab.summary import Row, Summary


def curves(summary: Summary) -> tuple[Setting, ...]:
    """The curves of the drafting methods, as ``Setting.curve`` names them."""
    return tuple(dict.fromkeys(row.setting.curve for row in summary.rows if row.setting.drafts))


def concurrency_words(summary: Summary, curve: Setting) -> list[str]:
    """A sentence for each number of requests at once: a curve's fastest budget, and at which budgets drafting pays."""
    sentences = []
    for count in sorted({row.setting.concurrency for row in summary.rows if row.setting.curve == curve}):
        rows = [row for row in summary.at(count).rows if row.setting.curve in (curve, curve.baseline)]
        sentences.append(f"{count} request{'s' if count > 1 else ''} at once: {_verdict(rows)}.")
    return sentences


def _verdict(rows: Sequence[Row]) -> str:
    """What the rows of one number of requests show, plain decoding's among them."""
    drafted = [row for row in rows if row.setting.drafts]
    said = [row for row in drafted if row.speedup]
    if not said:
        return f"speeds are not compared. {drafted[0].withheld}".rstrip(".")
    best = max(rows, key=lambda row: (row.total.median, -row.setting.budget))
    name = f"budget {best.setting.nodes}" if best.setting.drafts else "plain decoding"
    fastest = "the fastest is not said" if best.withheld else f"{name} is fastest"
    paying, losing = (", ".join(row.setting.nodes for row in said if row.speedup and (row.speedup.median >= 1) == pays)
                      for pays in (True, False))
    withheld = ", ".join(row.setting.nodes for row in drafted if row.withheld)
    return "; ".join([fastest, *([f"drafting pays at {paying}"] if paying else []),
                      *([f"plain decoding is faster than {losing}"] if losing else []),
                      *([f"nothing is said of {withheld}"] if withheld else [])])
