"""Files that arrive in pieces: put together, bounded, given up where they stop."""

import base64

import pytest

from engine.errors import RequestError
from explorer import uploads
from explorer.uploads import Uploads


def piece(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sent(files: Uploads, *parts: bytes) -> str:
    """The name of a file that was sent in those pieces."""
    name = ""
    for part in parts:
        name = files.take({"upload": name, "data": piece(part)})["upload"]
    return name


def test_a_file_is_joined_from_its_pieces_and_handed_over_once() -> None:
    files = Uploads(2**20)
    one, other = sent(files, b"ab", b"c"), sent(files, b"")
    assert one != other
    assert [files.take_complete({"upload": name}) for name in (one, other)] == [b"abc", b""]
    for call in (files.take_complete, files.take):
        with pytest.raises(RequestError, match="did not arrive whole"):
            call({"upload": one, "data": ""})
    assert files.take_complete({"data": piece(b"small")}) == b"small"


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
        files.take_complete({"upload": name})
    with pytest.raises(RequestError, match="larger than 1 MiB"):
        files.take_complete({"data": piece(b"x" * (2**20 + 1))})


def test_few_arrive_at_once_and_one_that_stops_makes_room() -> None:
    now = [0.0]
    files = Uploads(9, lambda: now[0])
    names = [sent(files, b"x") for _ in range(uploads.MAX_AT_ONCE)]
    with pytest.raises(RequestError, match="in a minute"):
        sent(files, b"x")
    now[0] = uploads.UPLOAD_TIMEOUT_SECONDS
    files.take({"upload": names[0], "data": ""})
    now[0] = uploads.UPLOAD_TIMEOUT_SECONDS + 1
    assert sent(files, b"y") and files.take_complete({"upload": names[0]}) == b"x"
    with pytest.raises(RequestError, match="did not arrive whole"):
        files.take_complete({"upload": names[1]})
