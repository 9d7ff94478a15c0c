"""Files that arrive in pieces: joined, limited in size, dropped if they stop."""

import base64

import pytest

from engine.errors import RequestError
from explorer.uploads import DAMAGED, MAX_INCOMPLETE_FILES, Uploads


def send(files: Uploads, *parts: bytes, name: str = "") -> str:
    """Send a file in those pieces; return its name."""
    for part in parts:
        name = files.receive({"upload": name, "data": base64.b64encode(part).decode()})["upload"]
    return name


def test_a_file_is_joined_from_its_pieces_and_taken_once() -> None:
    files = Uploads(2**20)
    one, other = send(files, b"ab", b"c"), send(files, b"")
    assert [files.collect({"upload": name}) for name in (one, other)] == [b"abc", b""]
    for call in (files.collect, files.receive):
        with pytest.raises(RequestError, match=DAMAGED):
            call({"upload": one, "data": ""})
    assert files.collect({"data": "c21hbGw="}) == b"small"


@pytest.mark.parametrize("data", ["!", "AAA", "\ud800", 3, ["x"]])
def test_a_damaged_piece_is_refused(data: object) -> None:
    with pytest.raises(RequestError, match=DAMAGED):
        Uploads(9).receive({"data": data})


def test_a_file_that_is_too_large_is_refused_and_dropped() -> None:
    files = Uploads(2**20)
    name = send(files, b"x" * 2**20)
    with pytest.raises(RequestError, match="1 MiB"):
        send(files, b"x", name=name)
    with pytest.raises(RequestError, match=DAMAGED):
        files.collect({"upload": name})
    with pytest.raises(RequestError, match="1 MiB"):
        files.collect({"data": base64.b64encode(b"x" * (2**20 + 1)).decode()})


def test_concurrent_uploads_are_limited_and_one_that_stalls_is_dropped() -> None:
    files = Uploads(9)
    going, stopped, *_ = [send(files, b"x") for _ in range(MAX_INCOMPLETE_FILES)]
    send(files, b"y", name=going)
    send(files, b"new")
    assert files.collect({"upload": going}) == b"xy"
    with pytest.raises(RequestError, match=DAMAGED):
        files.collect({"upload": stopped})
