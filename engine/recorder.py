"""Record the rounds of any engine's speculative decoding, in two lines, as a file that Canopy opens and follows.

This file needs numpy and the standard library alone (Python 3.9 or later): import it as ``engine.recorder``, or copy
it alone into another project. A round needs its tree (``tokens``, ``parents``), the rows that were kept and the bonus
token; all else is optional, and shown if it is given::

    with Recorder("run.jsonl.gz", prompt="…", method="ddtree", engine="my loop 0.3") as recorder:
        recorder.round(tokens=tokens, parents=parents, keep=keep, bonus=bonus)   # once a round

Arrays may be numpy arrays, lists, or torch tensors on any device (torch is not imported). The loop pays for a copy of
them; a thread checks, encodes and writes. A round that does not fit is refused in one sentence, which is logged once
and written into the file, and never ends the loop unless ``strict=True``. If the thread cannot keep up, rounds are
dropped and counted, not held. A file whose process was killed opens up to its last whole round.

The trace format is validated here only: Canopy's reader uses the limits and checks at the end of this file, so it opens
every file that this writes.
"""

from __future__ import annotations

import atexit
import base64
import gzip
import json
import logging
import math
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from os.path import commonprefix
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

VERSION = 5  # of the trace format
MAX_REFUSALS = 100  # refused rounds written with the reason; all are counted
COMPRESSION = 1  # of gzip: twice as fast as its usual 9, a tenth larger
SECONDS_BETWEEN_WRITES = 0.05  # readers that follow the file see a round this much later

MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 128 * 2**20, 256 * 2**20  # of a file, and of what it unpacks to
SPARE_BYTES = 2**18  # reserved in the file for refusals and the end line
MAX_LINE_BYTES, MAX_LINE_VALUES = 16 * 2**20, 500_000
MAX_ROUNDS, MAX_PIECES = 2**16, 300_000  # of a file; pieces are texts of tokens
MAX_PIECES_BYTES = 2**21  # of one line's pieces, so that there is room for the rest of the line
MAX_TRACE_NODES = 2**14  # of a tree
MAX_CELLS = 2**20  # of a lattice: depth × rows × k
MAX_DRAFTERS, MAX_STAGES = 16, 64
MAX_PROMPT_TOKENS, MAX_STOP_TOKENS, MAX_BIASES = 2**20, 4096, 300
MAX_TEXT_LENGTH = 2**20  # characters: a prompt
MAX_NOTE_LENGTH = 2**13  # characters: a title, a sentence for the reader, what the hardware is
MAX_NAME_LENGTH = 200  # characters: a method, a drafter, a model, a stage, a reason
MAX_PIECE_LENGTH = 2**10  # characters or bytes of one token
MAX_INT32 = 2**31 - 1  # of a token id, an index, a count
MAX_SEED = 2**63 - 1

MAX_CONTEXT_TRIES = 2**13  # tokens searched for an alphanumeric one

UNKNOWN_TOKEN = MAX_INT32  # placeholder for a token that the engine does not report

INTEGERS, FLOATS = "<i4", "<f4"
TREE = {"tokens": INTEGERS, "parents": INTEGERS, "logprobs": FLOATS, "drafters": INTEGERS}
LATTICE = {"tokens": INTEGERS, "logprobs": FLOATS, "follow": INTEGERS}
TRIALS = {"nodes": INTEGERS, "chances": FLOATS, "draws": FLOATS}
VERIFICATION = {"choice": INTEGERS, "logprobs": FLOATS, "entropy": FLOATS, "gap": FLOATS, "offered": FLOATS,
                "processed": FLOATS}
CHOICE = {"choice_logprobs" if name == "logprobs" else name: name for name in VERIFICATION}
ROUND = (*TREE, "keep", "bonus", *CHOICE, "node_logprobs", "drafts", "candidates", "trials", "seconds", "start")

log = logging.getLogger("canopy.recorder")


class RecorderError(ValueError):
    """One sentence that names the problem, the value and the allowed values."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence.rstrip('.')}.")


class Recorder:
    """Writes a run to ``path``, gzipped if that ends in .gz, in place of an older file of that name. Close it, or
    use ``with``, so that the file gets its end. ``dropped`` and ``refused`` count the rounds that are not in it.

    About the run, all optional: ``prompt``, ``method`` and ``engine`` (any text); ``prompt_ids``; ``token_text``: a
    mapping of token ids to text or bytes, a function that returns either, or a tokenizer of transformers, which
    gives half a character as its bytes; ``drafters``: their names, () for plain decoding; ``drafter_kinds``, such
    as eagle3; ``rig`` (the checkpoints), ``hardware``, ``dtype``, ``title``, ``note`` in words; ``budget``,
    ``max_tokens``, ``stop_ids`` (see ``until``), ``context_limit``; ``sampling``: {"temperature", "top_k", "top_p",
    "seed"}; ``every=10`` records each tenth round; ``strict``; ``max_pending``: rounds that may wait for the thread.
    An invalid value is left out, and the file says why.
    """

    def __init__(self, path: str | Path, **run: Any) -> None:
        run = {LEGACY_NAMES.get(name, name): value for name, value in run.items()}
        check_names(run, RUN, "A run")
        self._every, self._max_pending = (check_int(_plain(run.get(name, default)), name, 1) for name, default in (
            ("every", 1), ("max_pending", 1024)))
        self._strict = bool(run.get("strict"))
        about, refusals = _about(run, self._strict)
        self._bonus: int | None = None  # of the chain before
        self._index, self._start = 0, len(about.get("prompt_ids", ()))
        self.dropped = self.refused = 0
        self._first: Any = None  # start of the first round
        self._stop_ids, self._max_tokens = frozenset[int](), 0  # see ``until``
        self._ended, self._rounds = "", 0  # why the text ended, and how many rounds it then had
        self.until(about.get("stop_ids"), about.get("max_tokens", 0))
        self._began = time.perf_counter()
        # index, seconds, a copy of the round or what is wrong with it, and the events that complete the copy
        self._waiting: deque[tuple[int, float, Any, list[Any]]] = deque()
        self._reason, self._closing = "", Event()
        self._file = _TraceFile(path, run.get("token_text"))
        self._file.header(about, refusals)
        self._thread = Thread(target=self._write, name="canopy recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def until(self, stop_ids: Any = (), max_tokens: int = 0) -> None:
        """End the recorded text before the first of ``stop_ids``, which becomes the last bonus token, and after
        ``max_tokens`` (0: no limit). Later rounds are not recorded. For loops that notice the end only afterwards."""
        try:
            stops = check_token_ids(() if stop_ids is None else stop_ids, "stop_ids", MAX_STOP_TOKENS)
            self._stop_ids, self._max_tokens = frozenset(stops.tolist()), check_int(_plain(max_tokens), "max_tokens")
        except Exception as error:
            if self._strict:
                raise RecorderError(f"The end of the text is not watched: {reason_of(error)}") from error
            log.warning("The end of the text is not watched: %s.", reason_of(error))

    def round(self, tokens: Any, parents: Any, keep: Any, bonus: Any, **more: Any) -> None:
        """Record one draft, verify and commit. ``tokens`` and ``parents`` (n,): the root first (its own parent is 0 or
        -1), each node after its parent. ``keep`` (a,): the rows kept, root first. ``bonus``: the target's own next
        token, which is the next round's root.

        Optional, (n,) whole numbers: ``choice``, the target's token at each node; ``drafters``, a bit mask of those
        that propose it. (n,) floats: ``logprobs``, the drafter's, cumulative from the root, or ``node_logprobs``, each
        node's own; of the target, ``choice_logprobs``, ``entropy`` (nats), ``gap`` (log probability of its first
        choice less that of its second), ``offered`` (log probability of the node's own token), ``processed`` (the same
        after temperature and cuts). ``drafts``: a lattice a drafter, {"tokens", "logprobs"} of (depth, k) or
        (depth, rows, k), then with "follow". ``candidates``: a tree a drafter, {"tokens", "parents", …}. ``trials``:
        {"nodes", "chances", "draws"} (t,). ``seconds`` by stage: draft, build, pack, verify, accept, keep, other.
        ``start``: the tokens cached before the round.
        """
        if self._ended:
            return
        index, self._index = self._index, self._index + 1
        try:
            start = more.get("start", self._start)
            valid_start = _position(start, self._start)
            self._first = valid_start if self._first is None else self._first
            self._start = valid_start + len(keep)
            if index % self._every and not (self._stop_ids or self._max_tokens):
                return
            if len(self._waiting) >= self._max_pending or not self._thread.is_alive():
                self.dropped += 1
                return
            events: list[Any] = []
            parts = _copied({"tokens": tokens, "parents": parents, "keep": keep, "bonus": bonus, **more,
                             "start": start}, events)
            if self._strict:
                _encoded(_checked_line(index, parts))
            self._waiting.append((index, time.perf_counter() - self._began, parts, events))
        except Exception as error:
            self._refuse(index, error)

    def chain(self, drafted: Any, accepted: int, bonus: int, root: int | None = None, **more: Any) -> None:
        """Record a round whose tree is a chain of ``drafted`` tokens (n,), of which the first ``accepted`` were kept.

        ``root`` is the token before them; from the second round on it defaults to the last bonus token.
        """
        root, self._bonus = self._bonus if root is None else root, bonus
        if root is None:
            self._refuse(self._index, RecorderError("the first chain has no root; name the token that it continues."))
        else:
            above = np.maximum(np.arange(-1, len(drafted)), 0)
            self.round([root, *drafted], above, np.arange(accepted + 1), bonus, **more)

    def close(self, reason: str = "") -> None:
        """Write pending rounds and the reason of the end: ``stop`` (a stop token), ``length``, ``context`` or
        ``stopped`` (by hand); by default what ``until`` found, or ``unknown``."""
        self._reason = self._reason or check_text(reason, "reason")
        self._closing.set()
        self._thread.join()
        atexit.unregister(self.close)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close("" if kind is None else "stopped")

    def _refuse(self, index: int, error: Exception) -> None:
        if self._strict:
            raise RecorderError(f"Round {index + 1} is refused: {reason_of(error)}.") from error
        self._waiting.append((index, 0.0, error, []))

    def _write(self) -> None:
        """Run the writer thread. It ends if the file cannot be written; later rounds count as dropped."""
        try:
            ending = False
            while not ending:
                ending = self._closing.wait(SECONDS_BETWEEN_WRITES)
                while self._waiting:
                    self._add(*self._waiting.popleft())
                self._file.flush()
            reason = self._ended or self._reason or "unknown"
            rounds = self._rounds if self._ended else self._index
            counts = {"rounds": rounds, "dropped": self.dropped, "refused": self.refused}
            self._file.end({"reason": reason, "seconds": time.perf_counter() - self._began, **counts})
        except OSError as error:
            log.warning("Recording ends, because the file cannot be written: %s.", error.strerror)

    def _add(self, index: int, seconds: float, parts: Any, events: list[Any]) -> None:
        if self._ended:
            return
        try:
            if isinstance(parts, Exception):
                raise parts
            for event in events:
                event.synchronize()
            if self._cut_at_end(index, parts) and index % self._every == 0:
                self._file.round(_checked_line(index, parts), seconds)
        except OSError:
            raise
        except Exception as error:
            self.refused += 1
            if self.refused == 1:
                log.warning("Round %d is refused: %s. Later ones are counted in the file.", index + 1, reason_of(error))
            if self.refused <= MAX_REFUSALS:
                self._file.write({"refused": {"index": index, "reason": reason_of(error)}})

    def _cut_at_end(self, index: int, parts: dict[str, Any]) -> bool:
        """Cut a round's ``keep`` at the end of the text; the next token becomes its bonus token. Return False if the
        text ended before the round."""
        if not (self._stop_ids or self._max_tokens):
            return True
        keep = _array("keep", parts["keep"], INTEGERS)
        path = [*_array("tokens", parts["tokens"], INTEGERS)[keep].tolist(), _single("bonus", parts["bonus"])]
        before = _single("start", parts["start"]) - _single("start", self._first)
        tokens_left = self._max_tokens - before if self._max_tokens else len(path)
        stops = [depth for depth, token in enumerate(path) if token in self._stop_ids]
        length = max(0, min([tokens_left, *stops, len(keep)]))
        if stops or length == tokens_left:
            self._ended = "stop" if path[length] in self._stop_ids else "length"
            self._rounds = index + bool(length)
            parts["keep"], parts["bonus"] = keep[:length], path[length]
        return length > 0


def _copied(value: Any, events: list[Any]) -> Any:
    """Copy a round's values, so that the loop may overwrite its own. Tensors on a GPU are copied there, in the loop's
    stream and without waiting; an event is added to ``events`` for each such copy."""
    if isinstance(value, (np.ndarray, int)):
        return value.copy() if isinstance(value, np.ndarray) else value
    if isinstance(value, (list, tuple)):
        nested = value and hasattr(value[0], "__len__")
        return [_copied(part, events) for part in value] if nested else list(value)
    if isinstance(value, dict):
        return {name: _copied(part, events) for name, part in value.items()}
    if not hasattr(value, "clone"):
        return value
    with suppress(TypeError, RuntimeError):  # on a GPU, with a gradient, or of bfloat16
        return value.numpy().copy()
    clone = value.detach().clone()
    if clone.device.type == "cuda":
        events.append(sys.modules["torch"].cuda.current_stream(clone.device).record_event())
    return clone


class _TraceFile:
    """The file as the thread writes it: JSON lines, each token's text with the first line that needs it."""

    def __init__(self, path: str | Path, token_text: Any) -> None:
        self._detokenizer = Detokenizer(token_text) if hasattr(token_text, "convert_ids_to_tokens") else None
        self._token_text = (self._detokenizer.piece if self._detokenizer else token_text if callable(token_text)
                            else (token_text or {}).__getitem__)
        self._overrides: TokenTextOverrides | None = None
        self._named_tokens: set[int] = set()
        self._has_unflushed = True  # whether lines were written since the last flush
        self._rounds = self._size = 0
        try:
            if Path(path).exists() and not Path(path).is_file():
                raise OSError(0, "it is not an ordinary file")  # opening a pipe would block
            self._raw = open(path, "wb")  # noqa: SIM115
        except (OSError, ValueError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            if isinstance(error, (FileNotFoundError, NotADirectoryError)):
                why = f"there is no folder {ascii(str(Path(path).parent))}"
            raise RecorderError(f"The trace {ascii(Path(str(path)).name)[1:-1]} cannot be written: {why}.") from error
        self._file: Any = gzip.GzipFile("", "wb", COMPRESSION, self._raw) if Path(path).suffix == ".gz" else self._raw

    def header(self, about: Mapping[str, Any], refusals: Mapping[str, str]) -> None:
        """Write the header, whose note names the fields left out, and a line with the reason for each."""
        header = {name: about[name] for name in HEADER if name in about}
        header.update(drafters=about.get("drafters", ["drafter"]), recorded=time.strftime("%Y-%m-%d"),
                      request={name: about[name] for name in REQUEST if name in about},
                      pieces=self._pieces({"tokens": about.get("prompt_ids", ())}))
        self._named_tokens.update(header["pieces"])
        if refusals:
            note = header.get("note", "")[:MAX_NOTE_LENGTH // 2]
            header["note"] = f"{note} Left out, because it does not fit: {', '.join(refusals)}.".strip()
        self.write({"canopy_trace": VERSION, "header": header})
        for name, reason in refusals.items():
            log.warning("The %s of a run is left out of its recording: %s.", name, reason)
            self.write({"refused": {"field": name, "reason": reason}})

    def round(self, line: Mapping[str, Any], seconds: float) -> None:
        """Write a checked round; RecorderError if the file has no room for it."""
        if self._rounds >= MAX_ROUNDS:
            raise RecorderError(f"the file has {MAX_ROUNDS:,} rounds, and no more are read")
        pieces, texts = self._pieces(line), self._added_texts(line)
        self.write({"round": line, "pieces": pieces, **texts, "elapsed_seconds": seconds}, SPARE_BYTES)
        self._named_tokens.update(pieces)
        self._rounds += 1

    def write(self, line: Mapping[str, Any], spare: int = 0) -> None:
        """Write a line. RecorderError if the line, or the file with ``spare`` bytes more, is too large to be read."""
        data = _encoded(line)
        more = len(data) + spare
        if self._raw.tell() + more > MAX_FILE_BYTES or self._size + more > MAX_UNPACKED_BYTES:
            raise RecorderError(f"the file has {self._size:,} bytes; no more are read than {MAX_FILE_BYTES:,}, or "
                                f"{MAX_UNPACKED_BYTES:,} unpacked")
        self._size, self._has_unflushed = self._size + len(data), True
        self._file.write(data)

    def flush(self) -> None:
        """Write what is buffered, for readers that follow the file."""
        if self._has_unflushed:
            self._file.flush()
        self._has_unflushed = False

    def end(self, values: Mapping[str, Any]) -> None:
        texts: dict[int, Any] = {}
        with suppress(Exception):  # as in ``_pieces``
            if self._overrides is not None:
                texts = {position: check_piece(text) for position, text in self._overrides.finish().items()}
        self.write({"end": {**values, "texts": texts} if texts else values})
        self._file.close()
        self._raw.close()

    def _added_texts(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return the texts of committed tokens that differ from their pieces, by position."""
        kept, start = line["tree"]["tokens"][line["acceptance"]["keep"]].tolist(), line["start"]
        texts: dict[int, Any] = {}
        with suppress(Exception):  # as in ``_pieces``
            if self._detokenizer is not None and (self._overrides is None or self._overrides.end != start):
                middle = self._overrides is not None
                self._overrides = TokenTextOverrides(self._detokenizer, self._token_text, start, middle)
            if self._overrides is not None:
                texts = {position: check_piece(text) for position, text in self._overrides.add(kept).items()}
        return {"texts": texts} if texts else {}

    def _pieces(self, line: Mapping[str, Any]) -> dict[int, Any]:
        """Return the texts of tokens that no earlier line has named, as far as they are known and fit into the line."""
        pieces: dict[int, Any] = {}
        bytes_left = MAX_PIECES_BYTES
        for token in sorted(_token_ids(line) - self._named_tokens):
            if len(self._named_tokens) + len(pieces) >= MAX_PIECES:
                break
            with suppress(Exception):  # user code: if it raises, only this token's text is missing
                shown = check_piece("⟨?⟩" if token == UNKNOWN_TOKEN else self._token_text(token))
                bytes_left -= 16 + 6 * len(shown)  # bytes of JSON, at the most
                if bytes_left < 0:
                    break
                pieces[token] = shown
        return pieces


class Detokenizer:
    """Decodes tokens with a tokenizer that has transformers' ``decode`` and ``convert_ids_to_tokens``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] | None = None
        self._context_text = ""

    def decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def piece(self, token: int) -> str | bytes:
        """Return a token's text inside a longer text, or its bytes if it is only part of a character."""
        both = self.decode([*self.context, token])
        before = self._context_text
        added = both[len(before):] if both.startswith(before) else self.decode([token])
        if "\ufffd" not in added:
            return added
        symbols = self._tokenizer.convert_ids_to_tokens(token) or ""
        if BYTE_TOKEN.fullmatch(symbols):
            return bytes([int(symbols[3:5], 16)])
        return bytes(map(BYTE_SYMBOLS.__getitem__, symbols)) if symbols and set(symbols) <= set(BYTE_SYMBOLS) else added

    def is_anchor(self, token: int, shown: str | bytes) -> bool:
        """Return whether decoding may start at this token: its text has a letter or digit, so that a decoder strips
        nothing behind it, and it is not a byte token."""
        return (isinstance(shown, str) and any(map(str.isalnum, shown))
                and not BYTE_TOKEN.fullmatch(self._tokenizer.convert_ids_to_tokens(token) or ""))

    @property
    def context(self) -> list[int]:
        """An alphanumeric token to decode other tokens after; empty if the first ``MAX_CONTEXT_TRIES`` have none."""
        if self._context is None:
            self._context = []
            for token in range(MAX_CONTEXT_TRIES):
                alone = self.decode([token])
                if alone.isascii() and alone.isalnum() and self.is_anchor(token, alone):
                    self._context, self._context_text = [token], alone
                    break
        return self._context


class TokenTextOverrides:
    """The texts of a run's tokens that differ from their usual piece (the first, the last, and split characters), so
    that all texts joined equal ``decode``.

    ``piece`` maps a token to its piece; ``start`` is the position of the first token; ``middle``: text precedes it.
    """

    def __init__(self, detokenizer: Detokenizer, piece: Callable[[int], Any], start: int, middle: bool = False) -> None:
        self._detokenizer, self._piece = detokenizer, piece
        self._tokens = list(detokenizer.context) if middle else []
        self._texts: list[Any] = [detokenizer.decode([token]) for token in self._tokens]
        self._before = self._checked = len(self._tokens)
        self._offset = start - self._before

    @property
    def end(self) -> int:
        return self._offset + len(self._tokens)

    def add(self, tokens: list[int]) -> dict[int, Any]:
        """Add tokens, and return the texts that changed, by position. Bytes wait for the rest of their character."""
        self._tokens += tokens
        self._texts += map(self._piece, tokens)
        return self._changes(len(self._texts) - _incomplete(self._texts))

    def finish(self) -> dict[int, Any]:
        """Return the remaining changes, incomplete characters included."""
        return self._changes(len(self._texts))

    def _changes(self, end: int) -> dict[int, Any]:
        if end <= self._checked:
            return {}
        begin = next((index for index in range(self._checked - 1, 0, -1)
                      if self._detokenizer.is_anchor(self._tokens[index], self._texts[index])), 0)
        first, self._checked = self._checked, end
        expected, text = self._expected(begin, end), self._detokenizer.decode(self._tokens[begin:end])
        if text == join_pieces(expected):
            return {}
        if not text.startswith(join_pieces(expected[:first - begin])):  # earlier tokens read otherwise with these
            begin, first = 0, self._before
            expected, text = self._expected(0, end), self._detokenizer.decode(self._tokens[:end])
        return self._divide(text, begin, range(first, end), len(join_pieces(expected[:first - begin])))

    def _expected(self, begin: int, end: int) -> list[Any]:
        """Return the current texts of these tokens, the first as the start of a text."""
        expected = self._texts[begin:end]
        return [self._detokenizer.decode([self._tokens[begin]]), *expected[1:]] if begin else expected

    def _divide(self, text: str, begin: int, indices: range, done: int) -> dict[int, Any]:
        """Split the text behind its first ``done`` characters among the tokens at ``indices``, and return what changed.

        A token's text ends where decoding the tokens from ``begin`` up to it stops to agree with the text.
        """
        changed: dict[int, Any] = {}
        for index in indices:
            end = len(text)
            if index + 1 < indices.stop:
                end = max(done, len(commonprefix([text, self._detokenizer.decode(self._tokens[begin:index + 1])])))
            if text[done:end] != self._texts[index]:
                self._texts[index] = changed[self._offset + index] = text[done:end]
            done = end
        return changed


def join_pieces(pieces: Iterable[Any]) -> str:
    """Join the texts of tokens, or their bytes; characters may span several tokens."""
    return b"".join(map(as_bytes, pieces)).decode("utf8", "replace")


def as_bytes(piece: Any) -> bytes:
    """Return what a token adds to the text."""
    return piece.encode("utf8", "replace") if isinstance(piece, str) else bytes(piece)


def _incomplete(pieces: list[Any]) -> int:
    """Return the number of trailing byte tokens if they end in an incomplete character, else 0."""
    last = list(takewhile(lambda shown: not isinstance(shown, str), reversed(pieces)))
    try:
        b"".join(map(bytes, reversed(last))).decode()
    except UnicodeDecodeError as error:
        return len(last) if error.reason == "unexpected end of data" else 0
    return 0


# The alphabet of byte-level tokens: a printable byte is itself, the others follow from U+0100 on.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_SYMBOLS = {chr(byte): byte for byte in _PRINTABLE}
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
BYTE_SYMBOLS.update((chr(256 + number), byte) for number, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE})))


def _token_ids(line: Mapping[str, Any]) -> set[int]:
    """Return all token ids in a line."""
    ids = set()
    for name, value in line.items():
        if isinstance(value, Mapping):
            ids |= _token_ids(value)
        elif name in ("tokens", "choice", "bonus"):
            ids.update(np.ravel(value).tolist())
        elif name in ("drafts", "candidates"):
            ids.update(*map(_token_ids, value))
    return ids - {-1}


def _encoded(line: Mapping[str, Any]) -> bytes:
    """Encode a line as JSON, with arrays as {dtype, shape, data in base64}."""
    data = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_packed).encode() + b"\n"
    check_line(data)
    return data


def _packed(value: Any) -> Any:
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def _about(run: Mapping[str, Any], strict: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Check the description of a run. Return its valid fields, and the reason for each one left out."""
    about, refusals = {}, {}
    for name, check in {**REQUEST, **HEADER, "drafters": check_drafters}.items():
        value = run.get(name)
        try:
            if value is not None:
                about[name] = check(_plain(value), name)
        except Exception as error:
            if strict:
                raise RecorderError(f"The {name} of the run is refused: {reason_of(error)}.") from error
            refusals[name] = reason_of(error)
    return about, refusals


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _position(start: Any, counted: Any) -> Any:
    """Return the given start of a round if it is valid, else the counted one. A tensor is not read here."""
    if hasattr(start, "cpu"):
        return start
    with suppress(Exception):
        return check_int(_single("start", start), "start", 0, MAX_INT32 - MAX_TRACE_NODES)
    return counted


def _checked_line(index: int, parts: dict[str, Any]) -> dict[str, Any]:
    """Return a round as its line in the file; RecorderError if it is invalid."""
    check_names(parts, ROUND, "A round")
    line: dict[str, Any] = {
        "index": index, "start": _single("start", parts["start"]), "tree": _tree(parts),
        "verification": {name: _array(name, parts[option], VERIFICATION[name]) for option, name in CHOICE.items()
                         if parts.get(option) is not None},
        "acceptance": {"keep": _array("keep", parts["keep"], INTEGERS), "bonus": _single("bonus", parts["bonus"])},
        "drafts": [_lattice(draft) for draft in parts.get("drafts") or ()],
        "candidates": [_tree(candidate) for candidate in parts.get("candidates") or ()],
        "seconds": {str(stage): float(value) for stage, value in (parts.get("seconds") or {}).items()}}
    if parts.get("trials") is not None:
        line["acceptance"]["trials"] = _arrays(parts["trials"], TRIALS)
    check_round(line)
    return line


def _tree(parts: Mapping[str, Any]) -> dict[str, Any]:
    tree = _arrays(parts, TREE)
    tree["parents"][:1][tree["parents"][:1] == -1] = 0
    if parts.get("node_logprobs") is not None:
        tree["logprobs"] = _array("node_logprobs", parts["node_logprobs"], FLOATS)
        _check_tree(tree)
        tree["logprobs"][0] = 0
        for node in range(1, len(tree["parents"])):
            tree["logprobs"][node] += tree["logprobs"][tree["parents"][node]]
    return tree


def _lattice(draft: Mapping[str, Any]) -> dict[str, Any]:
    lattice = _arrays(draft, LATTICE)
    if lattice["tokens"].ndim == 2:  # marginals: a row a depth
        lattice = {name: array[:, None] for name, array in lattice.items()}
    lattice.setdefault("follow", np.zeros_like(lattice["tokens"]))
    return lattice


def _arrays(fields: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    return {name: _array(name, fields[name], kind) for name, kind in kinds.items() if fields.get(name) is not None}


def _single(name: str, value: Any) -> int:
    array = _array(name, value, INTEGERS).reshape(-1)
    if array.size != 1:
        raise RecorderError(f"{name} has {array.size} numbers; one is allowed")
    return int(array[0])


def _array(name: str, value: Any, kind: str) -> Any:
    """Convert a value to a new array of this dtype; RecorderError if it does not fit."""
    if hasattr(value, "cpu"):
        value = value.cpu()
        value = value.float() if kind == FLOATS else value  # numpy has no bfloat16
    array = np.array(value)
    if array.dtype.str == kind:
        return array
    if array.size and array.dtype.kind not in ("iu" if kind == INTEGERS else "iuf"):
        raise RecorderError(f"{name} is of dtype {array.dtype}; {'whole ' * (kind == INTEGERS)}numbers are "
                            "allowed")
    if kind == INTEGERS and array.size and not -2**31 <= array.min() <= array.max() < 2**31:
        raise RecorderError(f"{name} reaches from {array.min()} to {array.max()}; numbers of 32 bits are allowed")
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite, which is checked later
        return array.astype(kind)


# The checks of a trace's values, for writer and reader: each returns the value in its type, or raises RecorderError.


def reason_of(error: Exception) -> str:
    """Return an error's message on one line, without the full stop."""
    if type(error) is RecursionError:
        return "it is nested too deeply"
    reason = f"it lacks {error}" if type(error) is KeyError else str(error) or type(error).__name__
    reason = " ".join(reason.split())[:300].rstrip(".")
    return reason if reason.isprintable() else ascii(reason)[1:-1]


def quoted(value: Any) -> str:
    """Quote a value for a message."""
    text = ascii(value) if not isinstance(value, (list, dict)) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}…"


def check_text(value: Any, name: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Check a text of at most ``max_length`` characters, without lone surrogates."""
    if not isinstance(value, str):
        raise RecorderError(f"the {name} is {quoted(value)}; text is allowed")
    if len(value) > max_length:
        raise RecorderError(f"the {name} has {len(value):,} characters; {max_length:,} are allowed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise RecorderError(f"the {name} holds half of a character (a lone surrogate)") from error
    return value


def check_prompt(value: Any, name: str) -> str:
    """Check a prompt; its commas and brackets count as values of its line."""
    if sum(map(check_text(value, name, MAX_TEXT_LENGTH).count, ",[{")) > MAX_LINE_VALUES // 4:
        raise RecorderError(f"the {name} has more than {MAX_LINE_VALUES // 4:,} commas and brackets")
    return str(value)


def check_int(value: Any, name: str, minimum: int = 0, maximum: int = MAX_INT32) -> int:
    """Check an integer in a range."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise RecorderError(f"the {name} is {quoted(value)}; a whole number from {minimum} to {maximum} is allowed")
    return value


def check_number(value: Any, name: str, minimum: float = 0.0, maximum: float = 1e12) -> float:
    """Check a finite number in a range."""
    if type(value) not in (int, float) or not math.isfinite(value) or not minimum <= value <= maximum:
        raise RecorderError(f"the {name} is {quoted(value)}; a number from {minimum:g} to {maximum:g} is allowed")
    return float(value)


def check_names(fields: Mapping[str, Any], names: Any, what: str) -> None:
    """Check that there are no names but these."""
    if unknown := sorted(set(map(str, fields)) - set(names)):
        raise RecorderError(f"{what} has no {quoted(unknown[0])}; it may have {', '.join(names)}")


def check_piece(value: Any) -> str | list[int]:
    """Check a token's text; bytes become a text, or a list if they are no whole characters."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = list(value)
    if not isinstance(value, list):
        return check_text(value, "text of a token", MAX_PIECE_LENGTH)
    if len(value) > MAX_PIECE_LENGTH:
        raise RecorderError(f"the text of a token has {len(value):,} bytes; {MAX_PIECE_LENGTH:,} are allowed")
    return [check_int(byte, "byte of a token", 0, 255) for byte in value]


def check_token_ids(value: Any, name: str, max_count: int = MAX_PROMPT_TOKENS) -> Any:
    """Check token ids, (n,) int32; a set is sorted, a number becomes a list."""
    ids = _array(name, sorted(value) if isinstance(value, (set, frozenset)) else value, INTEGERS).reshape(-1)
    if ids.size > max_count:
        raise RecorderError(f"the {name} are {ids.size:,} tokens; {max_count:,} are allowed")
    if ids.min(initial=0) < 0:
        raise RecorderError(f"the {name} have the token {ids.min()}; 0 to {MAX_INT32} are allowed")
    return ids


def check_drafters(value: Any, name: str) -> list[str]:
    """Check the drafters' names."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_DRAFTERS:
        raise RecorderError(f"the {name} are {quoted(value)}; a list of at most {MAX_DRAFTERS} is allowed")
    return [check_text(drafter, name) for drafter in value]


def check_object(value: Any, name: str) -> dict[str, Any]:
    """Check a JSON object."""
    if not isinstance(value, dict):
        raise RecorderError(f"the {name} is {quoted(value)}; an object is allowed")
    return value


def check_sampling(value: Any, name: str = "sampling") -> dict[str, float]:
    """Check the options by which the target chose its tokens."""
    check_names(check_object(value, name), SAMPLING, "The sampling")
    return {part: SAMPLING[part](setting, part) for part, setting in value.items()}


def check_biases(value: Any, name: str) -> tuple[tuple[int, float], ...]:
    """Check pairs of a token and what is added to its logit."""
    pairs = value if isinstance(value, (list, tuple)) and len(value) <= MAX_BIASES else None
    if pairs is None or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise RecorderError(f"the {name} is {quoted(value)}; at most {MAX_BIASES} pairs of token and bias are allowed")
    return tuple((check_int(token, "token of a bias"), check_number(bias, "bias", -1e6, 1e6))
                 for token, bias in pairs)


SAMPLING: dict[str, Callable[[Any, str], Any]] = {
    "temperature": partial(check_number, maximum=1e6), "top_k": partial(check_int, maximum=MAX_SEED),
    "top_p": partial(check_number, maximum=1), "seed": partial(check_int, minimum=-MAX_SEED, maximum=MAX_SEED),
    "min_p": partial(check_number, maximum=1), "repetition_penalty": partial(check_number, maximum=1e6),
    "presence_penalty": partial(check_number, minimum=-1e6, maximum=1e6),
    "frequency_penalty": partial(check_number, minimum=-1e6, maximum=1e6), "logit_bias": check_biases}
REQUEST: dict[str, Callable[[Any, str], Any]] = {
    "method": check_text, "prompt_ids": check_token_ids, "budget": check_int, "max_tokens": check_int,
    "sampling": check_sampling, "stop_ids": partial(check_token_ids, max_count=MAX_STOP_TOKENS)}
HEADER: dict[str, Callable[[Any, str], Any]] = {
    "prompt": check_prompt,
    **dict.fromkeys(("engine", "rig", "hardware", "dtype", "precision", "title", "note"),
                    partial(check_text, max_length=MAX_NOTE_LENGTH)),
    "context_limit": check_int, "every": partial(check_int, minimum=1), "drafter_kinds": check_drafters}
RUN = (*REQUEST, *HEADER, "drafters", "token_text", "strict", "max_pending")
LEGACY_NAMES = {"most_waiting": "max_pending"}  # a name that loops may still use


def check_line(row: bytes, max_bytes: int = MAX_LINE_BYTES, max_values: int = MAX_LINE_VALUES) -> None:
    """Raise RecorderError if a line is too large to be read."""
    if len(row) > max_bytes:
        raise RecorderError(f"its line has {len(row):,} bytes; {max_bytes:,} are allowed")
    if sum(map(row.count, (b",", b"[", b"{"))) > max_values:
        raise RecorderError(f"it has more than {max_values:,} values")


def check_round(line: Mapping[str, Any]) -> None:
    """Raise RecorderError for an invalid round. ``line`` is as in the file, with arrays unpacked.

    Indices must lie in their array. A log probability may be −inf; any number may be NaN, which means not recorded.
    """
    tree, verification, acceptance = line["tree"], line["verification"], line["acceptance"]
    for name in ("drafts", "candidates"):
        if len(line[name]) > MAX_DRAFTERS:
            raise RecorderError(f"the {name} are {len(line[name])}; {MAX_DRAFTERS} are allowed")
    for part in (tree, *line["candidates"]):
        _check_tree(part)
    for draft in line["drafts"]:
        _check_lattice(draft)
    size = len(tree["tokens"])
    check_int(line["index"], "index of a round")
    check_int(line["start"], "start of a round", 0, MAX_INT32 - size)
    check_int(acceptance["bonus"], "bonus token")
    _check_keep(acceptance["keep"], tree["parents"])
    _check_arrays(verification, (size,))
    if (verification.get("choice", np.zeros(1)) < -1).any():
        raise RecorderError("a choice is below -1, which stands for one that was not recorded")
    if (trials := acceptance.get("trials")) is not None:
        _check_arrays(trials, (trials["nodes"].size,), TRIALS)
        nodes = trials["nodes"]
        if nodes.size > MAX_TRACE_NODES or ((nodes < 1) | (nodes >= size)).any():
            raise RecorderError(f"trials of nodes that a tree of {size} rows does not have, or of more than "
                                f"{MAX_TRACE_NODES:,}")
    if len(line["seconds"]) > MAX_STAGES:
        raise RecorderError(f"seconds of {len(line['seconds']):,} stages; {MAX_STAGES} are allowed")
    for stage, seconds in line["seconds"].items():
        check_number(seconds, f"time of {quoted(check_text(stage, 'name of a stage'))}")


def _check_keep(keep: Any, parents: Any) -> None:
    size = len(parents)
    in_range = keep.ndim == 1 and keep.size and keep[0] == 0 and (keep[1:] > 0).all() and keep.max() < size
    if not in_range or (parents[keep[1:]] != keep[:-1]).any():
        raise RecorderError(f"keep is {keep.tolist()}; it has to be a path of the {size} rows that begins with row 0")


def _check_tree(tree: Mapping[str, Any]) -> None:
    tokens, above = tree["tokens"], tree["parents"]
    if tokens.ndim != 1 or not tokens.size or tokens.min() < 0:
        raise RecorderError(f"tokens is of shape {tokens.shape}, from {tokens.min(initial=0)} on; it has to be (n,), "
                            "the root first, each 0 or more")
    if tokens.size > MAX_TRACE_NODES:
        raise RecorderError(f"a tree of {tokens.size:,} nodes; {MAX_TRACE_NODES:,} are allowed")
    _check_arrays(tree, tokens.shape)
    if (wrong := np.flatnonzero((above[1:] < 0) | (above[1:] >= np.arange(1, len(above))))).size:
        node = int(wrong[0]) + 1
        raise RecorderError(f"node {node} has the parent {above[node]}; parents come before their children, so that "
                            f"0 to {node - 1} are allowed")
    if above[0] != 0:
        raise RecorderError(f"the root has the parent {above[0]}; 0 and -1 are allowed")
    drafters = tree.get("drafters", tokens[:0])
    if drafters.size and not 0 <= drafters.min() <= drafters.max() < 1 << MAX_DRAFTERS:
        raise RecorderError(f"drafters reach from {drafters.min()} to {drafters.max()}; bit masks of "
                            f"{MAX_DRAFTERS} drafters are allowed")


def _check_lattice(draft: Mapping[str, Any]) -> None:
    tokens, follow = draft["tokens"], draft["follow"]
    if tokens.ndim != 3:
        raise RecorderError(f"a lattice is of shape {tokens.shape}; (depth, k) and (depth, rows, k) are allowed")
    if tokens.size > MAX_CELLS:
        raise RecorderError(f"a lattice of {tokens.size:,} cells; {MAX_CELLS:,} are allowed")
    _check_arrays(draft, tokens.shape, LATTICE)
    if tokens.min(initial=0) < 0:
        raise RecorderError("a lattice with a token below 0")
    if tokens.size and not 0 <= follow.min() <= follow.max() < tokens.shape[1]:
        raise RecorderError("a lattice that leads to rows that it does not have")


def _check_arrays(arrays: Mapping[str, Any], shape: tuple[int, ...], needed: Any = ()) -> None:
    """Raise RecorderError for arrays of another shape, or with values that are invalid in their field."""
    for name, array in {**{name: arrays[name] for name in needed}, **arrays}.items():
        if array.shape != shape:
            raise RecorderError(f"{name} is of shape {array.shape}; {shape} fits the other arrays")
        if name in ("logprobs", "offered", "processed") and (array > 1.0).any():  # 0, and what rounding adds to it
            raise RecorderError("a log probability above 0")
        infinite = np.isneginf if name == "gap" else np.isinf
        if name in ("entropy", "gap", "chances", "draws") and infinite(array).any():
            raise RecorderError(f"{name} is infinite; finite numbers are allowed")
