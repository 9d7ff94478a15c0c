"""Records the shipped lessons: runs of a rig, with a title and a note on what they teach.

    python -m engine record --rig demo
    python -m engine record --rig smollm2 --dtype float32

A lesson is a row of the JSON file: name, title, note, and the fields of an ask, all checked. Each is run twice and the
second run is kept, so that no recording shows the slow first use of cold memory.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.errors import RequestError
from engine.machine.files import open_file
from engine.records import Ask, Sampling
from engine.requests.rig_names import RIGS_FOLDER
from engine.serving.live import LiveRig, open_rig
from engine.trace import Trace, dump, gather, recorded, tau

TEXTS = ("name", "title", "note", "prompt")
NUMBERS: Mapping[str, type | tuple[type, ...]] = {
    "budget": int, "max_tokens": int, "temperature": (int, float), "top_k": int, "top_p": (int, float), "seed": int}
WORDS = ("method", "split")
OF_THE_ASK = ("prompt", "method", "budget", "max_tokens", "split")
OF_THE_SAMPLING = ("temperature", "top_k", "top_p", "seed")
FILE_NAME = re.compile(r"[\w-]{1,100}")


@dataclass(frozen=True)
class LessonPlan:
    """A run to record; ``name`` is the name of its file."""

    name: str
    title: str
    note: str
    ask: Ask


def read_lessons(path: Path) -> list[LessonPlan]:
    """The lessons of a file; RequestError names the row and the field that is wrong."""
    try:
        with open_file(path) as file:
            rows = json.loads(file.read().decode("utf8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{path.name} is not a JSON file of lessons ({str(error)[:120]}).") from error
    if not isinstance(rows, list) or not rows:
        raise RequestError(f"{path.name} holds {str(rows)[:40]}; it has to be a list of lessons.")
    return [lesson_of(row, f"Lesson {number} of {path.name}") for number, row in enumerate(rows, 1)]


def lesson_of(row: Any, place: str) -> LessonPlan:
    """The lesson of one row; RequestError says what is wrong with it."""
    if not isinstance(row, dict):
        raise RequestError(f"{place} is {str(row)[:40]!r}; it has to be an object.")
    _check_kinds(row, place)
    if not FILE_NAME.fullmatch(row["name"]):
        raise RequestError(f"{place} has the name {row['name'][:60]!r}; it has to be letters, digits, _ and - only.")
    sampling = Sampling(**{name: row[name] for name in OF_THE_SAMPLING if name in row})
    asked = {name: row[name] for name in OF_THE_ASK if name in row}
    return LessonPlan(row["name"], row["title"], row["note"], Ask(
        **asked, sampling=sampling, drafters=tuple(row.get("heads", ()))))


def _check_kinds(row: Mapping[str, Any], place: str) -> None:
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        **{name: (str, "a text") for name in (*TEXTS, *(word for word in WORDS if word in row))},
        **{name: (kind, "a number") for name, kind in NUMBERS.items() if name in row}}
    for name, (kind, wanted) in kinds.items():
        value = row.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RequestError(f"{place} has {str(value)[:40]!r} under {name!r}; it has to be {wanted}.")
    drafters = row.get("heads", [])
    if not isinstance(drafters, list) or not all(isinstance(drafter, str) for drafter in drafters):
        raise RequestError(f"{place} has {str(drafters)[:40]!r} under 'heads'; it has to be a list of names.")


TRACES = RIGS_FOLDER / "traces"


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    verb.add_argument("--lessons", type=values.readable_file, metavar="FILE",
                      help="what to record (default: the rig's own, assets/traces/lessons-RIG.json, else lessons.json)")
    verb.add_argument("--out", type=values.folder, default=TRACES, metavar="FOLDER", help="where the traces go")
    flags.add_json(verb)


def lessons_of(rig: str) -> Path:
    """The file of the lessons to record on a rig."""
    path = TRACES / f"lessons-{Path(rig).name}.json"
    return path if path.is_file() else TRACES / "lessons.json"


def record(live: LiveRig, lesson: LessonPlan, today: str) -> Trace:
    """The lesson's run, the second of two."""
    gather(live.run(lesson.ask))
    return recorded(gather(live.run(lesson.ask)), lesson.title, lesson.note, today)


def run(choice: argparse.Namespace) -> Result:
    """Record every lesson, and print its result."""
    lessons = read_lessons(choice.lessons or lessons_of(choice.rig))
    live, today, recorded_lessons = open_rig(choice.rig, choice.dtype), date.today().isoformat(), []
    for lesson in lessons:
        trace = record(live, lesson, today)
        rounds = [entry.round for entry in trace.entries]
        dump(trace, choice.out / f"{lesson.name}.jsonl.gz")
        row = {"name": lesson.name, "method": lesson.ask.method, "tau": round(tau(rounds), 4), "rounds": len(rounds),
               "end": trace.end.reason}
        print(f"{row['name']:18} {row['method']:15} τ {tau(rounds):5.2f} {row['rounds']:3} rounds {row['end']}")
        recorded_lessons.append(row)
    return {"lessons": recorded_lessons}


def summary(result: Result) -> str:
    """The sentence that says how many lessons were recorded."""
    return f"{len(result['lessons'])} lessons recorded."


VERB = Verb(__doc__, add, run, summary)
