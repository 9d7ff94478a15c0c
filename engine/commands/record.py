"""Records the shipped lessons: runs of a rig, with a title and a note on what they teach.

    python -m engine record --rig demo
    python -m engine record --rig smollm2 --dtype float32

A lesson is a row of the JSON file: name, title, note, and the fields of an ask. Each is run twice and the second run is
kept, so that no recording shows the slow first use of cold memory.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from engine.commands import flags, values
from engine.commands.lessons import LessonPlan, read_lessons
from engine.commands.verb import Result, Verb
from engine.requests.rig_names import RIGS_FOLDER
from engine.serving.live import LiveRig, open_rig
from engine.trace import Trace, dump, gather, recorded, tau

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
    own = TRACES / f"lessons-{Path(rig).name}.json"
    return own if own.is_file() else TRACES / "lessons.json"


def record(live: LiveRig, lesson: LessonPlan, today: str) -> Trace:
    """The lesson's run, the second of two."""
    gather(live.run(lesson.ask))
    return recorded(gather(live.run(lesson.ask)), lesson.title, lesson.note, today)


def run(choice: argparse.Namespace) -> Result:
    """Record every lesson, and print its result."""
    lessons = read_lessons(choice.lessons or lessons_of(choice.rig))
    live, today, found = open_rig(choice.rig, choice.dtype), date.today().isoformat(), []
    for lesson in lessons:
        trace = record(live, lesson, today)
        rounds = [entry.round for entry in trace.entries]
        dump(trace, choice.out / f"{lesson.name}.jsonl.gz")
        row = {"name": lesson.name, "method": lesson.ask.method, "tau": round(tau(rounds), 4), "rounds": len(rounds),
               "end": trace.end.reason}
        print(f"{row['name']:18} {row['method']:15} τ {tau(rounds):5.2f} {row['rounds']:3} rounds {row['end']}")
        found.append(row)
    return {"lessons": found}


def summary(result: Result) -> str:
    """The sentence that says how many lessons were recorded."""
    return f"{len(result['lessons'])} lessons recorded."


VERB = Verb(__doc__, add, run, summary)
