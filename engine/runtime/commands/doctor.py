"""`doctor`: why is τ low? Each head, run in every other manner that is easy to get wrong."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.lab.findings import DoctorFinding, worst_first
from engine.prompts import read_prompts
from engine.rig_names import RIGS_FOLDER
from engine.runtime.doctor import diagnose
from engine.runtime.rigs import DTYPES, open_rig

PROMPTS = RIGS_FOLDER / "prompts" / "check.jsonl"


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--rig", default="demo")
    verb.add_argument("--prompts", type=Path, default=PROMPTS, help="what the rig is meant for, as JSON lines")
    verb.add_argument("--limit", type=int, default=4, help="use the first so many prompts")
    verb.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    verb.add_argument("--without-dtype", action="store_true", help="do not load the rig in the other dtype as well")
    verb.add_argument("--json", action="store_true")


def run(choice: argparse.Namespace) -> dict[str, Any]:
    """Examine, print what was found, and return what --json prints."""
    prompts = [prompt.text for prompt in read_prompts(choice.prompts)[:max(1, choice.limit)]]
    rig = open_rig(choice.rig, choice.dtype)
    other = next(name for name in DTYPES if name != choice.dtype)
    found = worst_first(diagnose(rig, prompts, None if choice.without_dtype else open_rig(choice.rig, other)))
    print("\n".join(line(each) for each in found))
    return {"rig": rig.name, "prompts": len(prompts), "dtype": choice.dtype, "findings": [asdict(one) for one in found],
            "counts": dict(Counter(each.status for each in found))}


def line(finding: DoctorFinding) -> str:
    """One finding for people."""
    advice = f"\n{'':34}→ {finding.advice}" if finding.advice else ""
    return f"{finding.status:11}{finding.name:15}{finding.head:8}{finding.seen}{advice}"


def summary(result: dict[str, Any]) -> str:
    """The verdict."""
    return "Verdict: " + ", ".join(f"{count} {status}" for status, count in result["counts"].items()) + "."
