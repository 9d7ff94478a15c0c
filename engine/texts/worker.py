"""The process in which checkpoints' tokenizers and chat templates run, within limits of memory and processor time.

    python -m engine.texts.worker DESCRIPTOR SECONDS

It answers requests from the socket of that number, each within a limit of processor time, and ends when the
socket is closed. Both ways go as JSON, because a stranger's template may have run in what answers.
"""

import importlib.util
import json
import resource
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from engine.errors import CanopyError

if TYPE_CHECKING:
    from engine.texts.tokenizer import LocalTokenizer

MAX_ADDRESS_SPACE = 2**31  # bytes; imports take a fifth, the largest tokenizers a third
MAX_REPLY_BYTES = 2**26
MAX_OPEN = 8  # tokenizers; one that was dropped is read again when it is asked for
LOAD_SECONDS = 60  # processor time for one tokenizer; those that have to be converted take about ten
TOO_LARGE = f"needs more than {MAX_ADDRESS_SPACE >> 30} GiB of memory"


def main(descriptor: int, seconds: int) -> None:
    """Answer until the other end is closed."""
    _hide_torch()
    from engine.checkpoints.tokenizers import load_tokenizer  # noqa: PLC0415  # after torch is hidden
    from engine.texts.tokenizer import LocalTokenizer  # noqa: PLC0415

    @lru_cache(MAX_OPEN)
    def opened(serial: int, folder: str, vocabulary: int | None, thinking: bool) -> "LocalTokenizer":
        return LocalTokenizer(load_tokenizer(Path(folder), vocabulary), thinking)

    def answer(serial: int, folder: str, vocabulary: int | None, thinking: bool, method: str, *arguments: Any) -> Any:
        _limit(resource.RLIMIT_CPU, ceil(process_time()) + LOAD_SECONDS)
        tokenizer = opened(serial, folder, vocabulary, thinking)
        _limit(resource.RLIMIT_CPU, ceil(process_time()) + seconds)  # the kernel ends whatever takes longer
        return getattr(tokenizer, method)(*arguments)

    for kind, limit in ((resource.RLIMIT_AS, MAX_ADDRESS_SPACE), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        _limit(kind, limit)
    with Connection(descriptor) as connection, suppress(EOFError):
        while True:
            request = json.loads(connection.recv_bytes())
            connection.send_bytes(_reply(answer, request))


def _hide_torch() -> None:
    """Let transformers find no torch: texts need none, and importing it takes three times as long and 300 MiB."""
    find_spec = importlib.util.find_spec

    def find_no_torch(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "torch" else find_spec(name, package)
    importlib.util.find_spec = find_no_torch


def _limit(kind: int, limit: int) -> None:
    """Limit what this process may take, within what the system allows."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _reply(answer: Any, request: list[Any]) -> bytes:
    """Return the ``value``, or why there is none: ``refused`` is a sentence, ``failed`` a part of one."""
    try:
        data = json.dumps({"value": answer(*request)}, default=vars).encode()
        if len(data) <= MAX_REPLY_BYTES:
            return data
        failed = f"makes {len(data):,} bytes, of which at most {MAX_REPLY_BYTES:,} are taken,"
    except CanopyError as error:
        return json.dumps({"refused": str(error)}).encode()
    except MemoryError:
        failed = TOO_LARGE
    except BaseException as error:  # a panic of the tokenizers library is no Exception
        failed = f"fails ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
    return json.dumps({"failed": failed}).encode()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
