"""No count in a GGUF file's header is believed: a file that lies is refused at once, and memory stays as it is."""

import time
import tracemalloc
from pathlib import Path
from random import Random
from struct import pack

import numpy as np
import pytest

from engine.checkpoints.gguf import convert_gguf
from engine.checkpoints.gguf_header import header_of
from engine.errors import RigError
from tests.engine.checkpoints.test_gguf import small_llama, write_gguf

TEXT, ARRAY, UINT8, UINT32 = 8, 9, 0, 4
LOOPS = b"GGUF" + pack("<IQQ", 3, 0, 1) + pack("<Q", 1) + b"a" + pack("<IIQ", ARRAY, UINT8, 2**40)  # 49 bytes


def field(name: bytes, kind: int, value: bytes) -> bytes:
    return pack("<Q", len(name)) + name + pack("<I", kind) + value


def with_fields(*fields: bytes, tensors: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + pack("<IQQ", 3, tensors, len(fields)) + b"".join(fields) + rest


def tensor(*shape: int, kind: int = 0, offset: int = 0, name: bytes = b"t") -> bytes:
    return pack("<Q", len(name)) + name + pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


LIES = {
    "values of an array": LOOPS,
    "texts of an array": with_fields(field(b"a", ARRAY, pack("<IQ", TEXT, 2**61))),
    "an array of arrays": with_fields(field(b"a", ARRAY, pack("<IQ", ARRAY, 1) * 400)),
    "fields": b"GGUF" + pack("<IQQ", 3, 0, 2**63) + bytes(60),
    "many empty fields": b"GGUF" + pack("<IQQ", 3, 0, 2**20) + bytes(14 * 2**20),
    "tensors": b"GGUF" + pack("<IQQ", 3, 2**63, 0) + bytes(60),
    "many values": with_fields(field(b"a", ARRAY, pack("<IQ", UINT8, 2**23) + bytes(2**23))),
    "a field's name": b"GGUF" + pack("<IQQQ", 3, 0, 1, 2**62) + bytes(60),
    "a text": with_fields(field(b"a", TEXT, pack("<Q", 2**62)) + bytes(60)),
    "a kind of field": with_fields(field(b"a", 77_000, b"")),
    "dimensions": with_fields(tensors=1, rest=pack("<Q", 1) + b"t" + pack("<I", 2**32 - 1) + bytes(60)),
    "a large tensor": with_fields(tensors=1, rest=tensor(2**62, 2**62) + bytes(60)),
    "a tensor outside": with_fields(tensors=1, rest=tensor(1, offset=2**63) + bytes(60)),
    "tensors on one another": with_fields(tensors=3, rest=b"".join(
        tensor(16, name=name) for name in (b"a", b"b", b"c")) + bytes(120)),
    "half a block": with_fields(tensors=1, rest=tensor(33, kind=2) + bytes(60)),
    "no alignment": with_fields(field(b"general.alignment", UINT32, pack("<I", 0)), tensors=1, rest=tensor(1)),
    "a version": b"GGUF" + pack("<IQQ", 2**31 + 2**15, 0, 0) + bytes(60),
    "layers": with_fields(field(b"general.architecture", TEXT, pack("<Q", 5) + b"llama"),
                          field(b"llama.block_count", UINT32, pack("<I", 2**31)), tensors=1,
                          rest=tensor(1) + bytes(60)),
    "nothing": b"GGUF",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused(lie: str, tmp_path: Path) -> None:
    (tmp_path / "lies.gguf").write_bytes(LIES[lie])
    with pytest.raises(RigError, match=r"^lies.gguf is cut off or damaged \(.*\); fetch it again\.$"):
        header_of(tmp_path / "lies.gguf")


@pytest.mark.parametrize("lie", ["values of an array", "many values", "many empty fields"])
def test_memory_stays_as_it_is(lie: str, tmp_path: Path) -> None:
    (tmp_path / "lies.gguf").write_bytes(LIES[lie])
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(RigError):
            convert_gguf(str(tmp_path / "lies.gguf"))
        seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20 + len(LIES[lie]) and seconds < 2


def test_a_sound_file_says_what_it_holds(tmp_path: Path) -> None:
    header = header_of(write_gguf(tmp_path / "small.gguf", small_llama(), "Q4_1"))
    assert (header.architecture, header.quantisation, header.fields["llama.block_count"]) == ("llama", "Q4_1", 2)
    place = header.tensors["output_norm.weight"]
    assert np.fromfile(tmp_path / "small.gguf", np.float32, place.size, offset=place.start).tolist() == [1.0] * 64


STRANGE = {
    "version 4": ("4", b"GGUF" + pack("<IQQ", 4, 0, 0) + bytes(60)),
    "version 1": ("1", b"GGUF" + pack("<III", 1, 0, 0) + bytes(60)),
    "byte order": ("big-endian", b"GGUF" + pack(">IQQ", 3, 0, 0) + bytes(60)),
    "an adapter": ("'adapter'", with_fields(field(b"general.type", TEXT, pack("<Q", 7) + b"adapter"), rest=bytes(60))),
    "one part": ("5 parts", with_fields(field(b"split.count", 2, pack("<H", 5)), rest=bytes(60))),
    "type of a tensor": ("'t' as type 99", with_fields(tensors=1, rest=tensor(32, kind=99) + bytes(60))),
    "type of a field": ("'a' of type 77", with_fields(field(b"a", 77, b""))),
    "type of an array": ("'a' of type 78", with_fields(field(b"a", ARRAY, pack("<IQ", 78, 1))))}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_unknown_is_not_called_damaged(what: str, tmp_path: Path) -> None:
    named, data = STRANGE[what]
    (tmp_path / "new.gguf").write_bytes(data)
    with pytest.raises(RigError) as caught:
        header_of(tmp_path / "new.gguf")
    assert named in str(caught.value) and "damaged" not in str(caught.value)


def test_an_unknown_file_type_is_told_by_the_tensors(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf", small_llama(), "Q4_1")
    data = path.read_bytes()
    key = b"general.file_type" + pack("<I", UINT32)
    start = data.index(key) + len(key)
    path.write_bytes(data[:start] + pack("<I", 999) + data[start + 4:])
    assert header_of(path).quantisation == "Q4_1"


def test_damage_anywhere_in_a_header_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "kept"))
    whole, random = write_gguf(tmp_path / "small.gguf", small_llama(), "Q8_0").read_bytes(), Random(7)
    for _ in range(300):
        start, size = random.randrange(4, 3000), random.choice((1, 4, 8))
        damage = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
        (tmp_path / "odd.gguf").write_bytes((whole[:start] + damage + whole[start + size:])[:random.choice((
            len(whole), len(whole), random.randrange(8, len(whole))))])
        try:
            header_of(tmp_path / "odd.gguf")
        except RigError as error:
            assert "\n" not in str(error)
    assert convert_gguf(str(tmp_path / "small.gguf")).is_dir()
