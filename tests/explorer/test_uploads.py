"""Files that arrive in pieces: put together, bounded, given up where they stop."""

import base64
import json
from typing import Any

import pytest

from engine.errors import RequestError
from engine.lab.reading import reading_of
from engine.trace import Trace, dumps, loads
from explorer import uploads
from explorer.export import EXPORTS, export
from explorer.page import opening_form
from explorer.recordings import Lesson
from explorer.runs import Run
from explorer.uploads import Uploads
from tests.explorer.scripted import scripted_trace


def piece(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sent(files: Uploads, *parts: bytes) -> str:
    """The name of a file that was sent in those pieces."""
    name = ""
    for part in parts:
        name = files.take({"upload": name, "data": piece(part)})["upload"]
    return name


def test_a_file_is_what_its_pieces_were_and_is_handed_over_once() -> None:
    files = Uploads(2**20)
    one, other = sent(files, b"ab", b"c"), sent(files, b"")
    assert one != other and files.whole({"upload": one}) == b"abc" and files.whole({"upload": other}) == b""
    for call in (files.whole, files.take):
        with pytest.raises(RequestError, match="did not arrive whole"):
            call({"upload": one, "data": ""})
    assert files.whole({"data": piece(b"small")}) == b"small"


@pytest.mark.parametrize("data", ["!", "AAA", "\ud800", 3, ["x"]])
def test_a_damaged_piece_is_refused(data: object) -> None:
    with pytest.raises(RequestError, match="did not arrive whole"):
        Uploads(9).take({"data": data})


def test_too_much_is_refused_and_forgotten() -> None:
    files = Uploads(2**20)
    name = sent(files, b"x" * 2**20)
    with pytest.raises(RequestError, match="larger than 1 MiB"):
        files.take({"upload": name, "data": piece(b"x")})
    with pytest.raises(RequestError, match="did not arrive whole"):
        files.whole({"upload": name})
    with pytest.raises(RequestError, match="larger than 1 MiB"):
        files.whole({"data": piece(b"x" * (2**20 + 1))})


def test_few_arrive_at_once_and_one_that_stops_makes_room() -> None:
    now = [0.0]
    files = Uploads(9, lambda: now[0])
    names = [sent(files, b"x") for _ in range(uploads.MAX_AT_ONCE)]
    with pytest.raises(RequestError, match="in a minute"):
        sent(files, b"x")
    now[0] = uploads.LAPSE_SECONDS
    files.take({"upload": names[0], "data": ""})
    now[0] = uploads.LAPSE_SECONDS + 1
    assert sent(files, b"y") and files.whole({"upload": names[0]}) == b"x"
    with pytest.raises(RequestError, match="did not arrive whole"):
        files.whole({"upload": names[1]})


WHOLE = [dumps(scripted_trace(method, 6, max_tokens=6)).splitlines()
         for method in ("merged", "nanogpt", "autoregressive")]
BARE = [json.dumps(line).encode() for line in (
    {"canopy_trace": 4, "header": {"prompt": "x", "request": {"method": "their own"}, "engine": "theirs"}},
    {"round": {"index": 0, "start": 0, "acceptance": {
        "keep": {"dtype": "<i4", "shape": [1], "data": "AAAAAA=="}, "bonus": 3},
        "tree": {"tokens": {"dtype": "<i4", "shape": [2], "data": "BQAAAAYAAAA="},
                 "parents": {"dtype": "<i4", "shape": [2], "data": "AAAAAAAAAAA="}}},
     "pieces": {}, "elapsed_seconds": 0}, {"end": {"reason": "stop", "rounds": 1, "seconds": 1}})]


def strict(text: str) -> Any:
    """JSON as a browser takes it: without NaN and infinities."""
    def refuse(name: str) -> None:
        raise AssertionError(f"a browser cannot read {name}")
    return json.loads(text, parse_constant=refuse)


def use(trace: Trace) -> None:
    """Everything that is done with a trace that somebody opened."""
    for line in (run := Run.recorded("run", trace)).whole():
        strict(line.decode())
    strict(json.dumps(Lesson("run", trace).summary(None)))
    opening_form(Lesson("run", trace), ())
    for kind in EXPORTS:
        if trace.entries:
            export(kind, run, 0)
    assert dumps(loads(dumps(trace))) == dumps(trace)
    reading_of(trace)


def test_what_a_recorder_does_not_know_reaches_the_browser_as_nothing() -> None:
    for lines in (BARE, *WHOLE):
        use(loads(b"\n".join(lines) + b"\n"))
    line = json.loads(BARE[1])
    line["round"]["candidates"] = [line["round"]["tree"]]  # without the drafter's log probabilities
    trace = loads(b"\n".join([BARE[0], json.dumps(line).encode(), BARE[2]]) + b"\n")
    use(trace)
