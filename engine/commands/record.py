"""Records the shipped lessons: runs of a rig, with a title and a note on what they teach.

    python -m engine record --rig demo
    python -m engine record --rig smollm2 --dtype float32

A lesson is a row of the JSON file: name, title, note, and the fields of an ask, all checked. Each is run twice and the
second run is kept, so that no recording shows the slow first use of cold memory. Where plain decoding of a lesson's
prompt is a lesson too, both get the seconds of a third run, made in turns: what is compared has met the same machine.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from tqdm import tqdm

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.turns import TurnTaking, moments
from engine.machine.files import open_file
from engine.records import PromptRequest, Round, Sampling
from engine.requests.rig_names import RIGS_FOLDER
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
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
    ask: PromptRequest


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
    return LessonPlan(row["name"], row["title"], row["note"], PromptRequest(
        **asked, sampling=sampling, drafters=tuple(row.get("drafters", ()))))


def _check_kinds(row: Mapping[str, Any], place: str) -> None:
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        **{name: (str, "a text") for name in (*TEXTS, *(word for word in WORDS if word in row))},
        **{name: (kind, "a number") for name, kind in NUMBERS.items() if name in row}}
    for name, (kind, wanted) in kinds.items():
        value = row.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RequestError(f"{place} has {str(value)[:40]!r} under {name!r}; it has to be {wanted}.")
    drafters = row.get("drafters", [])
    if not isinstance(drafters, list) or not all(isinstance(drafter, str) for drafter in drafters):
        raise RequestError(f"{place} has {str(drafters)[:40]!r} under 'drafters'; it has to be a list of names.")


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


def record(live: Rig, lesson: LessonPlan, today: str) -> Trace:
    """The lesson's run, the second of two."""
    gather(live.run(lesson.ask))
    return recorded(gather(live.run(lesson.ask)), lesson.title, lesson.note, today)


def pairs(lessons: Sequence[LessonPlan]) -> Iterator[tuple[LessonPlan, LessonPlan]]:
    """Each lesson of plain decoding behind the first that drafts for the same prompt."""
    for plain in lessons:
        same = replace(plain.ask, method="", budget=0)
        drafting = (lesson for lesson in lessons if METHODS[lesson.ask.method].drafter_count != 0
                    and replace(lesson.ask, method="", budget=0, drafters=()) == same)
        if METHODS[plain.ask.method].drafter_count == 0 and (first := next(drafting, None)):
            yield first, plain


def timed_in_turns(live: Rig, traces: Sequence[Trace], lessons: Sequence[LessonPlan]) -> list[Trace]:
    """The traces of a lesson and of plain decoding, with the seconds of runs that were made in turns."""
    with live.in_turns([lesson.ask for lesson in lessons]) as sources:
        taking = TurnTaking(*sources)
        while taking.turn():
            pass
    return [_timed(trace, rounds) for trace, rounds in zip(traces, (taking.rounds, taking.plain), strict=True)]


def _timed(trace: Trace, rounds: Sequence[Round]) -> Trace:
    first, (_, clock) = trace.entries[0], moments(rounds)
    prefill = max(0.0, first.elapsed_seconds - sum(first.round.seconds.values()))
    entries = tuple(
        replace(entry, round=replace(entry.round, seconds=round_.seconds), elapsed_seconds=prefill + spent)
        for entry, round_, spent in zip(trace.entries, rounds, clock, strict=True))
    return replace(trace, header=replace(trace.header, in_turns=True), entries=entries,
                   end=replace(trace.end, seconds=entries[-1].elapsed_seconds))


def run(choice: argparse.Namespace) -> Result:
    """Record every lesson, and print its result."""
    lessons = read_lessons(choice.lessons or lessons_of(choice.rig))
    live, today = load_rig(choice.rig, choice.dtype), date.today().isoformat()
    traces = {lesson.name: record(live, lesson, today) for lesson in tqdm(lessons, unit="lesson")}
    for pair in pairs(lessons):
        names = [lesson.name for lesson in pair]
        traces |= zip(names, timed_in_turns(live, [traces[name] for name in names], pair), strict=True)
    rows = []
    for name, trace in traces.items():
        dump(trace, choice.out / f"{name}.jsonl.gz")
        rounds = [entry.round for entry in trace.entries]
        row = {"name": name, "method": trace.header.request.method, "tau": round(tau(rounds), 4),
               "rounds": len(rounds), "end": trace.end.reason}
        print(f"{row['name']:18} {row['method']:15} τ {tau(rounds):5.2f} {row['rounds']:3} rounds {row['end']}")
        rows.append(row)
    return {"lessons": rows}


def summary(result: Result) -> str:
    """The sentence that says how many lessons were recorded."""
    return f"{len(result['lessons'])} lessons recorded."


VERB = Verb(__doc__, add, run, summary)
