"""One area in this process, within bounds: started by ``tests.attack``, which finds the result in a file."""

import json
import os
import resource
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from tests.attack.area import Area, Plan, attack

GIB = 2**30
MEMORY: Mapping[str, int] = MappingProxyType({  # of address space, most of which libraries map and never touch
    "command_line": 8 * GIB, "checkpoints": 8 * GIB, "traces": 3 * GIB, "http": 4 * GIB, "servers": 3 * GIB,
    "browser": 0})


def area_named(name: str) -> Area:
    """The area of that name; their modules import much, so only the one that is wanted is."""
    made: Area = import_module(f"tests.attack.{name}").opened()
    return made


def main(name: str, seed: int, plan: tuple[int, float], paths: tuple[Path, Path, Path]) -> None:
    """Attack, and leave what came of it in the last of the paths."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if MEMORY[name]:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY[name], MEMORY[name]))
    (cases, seconds), (kept, in_hand, result) = plan, paths
    found = attack(name, area_named(name), Plan(seed, cases, seconds, kept, in_hand))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(each.ru_utime + each.ru_stime for each in used)
    result.write_text(json.dumps({
        "cases": found.cases, "peak_mib": used[0].ru_maxrss / 1024, "cpu_seconds": processor,
        "broke": found.broke, "said": found.said}), "utf8")


if __name__ == "__main__":
    _, chosen, number, count, limit, *places = sys.argv
    main(chosen, int(number), (int(count), float(limit)), (Path(places[0]), Path(places[1]), Path(places[2])))
    sys.stderr.flush()
    os._exit(0)  # whatever threads a case left do not hold it up
