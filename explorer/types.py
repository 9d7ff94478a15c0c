"""TypeScript types of what the server sends, read off the records' type hints: ``python -m explorer.types`` writes
``assets/types.d.ts``, which a test compares."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from engine.decoding.methods import METHODS
from engine.decoding.options import HINTS
from engine.lab.findings import DoctorFinding
from explorer.budgets import BudgetForecast
from explorer.jobs import JobView
from explorer.lab.acceptance import AcceptanceView
from explorer.lab.attached_server import CountersView, ServerSpeed
from explorer.lab.lab import LabConcurrency, LabCurves, LabSetup, PredictionResult
from explorer.lab.prediction import MachinePrediction
from explorer.lab.race import RaceView
from explorer.lab.style import style_of
from explorer.lab.sweeps import SweepProgress
from explorer.lines import StreamLine
from explorer.recordings import RecordingSummary
from explorer.rig_choice import RigState
from explorer.run_form import VettedPrompt
from explorer.two_runs import TwoRuns

FILE = Path(__file__).resolve().parent.parent / "assets" / "types.d.ts"
METHODS_FILE = FILE.with_name("methods.js")
Options = TypedDict("Options", {name: hint for name, (hint, _) in HINTS.items()}, total=False)  # type: ignore[misc]
Options.__doc__ = "The options of a run, as a program names them; what is left out has its default."
UNIONS: Mapping[str, Any] = {"StreamLine": StreamLine}
RECORDS: Sequence[Any] = (  # and all that these and the unions are made of
    Options, RigState, JobView, VettedPrompt, RecordingSummary, BudgetForecast, TwoRuns, LabSetup, LabCurves,
    LabConcurrency, SweepProgress, AcceptanceView, MachinePrediction, PredictionResult, RaceView, DoctorFinding,
    CountersView, ServerSpeed)
BASIC: Mapping[Any, str] = {
    str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null", Any: "unknown"}
BEGINNING = """\
// Written by `make types` from the records of engine/ and explorer/. Change those.

/** An array: little-endian numbers of that dtype in base64. */
export interface Packed<Dtype extends "<i4" | "<f4"> {
  dtype: Dtype;
  shape: number[];
  data: string;
}
"""


class Writer:
    """Writes each record once, those that it is made of after it."""

    def __init__(self) -> None:
        self._records: list[Any] = list(RECORDS)

    def text(self) -> str:
        unions = [f"export type {name} = {self.type_of(hint)};\n" for name, hint in UNIONS.items()]
        return "\n".join([BEGINNING, *unions, *self._interfaces()])

    def type_of(self, hint: Any) -> str:
        """Return the TypeScript type of a Python hint, as JSON encodes its values; TypeError if it has none."""
        origin, args = get_origin(hint), get_args(hint)
        if hint in BASIC:
            return BASIC[hint]
        if origin in (Union, UnionType):
            return " | ".join(map(self.type_of, args))
        if origin is Literal:
            return " | ".join(f'"{word}"' for word in args)
        if origin is np.ndarray:
            return f'Packed<"{np.dtype(get_args(args[1])[0]).str}">'
        if origin is tuple and args[-1] is not ...:
            return f"[{', '.join(map(self.type_of, args))}]"
        if origin in (tuple, list, frozenset, Sequence):
            item = self.type_of(args[0])
            return f"({item})[]" if " | " in item else f"{item}[]"
        if origin in (dict, Mapping):
            return f"Record<string, {self.type_of(args[1])}>"
        if is_dataclass(hint) or is_typeddict(hint):
            if hint not in self._records:
                self._records.append(hint)
            return str(hint.__name__)
        raise TypeError(f"{hint} has no TypeScript type.")

    def _interfaces(self) -> Iterator[str]:
        for record in self._records:  # grows meanwhile
            about = re.split(r"(?<=\.)\s|\n\n", inspect.getdoc(record) or "", maxsplit=1)[0]
            yield f"/** {' '.join(about.split())} */\nexport interface {record.__name__} {{\n"\
                  + "".join(f"  {member};\n" for member in self._members(record)) + "}\n"

    def _members(self, record: Any) -> Iterator[str]:
        hints = get_type_hints(record)
        if is_dataclass(record):
            optional = {field.name for field in fields(record) if "optional" in field.metadata}
            hints = {field.name: hints[field.name] for field in fields(record)}
        else:
            optional = record.__optional_keys__
        for name, hint in hints.items():
            yield f"{name}{'?' * (name in optional)}: {self.type_of(hint)}"


def methods_module() -> str:
    """Return what the browser knows of each method: its summary, whether it drafts and splits its budget, how it
    looks."""
    facts = {name: {"summary": method.summary, "drafts": method.drafter_count > 0, "splits": len(method.splits) > 1,
                    "color": style_of(name).color, "symbol": style_of(name).symbol} for name, method in METHODS.items()}
    rows = "".join(f"  {name}: {json.dumps(row, ensure_ascii=False)},\n" for name, row in facts.items())
    return f'''\
// Written by `make types` from METHODS (engine/decoding/methods.py) and looks (explorer/lab/style.py). Change those.

/** @type {{Record<string, {{ summary: string, drafts: boolean, splits: boolean, color: string, symbol: string }}>}} */
export const METHODS = {{
{rows}}};
'''


if __name__ == "__main__":
    FILE.write_text(Writer().text(), encoding="utf8")
    METHODS_FILE.write_text(methods_module(), encoding="utf8")
