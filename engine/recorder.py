"""Record the rounds of any engine's speculative decoding, in two lines, as a file that Canopy opens and follows.

This file needs numpy and the standard library alone (Python 3.9 or later): import it as ``engine.recorder``, or copy
it alone into another project. A round needs its tree (``tokens``, ``parents``), the rows that were kept and the bonus
token; all else is optional, and shown where it is given::

    with Recorder("run.jsonl.gz", prompt="…", method="ddtree", engine="my loop 0.3") as recorder:
        recorder.round(tokens=tokens, parents=parents, keep=keep, bonus=bonus)   # once a round

Arrays may be numpy arrays, lists, or torch tensors on any device (torch is not imported). The loop pays for a copy of
them; a thread checks, encodes and writes. A round that does not fit is refused in one sentence, which is logged once
and written into the file, and never ends the loop unless ``strict=True``. Where the thread cannot keep up, rounds are
dropped and counted, not held. A file whose process was killed opens up to its last whole round.
"""

from __future__ import annotations

import atexit
import base64
import gzip
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

VERSION = 4  # of the trace format
MOST_REFUSALS = 100  # that are written with their sentence; all are counted
COMPRESSION = 1  # of gzip: twice as fast as its usual 9, a tenth larger
SECONDS_BETWEEN_WRITES = 0.05  # readers that follow the file see a round this much later

UNKNOWN_TOKEN = 2**31 - 1  # in place of a token that an engine does not say

REQUEST = ("method", "prompt_ids", "budget", "max_tokens", "sampling")
HEADER = ("prompt", "engine", "rig", "hardware", "dtype", "title", "note", "context_limit", "every")
RUN = (*REQUEST, *HEADER, "drafters", "token_text", "strict", "most_waiting")

INTEGERS, FLOATS = "<i4", "<f4"
TREE = {"tokens": INTEGERS, "parents": INTEGERS, "logprobs": FLOATS, "heads": INTEGERS}
LATTICE = {"tokens": INTEGERS, "logprobs": FLOATS, "follow": INTEGERS}
TRIALS = {"nodes": INTEGERS, "chances": FLOATS, "draws": FLOATS}
CHOICE = {"choice": INTEGERS, "choice_logprobs": FLOATS, "entropy": FLOATS, "gap": FLOATS, "offered": FLOATS,
          "processed": FLOATS}
ROUND = (*TREE, "keep", "bonus", *CHOICE, "node_logprobs", "drafts", "candidates", "trials", "seconds", "start")

log = logging.getLogger("canopy.recorder")


class RecorderError(ValueError):
    """What does not fit, what was seen and what is allowed, in one sentence."""


class Recorder:
    """Writes a run to ``path``, gzipped where that ends in .gz, in place of an older file of that name. Close it, or
    use ``with``, so that the file gets its end. ``dropped`` and ``refused`` count the rounds that are not in it.

    About the run, all optional: ``prompt``, ``method`` and ``engine`` (any text); ``prompt_ids``; ``token_text``: a
    mapping of token ids to text, or a function such as ``tokenizer.decode``; ``drafters``: their names, () for plain
    decoding; ``rig`` (the checkpoints), ``hardware``, ``dtype``, ``title``, ``note`` in words; ``budget``,
    ``max_tokens``, ``context_limit``; ``sampling``: {"temperature", "top_k", "top_p", "seed"}; ``every=10`` records
    each tenth round; ``strict``; ``most_waiting``: rounds that may wait for the thread.
    """

    def __init__(self, path: str | Path, **run: Any) -> None:
        _known(run, RUN, "A run")
        self._every, self._most = int(run.get("every", 1)), int(run.get("most_waiting", 1024))
        if self._every < 1 or self._most < 1:
            raise RecorderError(f"every is {self._every}, most_waiting {self._most}; both have to be 1 or more.")
        self._strict = bool(run.get("strict"))
        self._bonus: int | None = None  # of the chain before
        self._index, self._start = 0, len(run.get("prompt_ids", ()))
        self.dropped = self.refused = 0
        self._began = time.perf_counter()
        self._waiting: deque[tuple[int, float, Any]] = deque()  # rounds, or what is wrong with them
        self._reason, self._closing = "", Event()
        self._file = _TraceFile(Path(path), run)
        self._thread = Thread(target=self._write, name="canopy recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def round(self, tokens: Any, parents: Any, keep: Any, bonus: Any, **more: Any) -> None:
        """One draft, one verify, one commit. ``tokens`` and ``parents`` (n,): the root first (its own parent is 0 or
        -1), each node after its parent. ``keep`` (a,): the rows kept, root first. ``bonus``: the target's own next
        token, which is the next round's root.

        Optional, (n,) whole numbers: ``choice``, the target's token at each node; ``heads``, a bit mask of the drafters
        that propose it. (n,) floats: ``logprobs``, the drafter's, cumulative from the root, or ``node_logprobs``, each
        node's own; of the target, ``choice_logprobs``, ``entropy`` (nats), ``gap`` (log probability of its first
        choice less that of its second), ``offered`` (log probability of the node's own token), ``processed`` (the same
        after temperature and cuts). ``drafts``: a lattice a drafter, {"tokens", "logprobs"} of (depth, k) or
        (depth, rows, k), then with "follow". ``candidates``: a tree a drafter, {"tokens", "parents", …}. ``trials``:
        {"nodes", "chances", "draws"} (t,). ``seconds`` by stage: draft, build, pack, verify, accept, keep, other.
        ``start``: the tokens cached before the round.
        """
        index, self._index = self._index, self._index + 1
        try:
            start = more.get("start", self._start)
            self._start = start + len(keep)
            if index % self._every:
                return
            if len(self._waiting) >= self._most or not self._thread.is_alive():
                self.dropped += 1
                return
            copy = _Copy({"tokens": tokens, "parents": parents, "keep": keep, "bonus": bonus, **more, "start": start})
            if self._strict:
                _round_line(copy.parts())
            self._waiting.append((index, time.perf_counter() - self._began, copy))
        except Exception as error:
            self._refuse(index, error)

    def chain(self, drafted: Any, accepted: int, bonus: int, root: int | None = None, **more: Any) -> None:
        """A round whose tree is a chain: the ``drafted`` tokens (n,), the first ``accepted`` of which were kept.
        ``root`` is the token that they continue; from the second round on it is the bonus token before."""
        root, self._bonus = self._bonus if root is None else root, bonus
        if root is None:
            self._refuse(self._index, RecorderError("the first chain has no root; name the token that it continues."))
        else:
            above = np.maximum(np.arange(-1, len(drafted)), 0)
            self.round([root, *drafted], above, np.arange(accepted + 1), bonus, **more)

    def close(self, reason: str = "stop") -> None:
        """Write what waits and the end: ``stop`` (a stop token), ``length``, ``context`` or ``stopped`` (by hand)."""
        self._reason = self._reason or reason
        self._closing.set()
        self._thread.join()
        atexit.unregister(self.close)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close("stop" if kind is None else "stopped")

    def _refuse(self, index: int, error: Exception) -> None:
        if self._strict:
            raise RecorderError(f"Round {index + 1} is refused: {error}") from error
        self._waiting.append((index, 0.0, error))

    def _write(self) -> None:
        """The thread. A disk that takes no more ends it; the loop goes on and counts what it drops."""
        try:
            ending = False
            while not ending:
                ending = self._closing.wait(SECONDS_BETWEEN_WRITES)
                while self._waiting:
                    self._add(*self._waiting.popleft())
                self._file.flush()
            counts = {"rounds": self._index, "dropped": self.dropped, "refused": self.refused}
            self._file.write({"end": {"reason": self._reason, "seconds": time.perf_counter() - self._began, **counts}})
            self._file.close()
        except OSError as error:
            log.warning("Recording ends, because the file cannot be written: %s.", error.strerror)

    def _add(self, index: int, seconds: float, found: _Copy | Exception) -> None:
        try:
            if isinstance(found, Exception):
                raise found
            line = _round_line(found.parts())
            self._file.write({"round": {"index": index, **line}, "pieces": self._file.pieces(line),
                              "elapsed_seconds": seconds})
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            self.refused += 1
            if self.refused == 1:
                log.warning("Round %d is refused: %s Later ones are counted in the file.", index + 1, error)
            if self.refused <= MOST_REFUSALS:
                self._file.write({"refused": {"index": index, "reason": str(error)}})


class _Copy:
    """What a round was given, copied so that the loop can no longer change it. What lies on a GPU is copied there, in
    the order of the loop's own work, which does not wait for it."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._event: Any = None
        self._parts = {name: self._copied(part) for name, part in parts.items()}

    def parts(self) -> dict[str, Any]:
        """The copies, once they are there."""
        if self._event is not None:
            self._event.synchronize()
        return self._parts

    def _copied(self, value: Any) -> Any:
        if isinstance(value, (np.ndarray, int)):
            return value.copy() if isinstance(value, np.ndarray) else value
        if isinstance(value, (list, tuple)):
            return [self._copied(part) for part in value] if value and hasattr(value[0], "__len__") else list(value)
        if isinstance(value, dict):
            return {name: self._copied(part) for name, part in value.items()}
        return self._cloned(value) if hasattr(value, "clone") else value

    def _cloned(self, tensor: Any) -> Any:
        with suppress(TypeError, RuntimeError):  # on a GPU, with a gradient, or of bfloat16
            return tensor.numpy().copy()
        copy = tensor.detach().clone()
        if copy.device.type == "cuda":
            self._event = sys.modules["torch"].cuda.current_stream(copy.device).record_event(self._event)
        return copy


class _TraceFile:
    """The file as the thread writes it: JSON lines, each token's text with the first line that needs it."""

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        text = run.get("token_text", {})
        self._text = text.__getitem__ if isinstance(text, Mapping) else text
        self._named: set[int] = set()
        self._fresh = True  # is there something to flush
        try:
            if path.exists() and not path.is_file():
                raise OSError(0, "it is not an ordinary file")  # a pipe would be waited for
            self._file: Any = gzip.open(path, "wb", COMPRESSION) if path.suffix == ".gz" else open(path, "wb")  # noqa: SIM115
        except OSError as error:
            raise RecorderError(f"The trace {path.name} cannot be written: {error.strerror}.") from error
        request = {name: run[name] for name in REQUEST if name in run}
        request["prompt_ids"] = tokens = np.asarray(run.get("prompt_ids", ()), np.int64)
        header = {name: run[name] for name in HEADER if name in run}
        header.update(heads=list(run.get("drafters", ["drafter"])), recorded=time.strftime("%Y-%m-%d"), request=request)
        self.write({"canopy_trace": VERSION, "header": {**header, "pieces": self.pieces({"tokens": tokens})}})

    def flush(self) -> None:
        """Write what is buffered, for readers that follow the file."""
        if self._fresh:
            self._file.flush()
        self._fresh = False

    def write(self, line: Mapping[str, Any]) -> None:
        """A line of JSON; arrays as base64 of their bytes, with dtype and shape."""
        self._file.write(json.dumps(line, separators=(",", ":"), default=_packed).encode() + b"\n")
        self._fresh = True

    def close(self) -> None:
        """Nothing follows."""
        self._file.close()

    def pieces(self, line: Mapping[str, Any]) -> dict[int, str]:
        """The text of those tokens of a line that no earlier one has named, as far as ``token_text`` knows it."""
        fresh = _token_ids(line) - self._named
        self._named |= fresh
        found = {}
        for token in sorted(fresh):
            with suppress(Exception):  # somebody else's function: what it raises costs the token its text alone
                found[token] = "⟨?⟩" if token == UNKNOWN_TOKEN else str(self._text(token))
        return found


def _token_ids(line: Mapping[str, Any]) -> set[int]:
    """Every token that a line has the id of."""
    found = set()
    for name, value in line.items():
        if isinstance(value, Mapping):
            found |= _token_ids(value)
        elif name in ("tokens", "choice", "bonus"):
            found.update(np.ravel(value).tolist())
        elif name in ("drafts", "candidates"):
            found.update(*map(_token_ids, value))
    return found - {-1}


def _packed(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def _known(given: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    if unknown := sorted(set(given) - set(names)):
        raise RecorderError(f"{what} has no {unknown[0]!r}; it may have {', '.join(names)}.")


def _round_line(parts: dict[str, Any]) -> dict[str, Any]:
    """A round as its line has it; RecorderError says what does not fit."""
    _known(parts, ROUND, "A round")
    tree = _tree(parts)
    size = len(tree["tokens"])
    keep = _array("keep", parts["keep"], INTEGERS)
    inside = keep.ndim == 1 and keep.size and keep[0] == 0 and (keep[1:] > 0).all() and keep.max() < size
    if not inside or (tree["parents"][keep[1:]] != keep[:-1]).any():
        raise RecorderError(f"keep is {keep.tolist()}; it has to be a path of the {size} rows that begins with row 0.")
    bonus = _array("bonus", parts["bonus"], INTEGERS).reshape(-1)
    if bonus.size != 1:
        raise RecorderError(f"bonus has {bonus.size} tokens; it has to be one.")
    verification = _arrays(parts, CHOICE, (size,))
    logprobs = {"logprobs": verification.pop("choice_logprobs")} if "choice_logprobs" in verification else {}
    line: dict[str, Any] = {"start": int(parts["start"]), "tree": tree, "verification": {**verification, **logprobs},
            "acceptance": {"keep": keep, "bonus": int(bonus[0])}}
    if parts.get("trials") is not None:
        line["acceptance"]["trials"] = _arrays(parts["trials"], TRIALS, np.shape(parts["trials"]["nodes"]))
    line["drafts"] = [_lattice(draft) for draft in parts.get("drafts") or ()]
    line["candidates"] = [_tree(candidate) for candidate in parts.get("candidates") or ()]
    line["seconds"] = {str(stage): _time(stage, given) for stage, given in (parts.get("seconds") or {}).items()}
    return line


def _time(stage: Any, given: Any) -> float:
    if not 0 <= (seconds := float(given)) < float("inf"):
        raise RecorderError(f"{stage} took {seconds} seconds; a finite number from 0 on is allowed.")
    return seconds


def _tree(parts: Mapping[str, Any]) -> dict[str, Any]:
    tokens = _array("tokens", parts["tokens"], INTEGERS)
    if tokens.ndim != 1 or not tokens.size or tokens.min() < 0:
        raise RecorderError(f"tokens is of shape {tokens.shape}, from {tokens.min(initial=0)} on; it has to be (n,), "
                            "the root first, each 0 or more.")
    tree = _arrays(parts, TREE, tokens.shape)
    above = tree["parents"]
    if (wrong := np.flatnonzero((above[1:] < 0) | (above[1:] >= np.arange(1, len(above))))).size:
        node = int(wrong[0]) + 1
        raise RecorderError(f"node {node} has the parent {above[node]}; parents come before their children, so that "
                            f"0 to {node - 1} are allowed.")
    if above[0] not in (0, -1):
        raise RecorderError(f"the root has the parent {above[0]}; 0 and -1 are allowed.")
    above[0] = 0
    if parts.get("node_logprobs") is not None:
        tree["logprobs"] = _array("node_logprobs", parts["node_logprobs"], FLOATS, tokens.shape)
        tree["logprobs"][0] = 0
        for node in range(1, len(above)):
            tree["logprobs"][node] += tree["logprobs"][above[node]]
    return tree


def _lattice(draft: Mapping[str, Any]) -> dict[str, Any]:
    lattice = _arrays(draft, LATTICE, np.shape(draft["tokens"]))
    shape = lattice["tokens"].shape
    if len(shape) == 2:  # marginals: a row a depth
        lattice = {name: array[:, None] for name, array in lattice.items()}
    elif len(shape) != 3:
        raise RecorderError(f"a lattice is of shape {shape}; (depth, k) and (depth, rows, k) are allowed.")
    lattice.setdefault("follow", np.zeros_like(lattice["tokens"]))
    return lattice


def _arrays(given: Mapping[str, Any], kinds: Mapping[str, str], shape: tuple[int, ...]) -> dict[str, Any]:
    """Those of the named arrays that are given, all of one shape."""
    return {name: _array(name, given[name], kind, shape) for name, kind in kinds.items() if given.get(name) is not None}


def _array(name: str, value: Any, kind: str, shape: tuple[int, ...] | None = None) -> Any:
    """A fresh array of a kind."""
    if hasattr(value, "cpu"):
        value = value.cpu()
        value = value.float() if kind == FLOATS else value  # numpy has no bfloat16
    array = np.array(value)
    if array.dtype.str == kind and array.shape == (array.shape if shape is None else shape):
        return array
    if array.size and array.dtype.kind not in ("iu" if kind == INTEGERS else "iuf"):
        raise RecorderError(f"{name} is of dtype {array.dtype}; {'whole ' * (kind == INTEGERS)}numbers are allowed.")
    if kind == INTEGERS and array.size and not -2**31 <= array.min() <= array.max() < 2**31:
        raise RecorderError(f"{name} reaches from {array.min()} to {array.max()}; numbers of 32 bits are allowed.")
    if shape is not None and array.shape != shape:
        raise RecorderError(f"{name} is of shape {array.shape}, where {shape} fits the other arrays.")
    return array.astype(kind)
