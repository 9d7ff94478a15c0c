"""Files that arrive in pieces: put together, bounded, given up where they stop."""

import base64

import pytest

from engine.errors import RequestError
from explorer.uploads import DAMAGED, MAX_INCOMPLETE_FILES, Uploads


def sent(files: Uploads, *parts: bytes, name: str = "") -> str:
    """The name of a file that was sent in those pieces."""
    for part in parts:
        name = files.receive({"upload": name, "data": base64.b64encode(part).decode()})["upload"]
    return name


def test_a_file_is_joined_from_its_pieces_and_handed_over_once() -> None:
    files = Uploads(2**20)
    one, other = sent(files, b"ab", b"c"), sent(files, b"")
    assert [files.collect({"upload": name}) for name in (one, other)] == [b"abc", b""]
    for call in (files.collect, files.receive):
        with pytest.raises(RequestError, match=DAMAGED):
            call({"upload": one, "data": ""})
    assert files.collect({"data": "c21hbGw="}) == b"small"


@pytest.mark.parametrize("data", ["!", "AAA", "\ud800", 3, ["x"]])
def test_a_damaged_piece_is_refused(data: object) -> None:
    with pytest.raises(RequestError, match=DAMAGED):
        Uploads(9).receive({"data": data})


def test_too_much_is_refused_and_forgotten() -> None:
    files = Uploads(2**20)
    name = sent(files, b"x" * 2**20)
    with pytest.raises(RequestError, match="1 MiB"):
        sent(files, b"x", name=name)
    with pytest.raises(RequestError, match=DAMAGED):
        files.collect({"upload": name})
    with pytest.raises(RequestError, match="1 MiB"):
        files.collect({"data": base64.b64encode(b"x" * (2**20 + 1)).decode()})


def test_few_arrive_at_once_and_one_that_stops_makes_room() -> None:
    files = Uploads(9)
    going, stopped, *_ = [sent(files, b"x") for _ in range(MAX_INCOMPLETE_FILES)]
    sent(files, b"y", name=going)
    sent(files, b"new")
    assert files.collect({"upload": going}) == b"xy"
    with pytest.raises(RequestError, match=DAMAGED):
        files.collect({"upload": stopped})
