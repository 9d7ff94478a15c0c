"""A vLLM of its own environment, serving the demo target with one of its DFlash drafters on the CPU."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.browser.conftest import ROOT, free_port

VLLM = Path(os.environ.get("CANOPY_VLLM", Path.home() / ".cache" / "canopy" / "venv-vllm"))
START_SECONDS = 600
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
         "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
DRAFTS = {"method": "dflash", "model": "assets/demo/math", "num_speculative_tokens": 15}
FLAGS = ("--host", "127.0.0.1", "--served-model-name", "demo", "--dtype", "float32", "--max-model-len", "512",
         "--enforce-eager", "--per-request-spec-decode-metrics", "detailed", "--speculative-config", json.dumps(DRAFTS))


@dataclass(frozen=True)
class Serving:
    """Its address, and the file that it logs to."""

    address: str
    log: Path

    def own_lines(self) -> list[str]:
        """What it says of its speculation every ten seconds."""
        return re.findall(r"SpecDecoding metrics: .*", self.log.read_text("utf8", "replace"))


@contextmanager
def serving(log: Path) -> Iterator[Serving]:
    """Start it, and end it."""
    port = free_port()
    words = [str(VLLM / "bin" / "vllm"), "serve", "assets/demo/target", "--port", str(port), *FLAGS]
    with log.open("wb") as said:
        server = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **QUIET}, stdout=said, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"http://127.0.0.1:{port}", server, log)
            yield Serving(f"http://127.0.0.1:{port}", log)
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(f"{address}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(1)
    raise AssertionError(f"vLLM did not start within {START_SECONDS} s:\n{log.read_text('utf8', 'replace')[-3000:]}")
