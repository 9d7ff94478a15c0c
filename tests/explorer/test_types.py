"""The TypeScript types of what the server sends match the records, and what is sent matches the types."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.trace import Block, SharedPass, encode_line, encode_record
from explorer.claims import recorded_comparison
from explorer.types import FILE, METHODS_FILE, Writer, methods_module
from tests.engine.test_trace import toy_trace
from tests.explorer.lab.test_tools import RACE
from tests.explorer.scripted_lab import measured_lab, wait_for_job
from tests.house.reading import HOUSE

TSC = HOUSE / "node_modules" / ".bin" / "tsc"


NEEDS_NODE = pytest.mark.skipif(not TSC.exists() or not shutil.which("node"), reason="needs Node.js and `npm ci`")


def problems(values: list[tuple[str, Any]], folder: Path) -> str:
    """Return TypeScript's errors about these values, each checked against the type of that name."""
    shutil.copy(FILE, folder / "types.d.ts")
    code = [f"const value{number}: types.{kind} = {json.dumps(value)};" for number, (kind, value) in enumerate(values)]
    (folder / "values.ts").write_text("\n".join(['import type * as types from "./types.js";', *code]), "utf8")
    checked = subprocess.run([TSC, "--strict", "--noEmit", "--module", "nodenext", "values.ts"], cwd=folder,
                             capture_output=True, text=True, check=False, timeout=120)
    return checked.stdout


def test_the_types_match_the_records() -> None:
    assert FILE.read_text("utf8") == Writer().text(), "run `make types`"
    assert METHODS_FILE.read_text("utf8") == methods_module(), "run `make types`"


@NEEDS_NODE
def test_every_line_has_its_type(tmp_path: Path) -> None:
    trace = toy_trace("nanogpt", most=6)
    tree = trace.entries[0].round.tree
    shared_pass = SharedPass(2, 0, (Block(0, tree.parents, tree.parents[:1]), Block(1, tree.parents, tree.parents[:1])))
    shared = {**encode_line(trace.entries[0]), "shared": encode_record(shared_pass)}
    lines = [("HeaderLine", encode_line(trace.header)), ("EndLine", encode_line(trace.end)), ("Entry", shared),
             ("PlainComparison", encode_record(recorded_comparison(trace, trace))),
             *(("Entry", encode_line(entry)) for entry in trace.entries)]
    assert problems(lines, tmp_path) == ""
    renamed = encode_line(trace.entries[0])
    renamed["round"]["begin"] = renamed["round"].pop("start")
    assert "begin" in problems([("Entry", renamed)], tmp_path)


@NEEDS_NODE
@pytest.mark.slow
def test_the_answers_of_the_lab_have_their_types(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path)
    race = wait_for_job(lab, lab.race(RACE))["result"]
    replayed = wait_for_job(lab, lab.what_if({"run": "r"}))["result"]
    answers = [("LabSetup", lab.setup()), ("LabCurves", lab.curves({"what_if": "r"})),
               ("LabConcurrency", lab.concurrency({})), ("SweepProgress", lab.progress({})),
               ("AcceptanceView", lab.acceptance({"run": "r"})),
               ("MachinePrediction", lab.predict_on_machine({"run": "r"})),
               ("RaceView", race), ("PredictionResult", replayed), ("JobView", wait_for_job(lab, lab.doctor({})))]
    assert problems(answers, tmp_path) == ""
