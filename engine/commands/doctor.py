"""Why is τ low? Runs each drafter in the ways that are easily got wrong, and reports which does better.

    python -m engine doctor --rig TARGET::DRAFTER --prompts FILE.jsonl
"""

import argparse
from collections import Counter
from dataclasses import asdict

from engine import open_rig
from engine.commands import Outcome
from engine.commands.flags import add_flags
from engine.lab.findings import worst_first
from engine.lab.settings import prompt_set
from engine.measure.doctor import diagnose
from engine.serving.precision import DTYPES


def add(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, "--rig", "--dtype")
    add_flags(parser, "--prompts", default="check")
    add_flags(parser, "--limit", default=4)
    parser.add_argument("--without-dtype", action="store_true", help="do not load the rig in the other dtype as well")


def run(args: argparse.Namespace) -> Outcome:
    prompts = [prompt.text for prompt in prompt_set(args.prompts, args.limit)]
    rig = open_rig(args.rig, args.dtype)
    other = next(name for name in DTYPES if name != rig.target.dtype)
    findings = worst_first(diagnose(rig, prompts, None if args.without_dtype else open_rig(args.rig, other)))
    counts = Counter(finding.status for finding in findings)
    lines = [f"{finding.status:11}{finding.name:15}{finding.drafter:8}{finding.seen}" + (
        f"\n{'':34}→ {finding.advice}" if finding.advice else "") for finding in findings]
    verdict = "Verdict: " + ", ".join(f"{count} {status}" for status, count in counts.items()) + "."
    return Outcome({"rig": rig.name, "prompts": len(prompts), "dtype": rig.target.dtype,
                    "findings": [asdict(finding) for finding in findings], "counts": dict(counts)},
                   "\n".join([*lines, verdict]))
