"""Reads a GGUF file's header without trusting it.

Every count is checked against the bytes that follow. The readers of gguf and transformers trust the counts: a file of
49 bytes that claims 2⁴⁰ values exhausts their memory. They also make an object of each value, so that number is
limited.
"""

import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType

from engine.checkpoints.files import first_line
from engine.errors import RigError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_VALUES = 2**21  # in all arrays together; the largest vocabularies, with merges, take 1.3 million
MAX_FIELDS, MAX_TENSORS = 2**12, 2**16
MAX_TEXT_BYTES = 2**24  # a chat template has some thousands
MAX_DIMENSIONS = 4
MIN_FIELD_BYTES, MIN_TENSOR_BYTES = 13, 24  # with an empty name
MAX_MODULES = 2**13  # layers, or experts of one
MAX_KEPT_VALUES = 2**10  # of an array of numbers, such as one per layer
ALIGNMENTS = tuple(2**power for power in range(17))
SCALARS: Mapping[GGUFValueType, str] = MappingProxyType({
    GGUFValueType.UINT8: "B", GGUFValueType.INT8: "b", GGUFValueType.UINT16: "H", GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I", GGUFValueType.INT32: "i", GGUFValueType.FLOAT32: "f", GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q", GGUFValueType.INT64: "q", GGUFValueType.FLOAT64: "d"})
FILE_TYPES: Mapping[object, str] = MappingProxyType({
    int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType})


class TensorPlace(NamedTuple):
    """A tensor's format, its number of values, and its offset in the file."""

    kind: str
    size: int
    start: int


class GgufHeader(NamedTuple):
    """A file's metadata: the architecture's name, the format of most weights, such as Q4_1, every field by name (None
    for long arrays and arrays of texts), and its tensors."""

    architecture: str
    quantisation: str
    fields: Mapping[str, object]
    tensors: Mapping[str, TensorPlace]


def read_header(file: Path) -> GgufHeader:
    """Read a file's header; RigError names what is invalid or unsupported."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _HeaderReader(data).header()
    except (ValueError, OSError) as error:
        raise RigError(f"{file.name} cannot be read ({first_line(error)}); fetch it again, or take another file of the "
                       "model, or its safetensors.") from error


class _HeaderReader:
    """Parses a file from its beginning; ValueError if it is invalid."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._size = data, len(data)
        self._position = self._values = 0

    def header(self) -> GgufHeader:
        magic, version = self._take(len(MAGIC), "a magic"), self._number("I")
        if magic != MAGIC or version not in VERSIONS:
            raise ValueError(f"it begins with {magic!r} and the version {version:,}; {MAGIC!r} and 2 or 3 are read")
        tensors = self._count(self._number("Q"), MIN_TENSOR_BYTES, "tensors", MAX_TENSORS)
        fields = self._fields(self._count(self._number("Q"), MIN_FIELD_BYTES, "fields", MAX_FIELDS))
        architecture = str(fields.get("general.architecture", ""))
        for name, values, allowed in (
                ("general.type", ("model",), "'model'"),
                ("split.count", (0, 1), "1, so merge the parts first (llama-gguf-split --merge)"),
                ("general.alignment", ALIGNMENTS, f"a power of two up to {ALIGNMENTS[-1]:,}"),
                *((f"{architecture}.{modules}", range(MAX_MODULES + 1), f"0 to {MAX_MODULES:,}")
                  for modules in ("block_count", "expert_count"))):
            if fields.get(name, values[-1]) not in values:
                raise ValueError(f"it has {name} {fields[name]!r:.40}; it has to be {allowed}")
        places = self._tensors(tensors, int(fields.get("general.alignment", 32)))
        values_of = Counter[str]()
        for place in places.values():
            values_of[place.kind] += place.size
        commonest = values_of.most_common(1)[0][0]
        return GgufHeader(architecture, FILE_TYPES.get(fields.get("general.file_type"), commonest), fields, places)

    def _fields(self, count: int) -> dict[str, Any]:
        """Return the values of fields by name; None for an array of texts or a long one."""
        fields: dict[str, Any] = {}
        for _ in range(count):
            name = self._text()
            if name in fields:
                raise ValueError(f"it has two fields {name!r:.60}")
            kind = GGUFValueType(self._number("I"))
            if kind == GGUFValueType.ARRAY:
                fields[name] = self._array()
            else:
                fields[name] = self._text() if kind == GGUFValueType.STRING else self._number(SCALARS[kind])
        return fields

    def _array(self) -> tuple[Any, ...] | None:
        """Return the values of a short array of numbers; skip others."""
        kind, count = GGUFValueType(self._number("I")), self._number("Q")
        if kind == GGUFValueType.ARRAY:
            raise ValueError("it has an array of arrays, which no model needs")
        min_bytes = 8 if kind == GGUFValueType.STRING else struct.calcsize(SCALARS[kind])
        self._values += self._count(count, min_bytes, "values of an array", MAX_VALUES - self._values)
        if kind != GGUFValueType.STRING:
            data = self._take(count * min_bytes, "an array")
            return struct.unpack(f"<{count}{SCALARS[kind]}", data) if count <= MAX_KEPT_VALUES else None
        for _ in range(count):
            self._text()
        return None

    def _tensors(self, count: int, alignment: int) -> dict[str, TensorPlace]:
        """Return each tensor's place; ValueError if the tensors take more bytes than are left."""
        places: dict[str, TensorPlace] = {}
        end = total = 0
        for _ in range(count):
            name = self._text()
            shape = [self._number("Q") for _ in range(self._count(self._number("I"), 8, "dimensions", MAX_DIMENSIONS))]
            kind, offset = GGMLQuantizationType(self._number("I")), self._number("Q")
            per_block, block_bytes = GGML_QUANT_SIZES[kind]
            if not shape or 0 in shape or shape[0] % per_block:
                raise ValueError(f"the tensor {name!r:.60} has the shape {shape}, which {kind.name} cannot hold")
            size = prod(shape) // per_block * block_bytes
            places[name] = TensorPlace(kind.name, prod(shape), offset)
            end, total = max(end, offset + size), total + size
        start = self._position + -self._position % alignment
        if not places or max(end, total) > self._size - start:
            raise ValueError(f"its {len(places)} tensors take {max(end, total):,} bytes, and "
                             f"{max(0, self._size - start):,} are left")
        return {name: place._replace(start=start + place.start) for name, place in places.items()}

    def _count(self, count: int, min_bytes: int, unit: str, limit: int) -> int:
        left = self._size - self._position
        if count > min(limit, left // min_bytes):
            raise ValueError(f"it says {count:,} {unit}; at most {limit:,} are read, and {left:,} bytes are left")
        return count

    def _text(self) -> str:
        return self._take(self._count(self._number("Q"), 1, "bytes of a text", MAX_TEXT_BYTES), "a text").decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(form), "a number"))[0]

    def _take(self, size: int, unit: str) -> bytes:
        if size > self._size - self._position:
            raise ValueError(f"it ends within {unit} of {size:,} bytes")
        self._position += size
        return self._data[self._position - size:self._position]
