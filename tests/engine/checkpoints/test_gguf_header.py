"""No count in a GGUF header is trusted: a false one is refused at once and takes no memory."""

import time
import tracemalloc
from pathlib import Path
from random import Random
from struct import pack

import numpy as np
import pytest

from engine.checkpoints.gguf import convert_gguf
from engine.checkpoints.gguf_header import read_header
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


REFUSED = {  # a part of the refusal's message, and the file
    "values of an array": (f"{2**40:,}", LOOPS),
    "texts of an array": (f"{2**61:,}", with_fields(field(b"a", ARRAY, pack("<IQ", TEXT, 2**61)))),
    "arrays of arrays": ("arrays", with_fields(field(b"a", ARRAY, pack("<IQ", ARRAY, 1) * 400))),
    "fields": (f"{2**63:,}", b"GGUF" + pack("<IQQ", 3, 0, 2**63) + bytes(60)),
    "empty fields": (f"{2**20:,}", b"GGUF" + pack("<IQQ", 3, 0, 2**20) + bytes(14 * 2**20)),
    "equal fields": ("'a'", with_fields(*[field(b"a", UINT32, bytes(4))] * 2, rest=bytes(60))),
    "tensors": (f"{2**63:,}", b"GGUF" + pack("<IQQ", 3, 2**63, 0) + bytes(60)),
    "many values": (f"{2**23:,}", with_fields(field(b"a", ARRAY, pack("<IQ", UINT8, 2**23) + bytes(2**23)))),
    "a field's name": (f"{2**62:,}", b"GGUF" + pack("<IQQQ", 3, 0, 1, 2**62) + bytes(60)),
    "a text": (f"{2**62:,}", with_fields(field(b"a", TEXT, pack("<Q", 2**62)) + bytes(60))),
    "a type of field": ("77000", with_fields(field(b"a", 77_000, b""))),
    "a type of values": ("78", with_fields(field(b"a", ARRAY, pack("<IQ", 78, 1)))),
    "dimensions": ("dimensions", with_fields(
        tensors=1, rest=pack("<Q", 1) + b"t" + pack("<I", 2**32 - 1) + bytes(60))),
    "a large tensor": ("tensors take", with_fields(tensors=1, rest=tensor(2**62, 2**62) + bytes(60))),
    "a tensor outside": ("tensors take", with_fields(tensors=1, rest=tensor(1, offset=2**63) + bytes(60))),
    "tensors on one another": ("tensors take", with_fields(
        tensors=3, rest=b"".join(tensor(16, name=name) for name in (b"a", b"b", b"c")) + bytes(120))),
    "half a block": ("'t'", with_fields(tensors=1, rest=tensor(33, kind=2) + bytes(60))),
    "a type of tensor": ("99", with_fields(tensors=1, rest=tensor(32, kind=99) + bytes(60))),
    "no tensors": ("0 tensors", with_fields()),
    "alignment": ("general.alignment 0", with_fields(
        field(b"general.alignment", UINT32, pack("<I", 0)), tensors=1, rest=tensor(1))),
    "layers": (f"llama.block_count {2**31}", with_fields(
        field(b"general.architecture", TEXT, pack("<Q", 5) + b"llama"),
        field(b"llama.block_count", UINT32, pack("<I", 2**31)), tensors=1, rest=tensor(1) + bytes(60))),
    "an adapter": ("'adapter'", with_fields(field(b"general.type", TEXT, pack("<Q", 7) + b"adapter"), rest=bytes(60))),
    "one part": ("split.count 5", with_fields(field(b"split.count", 2, pack("<H", 5)), rest=bytes(60))),
    "version 4": ("version 4", b"GGUF" + pack("<IQQ", 4, 0, 0) + bytes(60)),
    "big-endian": ("version 50,331,648", b"GGUF" + pack(">IQQ", 3, 0, 0) + bytes(60)),
    "an archive": ("b'PK a'", b"PK and so on"), "a magic alone": ("number", b"GGUF"), "nothing": ("empty", b"")}


@pytest.mark.parametrize("what", REFUSED)
def test_a_false_or_unknown_header_is_refused_at_once_without_memory(what: str, tmp_path: Path) -> None:
    named, data = REFUSED[what]
    (tmp_path / "odd.gguf").write_bytes(data)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(RigError) as caught:
            convert_gguf(str(tmp_path / "odd.gguf"))
        seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "odd.gguf" in str(caught.value) and named in str(caught.value)
    assert peak < 8 * 2**20 + len(data) and seconds < 2


def test_a_large_file_of_another_format_is_not_read_completely(tmp_path: Path) -> None:
    with (tmp_path / "odd.gguf").open("wb") as file:
        file.truncate(2**33)  # takes no space on the disk
    began = time.process_time()
    with pytest.raises(RigError, match="odd.gguf"):
        convert_gguf(str(tmp_path / "odd.gguf"))
    assert time.process_time() - began < 1


def test_a_header_is_read_and_an_unknown_file_type_goes_by_its_tensors(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf", small_llama(), "Q4_1")
    header, data = read_header(path), path.read_bytes()
    assert (header.architecture, header.quantisation, header.fields["llama.block_count"]) == ("llama", "Q4_1", 2)
    place = header.tensors["output_norm.weight"]
    assert np.fromfile(path, np.float32, place.size, offset=place.start).tolist() == [1.0] * 64
    key = b"general.file_type" + pack("<I", UINT32)
    start = data.index(key) + len(key)
    path.write_bytes(data[:start] + pack("<I", 999) + data[start + 4:])
    assert read_header(path).quantisation == "Q4_1"


def test_damage_anywhere_in_a_header_raises_no_other_error(tmp_path: Path) -> None:
    whole, random = write_gguf(tmp_path / "small.gguf", small_llama(), "Q8_0").read_bytes(), Random(7)
    for _ in range(300):
        start, size = random.randrange(4, 3000), random.choice((1, 4, 8))
        damage = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
        (tmp_path / "odd.gguf").write_bytes((whole[:start] + damage + whole[start + size:])[:random.choice((
            len(whole), len(whole), random.randrange(8, len(whole))))])
        try:
            read_header(tmp_path / "odd.gguf")
        except RigError as error:
            assert "\n" not in str(error)
