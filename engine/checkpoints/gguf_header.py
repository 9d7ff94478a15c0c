"""Reads the header of a GGUF file, checking every count against the bytes that follow before anything is read by it.

The readers of gguf and transformers believe a header: an array of 2⁴⁰ values in a file of 49 bytes keeps them busy
until memory is full. They also make an object of each value, so the number of values is limited too.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_VALUES = 2**21  # in all arrays together; the largest vocabularies, with merges, take 1.3 million
MOST_FIELDS, MOST_TENSORS = 2**12, 2**16
LONGEST_TEXT = 2**24  # bytes; a chat template has some thousands
MOST_DIMENSIONS = 4
LEAST_FIELD_BYTES, LEAST_TENSOR_BYTES = 13, 24  # of an empty name, and of what follows it at least
MOST_MODULES = 2**13  # layers, or experts of one
SCALARS: Mapping[GGUFValueType, str] = MappingProxyType({
    GGUFValueType.UINT8: "B", GGUFValueType.INT8: "b", GGUFValueType.UINT16: "H", GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I", GGUFValueType.INT32: "i", GGUFValueType.FLOAT32: "f", GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q", GGUFValueType.INT64: "q", GGUFValueType.FLOAT64: "d"})


class GgufHeader(NamedTuple):
    """What a file says of its model: the architecture's name, and how most weights are stored, such as Q4_1."""

    architecture: str
    quantisation: str


def read_header(file: Path) -> GgufHeader:
    """The header of a GGUF file; ValueError says which count or size in it cannot be, or where the file ends."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _HeaderReader(data).header()


class _HeaderReader:
    """Walks a file from its beginning."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._size = data, len(data)
        self._place = self._values = 0

    def header(self) -> GgufHeader:
        """See ``read_header``."""
        self._take(len(MAGIC), "its magic")
        if (version := self._number("I")) not in VERSIONS:
            raise ValueError(f"it is of version {version}, and 2 and 3 in little-endian order are read")
        tensors = self._count(self._number("Q"), LEAST_TENSOR_BYTES, "tensors", MOST_TENSORS)
        fields = self._fields(self._count(self._number("Q"), LEAST_FIELD_BYTES, "fields", MOST_FIELDS))
        sizes = self._tensors(tensors, fields)
        name = str(fields.get("general.architecture", ""))
        for counted in ("block_count", "expert_count"):
            if (modules := fields.get(f"{name}.{counted}", 0)) not in range(MOST_MODULES + 1):
                raise ValueError(f"it says {modules!r:.40} under {counted}, and 0 to {MOST_MODULES:,} are read")
        if not sizes:
            raise ValueError("it has no tensors")
        return GgufHeader(name, _quantisation(fields.get("general.file_type"), sizes))

    def _fields(self, count: int) -> dict[str, object]:
        """The values of single fields by name; None for an array's."""
        fields: dict[str, object] = {}
        for _ in range(count):
            name = self._text()
            if name in fields:
                raise ValueError(f"it has two fields {name!r:.60}")
            kind = GGUFValueType(self._number("I"))
            fields[name] = None if kind == GGUFValueType.ARRAY else self._value(kind)
            if kind == GGUFValueType.ARRAY:
                self._skip_array()
        return fields

    def _skip_array(self) -> None:
        kind, count = GGUFValueType(self._number("I")), self._number("Q")
        if kind == GGUFValueType.ARRAY:
            raise ValueError("it has an array of arrays, which no model needs")
        least = 8 if kind == GGUFValueType.STRING else struct.calcsize(SCALARS[kind])
        self._values += self._count(count, least, "values of an array", MOST_VALUES - self._values)
        if kind != GGUFValueType.STRING:
            self._take(count * least, "an array")
            return
        for _ in range(count):
            self._text()

    def _tensors(self, count: int, fields: Mapping[str, object]) -> dict[str, int]:
        """The bytes of tensors by the name of their type. They lie beside each other, none outside the file."""
        sizes: dict[str, int] = {}
        furthest = 0
        for _ in range(count):
            name = self._text()
            shape = [self._number("Q") for _ in range(self._count(self._number("I"), 8, "dimensions", MOST_DIMENSIONS))]
            kind, offset = GGMLQuantizationType(self._number("I")), self._number("Q")
            per_block, block_bytes = GGML_QUANT_SIZES[kind]
            if not shape or 0 in shape or shape[0] % per_block:
                raise ValueError(f"the tensor {name!r:.60} has the shape {shape}, which {kind.name} cannot hold")
            size = prod(shape) // per_block * block_bytes
            sizes[kind.name] = sizes.get(kind.name, 0) + size
            furthest = max(furthest, offset + size)
        step = fields.get("general.alignment", 32)
        if not isinstance(step, int) or step not in (2**power for power in range(17)):
            raise ValueError(f"it aligns tensors at {step!r:.40}, which is no power of two up to 65,536")
        left = self._size + -self._place // step * step
        if max(furthest, sum(sizes.values())) > left:
            raise ValueError(f"its tensors take {max(furthest, sum(sizes.values())):,} bytes, and {max(0, left):,} are "
                             "left")
        return sizes

    def _count(self, count: int, least: int, what: str, most: int) -> int:
        """The count, if the rest of the file can hold so many."""
        if count * least > self._size - self._place:
            raise ValueError(f"it says {count:,} {what}, and {self._size - self._place:,} bytes are left")
        if count > most:
            raise ValueError(f"it says {count:,} {what}, and at most {most:,} are read")
        return count

    def _text(self) -> str:
        return self._take(self._count(self._number("Q"), 1, "bytes of a text", LONGEST_TEXT), "a text").decode()

    def _value(self, kind: GGUFValueType) -> object:
        return self._text() if kind == GGUFValueType.STRING else self._unpacked(SCALARS[kind])

    def _number(self, form: str) -> int:
        return int(self._unpacked(form))

    def _unpacked(self, form: str) -> float:
        value: float = struct.unpack(f"<{form}", self._take(struct.calcsize(form), "a number"))[0]
        return value

    def _take(self, size: int, what: str) -> bytes:
        if size > self._size - self._place:
            raise ValueError(f"it ends within {what} of {size:,} bytes")
        self._place += size
        return self._data[self._place - size:self._place]


def _quantisation(said: object, sizes: Mapping[str, int]) -> str:
    """How most weights are stored: as the file says, else by the tensors' types."""
    if isinstance(said, int):
        return LlamaFileType(said).name.removeprefix("MOSTLY_").removeprefix("ALL_")
    return max(sizes, key=lambda name: sizes[name])
