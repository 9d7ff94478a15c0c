"""Known holes in what is locked: ``python -m tests.attack.audit PIP_AUDIT LOCK``.

Exit status 0 if nothing is known against any package. Where the service cannot be asked, or does not know the
packages, one sentence says so: nothing was checked, which is no success, and the tests go on.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SECONDS = 180
NOT_CHECKED = "NOT CHECKED for known holes"


def asked(program: str, lock: str) -> subprocess.CompletedProcess[str]:
    """pip-audit over the lock, without resolving anything anew."""
    words = [program, "-r", lock, "--no-deps", "--disable-pip", "--require-hashes", "--progress-spinner", "off",
             "--format", "json"]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)


def verdict(report: str, status: int) -> tuple[int, str]:
    """The exit status, and the sentence or sentences for people."""
    try:
        packages: Sequence[Mapping[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 0, f"{NOT_CHECKED}: the service cannot be asked from here (pip-audit ended with {status})."
    known = [package for package in packages if "vulns" in package]
    holes = [f"{package['name']} {package['version']}: {hole['id']}, mended in "
             f"{', '.join(hole['fix_versions']) or 'none'}" for package in known for hole in package["vulns"]]
    if holes:
        return 1, "\n".join(holes)
    if not known:
        return 0, f"{NOT_CHECKED}: the service knows none of the {len(packages)} packages."
    left = f", {len(packages) - len(known)} of which it did not know" if len(known) < len(packages) else ""
    return 0, f"No hole is known in the {len(packages)} locked packages{left}."


def main(program: str, lock: str) -> int:
    """Ask, and say what came of it."""
    try:
        done = asked(program, lock)
        status, report = verdict(done.stdout, done.returncode)
    except (OSError, subprocess.TimeoutExpired) as error:
        status, report = 0, f"{NOT_CHECKED}: the service cannot be asked from here ({type(error).__name__})."
    print(report)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
