"""Runs code that a model wrote, in a process of its own that can only compute, and only for a while.

The kernel bounds its time, its memory and the bytes that it writes, and gives it no network if it lets us. Inside,
before the model's code, an audit hook that cannot be removed refuses every other act that Python tells of: sockets,
processes, files outside of Python's own, native libraries. It guards against a model's mistakes and mischief, not
against an attacker who knows a hole in Python or in the kernel: such code belongs on a machine of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import cache

SECONDS_TO_RUN = 10
MEMORY_BYTES = 2**30
OPEN_FILES = 32

INSIDE = f"""
import resource, sys
for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, {MEMORY_BYTES}), (resource.RLIMIT_FSIZE, 0),
                   (resource.RLIMIT_NOFILE, {OPEN_FILES}), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(kind, (most, most))
def refuse():
    allowed = {{"compile", "exec", "import", "marshal.loads", "object.__getattr__", "object.__setattr__",
                "object.__delattr__", "code.__new__", "function.__new__", "sys._getframe", "sys.excepthook",
                "sys.unraisablehook", "builtins.id", "os.listdir", "os.scandir", "time.sleep", "array.__new__"}}
    homes = tuple(path for path in sys.path if path)
    def hook(event, details):
        if event in allowed:
            return
        if event == "open" and isinstance(details[0], str) and details[0].startswith(homes) and (
                ".." not in details[0] and not details[2] & 0o3103):  # only read, and nothing made
            return
        raise PermissionError(event)
    sys.addaudithook(hook)
code = compile(sys.stdin.read(), "answer", "exec")
refuse()
try:
    exec(code, {{"__name__": "answer"}})
except BaseException:
    sys.exit(1)
"""


def runs_to_its_end(code: str, seconds: int = SECONDS_TO_RUN) -> bool:
    """Return whether the code runs to its end within the bounds."""
    words = [*_without_network(), sys.executable, "-I", "-S", "-c", INSIDE.replace("SECONDS", str(seconds))]
    with tempfile.TemporaryDirectory() as empty, subprocess.Popen(
            words, cwd=empty, env={}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True) as process:
        try:
            process.communicate(code.encode("utf8", "replace"), timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
        return process.returncode == 0


@cache
def _without_network() -> tuple[str, ...]:
    """Return the command prefix for a process without network interfaces; empty if the kernel does not allow it."""
    words = ("unshare", "--user", "--net", "--")
    if shutil.which(words[0]) is None:
        return ()
    return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else ()
