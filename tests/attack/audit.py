"""Known vulnerabilities of the locked packages: ``python -m tests.attack.audit PIP_AUDIT LOCK``.

The exit status is 1 if one is known. If the service cannot be reached, that is printed and the tests go on."""

import json
import subprocess
import sys


def main(program: str, lock: str) -> int:
    """Run pip-audit on the lock without resolving versions anew, and print what it finds."""
    words = [program, "-r", lock, "--no-deps", "--disable-pip", "--require-hashes", "--progress-spinner", "off",
             "--format", "json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        print(f"NOT CHECKED for known holes: the service cannot be asked from here ({type(error).__name__}).")
        return 0
    known = [package for package in packages if "vulns" in package]
    holes = [f"{package['name']} {package['version']}: {hole['id']}, mended in "
             f"{', '.join(hole['fix_versions']) or 'none'}" for package in known for hole in package["vulns"]]
    if not known:
        print(f"NOT CHECKED for known holes: the service knows none of the {len(packages)} packages.")
    else:
        print(*holes or [f"No hole is known in {len(known)} of the {len(packages)} locked packages."], sep="\n")
    return int(bool(holes))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
