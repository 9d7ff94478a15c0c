"""Why is τ low? Runs each drafter in the ways that are easily got wrong, and reports which does better.

    python -m engine doctor --rig TARGET::DRAFTER --prompts FILE.jsonl
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict

from engine.commands import flags
from engine.commands.flags import Result, Verb
from engine.lab.findings import DoctorFinding, worst_first
from engine.lab.planning import prompt_set
from engine.measure.doctor import diagnose
from engine.serving.precision import DTYPES
from engine.serving.rigs import load_rig


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    flags.add_prompts(verb, "check", 4)
    verb.add_argument("--without-dtype", action="store_true", help="do not load the rig in the other dtype as well")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Examine the rig, print the findings, and return what --json prints."""
    prompts = [prompt.text for prompt in prompt_set(choice.prompts, choice.limit)]
    rig = load_rig(choice.rig, choice.dtype)
    other = next(name for name in DTYPES if name != rig.target.dtype)
    findings = worst_first(diagnose(rig, prompts, None if choice.without_dtype else load_rig(choice.rig, other)))
    print("\n".join(line(finding) for finding in findings))
    return {"rig": rig.name, "prompts": len(prompts), "dtype": rig.target.dtype,
            "findings": [asdict(finding) for finding in findings],
            "counts": dict(Counter(finding.status for finding in findings))}


def line(finding: DoctorFinding) -> str:
    """A finding as a line to read."""
    advice = f"\n{'':34}→ {finding.advice}" if finding.advice else ""
    return f"{finding.status:11}{finding.name:15}{finding.drafter:8}{finding.seen}{advice}"


def summary(result: Result) -> str:
    """The verdict."""
    return "Verdict: " + ", ".join(f"{count} {status}" for status, count in result["counts"].items()) + "."


VERB = Verb(__doc__, add, run, summary)
