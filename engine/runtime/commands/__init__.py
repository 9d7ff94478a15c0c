"""The verbs of `python -m engine`: each adds its flags, runs, and says below its output what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.runtime.commands import doctor, generate, pace, whatif


@dataclass(frozen=True)
class Command:
    """A verb: its flags, what it does (CanopyError when it cannot), and a line for people about the result."""

    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    summary: Callable[[dict[str, Any]], str]


COMMANDS: Mapping[str, Command] = MappingProxyType({
    "generate": Command("answer one prompt", generate.add, generate.run, generate.summary),
    "whatif": Command("τ of every method at every budget from one run", whatif.add, whatif.run, whatif.summary),
    "doctor": Command("why is τ low? checks of every head", doctor.add, doctor.run, doctor.summary),
    "pace": Command("budget=auto against every fixed budget, and predicted against measured speed", pace.add, pace.run,
                    pace.summary),
})
