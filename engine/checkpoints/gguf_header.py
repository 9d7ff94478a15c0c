"""Reads a GGUF file's header without believing it.

Every count is checked against the bytes that follow: the readers of gguf and transformers believe it, so that an array
of 2⁴⁰ values in a file of 49 bytes keeps them busy until memory is full. They also make an object of each value, so the
number of values is limited too.
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
MIN_FIELD_BYTES, MIN_TENSOR_BYTES = 13, 24  # of an empty name, and of what follows it at least
MAX_MODULES = 2**13  # layers, or experts of one
MAX_KEPT_VALUES = 2**10  # of an array of numbers: one a layer, or one a rotary section
MAX_TYPE = 2**8  # a larger number is no type that somebody added, but damage
SCALARS: Mapping[GGUFValueType, str] = MappingProxyType({
    GGUFValueType.UINT8: "B", GGUFValueType.INT8: "b", GGUFValueType.UINT16: "H", GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I", GGUFValueType.INT32: "i", GGUFValueType.FLOAT32: "f", GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q", GGUFValueType.INT64: "q", GGUFValueType.FLOAT64: "d"})


class TensorPlace(NamedTuple):
    """How a tensor is stored, how many values it has, and where in the file it begins."""

    kind: str
    size: int
    start: int


class GgufHeader(NamedTuple):
    """What a file says of its model: the architecture's name, how most weights are stored, such as Q4_1, every field by
    name (None for long arrays and arrays of texts), and where its tensors lie."""

    architecture: str
    quantisation: str
    fields: Mapping[str, object]
    tensors: Mapping[str, TensorPlace]


class UnknownError(ValueError):
    """What stands there may be sound, and Canopy does not know it."""


def header_of(file: Path) -> GgufHeader:
    """What the file says of its model; RigError says which count or size in it cannot be, or where the file ends."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _HeaderReader(data).header()
    except UnknownError as error:
        raise RigError(f"{file.name} {error}; take another file of the model, or its safetensors.") from error
    except (ValueError, KeyError, OSError) as error:
        raise RigError(f"{file.name} is cut off or damaged ({first_line(error)}); fetch it again.") from error


class _HeaderReader:
    """Walks a file from its beginning; ValueError if that cannot be."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._size = data, len(data)
        self._position = self._values = 0

    def header(self) -> GgufHeader:
        self._take(len(MAGIC), "its magic")
        version = self._number("I")
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version > MAX_TYPE and swapped <= MAX_TYPE:
            raise UnknownError("is in big-endian byte order, and only little-endian files are read")
        if version not in VERSIONS:
            raise self._unknown("is of the GGUF version", version, "2 and 3")
        tensors = self._count(self._number("Q"), MIN_TENSOR_BYTES, "tensors", MAX_TENSORS)
        fields = self._fields(self._count(self._number("Q"), MIN_FIELD_BYTES, "fields", MAX_FIELDS))
        if (kind := fields.get("general.type", "model")) != "model":
            raise UnknownError(f"holds {kind!r:.40} and no model, by its general.type")
        if fields.get("split.count", 1) not in (0, 1):
            raise UnknownError(f"is one of {fields['split.count']!r:.20} parts; merge them first "
                               "(llama-gguf-split --merge)")
        places = self._tensors(tensors, fields)
        name = str(fields.get("general.architecture", ""))
        for counted in ("block_count", "expert_count"):
            if (modules := fields.get(f"{name}.{counted}", 0)) not in range(MAX_MODULES + 1):
                raise ValueError(f"it says {modules!r:.40} under {counted}, and 0 to {MAX_MODULES:,} are read")
        if not places:
            raise ValueError("it has no tensors")
        values: Counter[str] = Counter()
        for place in places.values():
            values[place.kind] += place.size
        # how most weights are stored: as the file says if it says something known, else by the tensors' types
        names: dict[object, str] = {
            int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
        quantisation = names.get(fields.get("general.file_type"), values.most_common(1)[0][0])
        return GgufHeader(name, quantisation, fields, places)

    def _fields(self, count: int) -> dict[str, object]:
        """Return the values of fields by name; None for an array of texts or a long one."""
        fields: dict[str, object] = {}
        for _ in range(count):
            name = self._text()
            if name in fields:
                raise ValueError(f"it has two fields {name!r:.60}")
            kind = self._kind_of_field(name)
            if kind == GGUFValueType.ARRAY:
                fields[name] = self._array(name)
            else:
                fields[name] = self._text() if kind == GGUFValueType.STRING else self._number(SCALARS[kind])
        return fields

    def _kind_of_field(self, name: str) -> GGUFValueType:
        number = self._number("I")
        if number not in set(GGUFValueType):
            raise self._unknown(f"has the field {name!r:.60} of type", number, "0 to 12")
        return GGUFValueType(number)

    def _array(self, name: str) -> tuple[Any, ...] | None:
        """Return the values of a short array of numbers; others are only walked through."""
        kind, count = self._kind_of_field(name), self._number("Q")
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

    def _tensors(self, count: int, fields: Mapping[str, object]) -> dict[str, TensorPlace]:
        """Where each tensor lies. They lie beside each other, none outside the file."""
        places: dict[str, TensorPlace] = {}
        end = total = 0
        for _ in range(count):
            name = self._text()
            shape = [self._number("Q") for _ in range(self._count(self._number("I"), 8, "dimensions", MAX_DIMENSIONS))]
            number, offset = self._number("I"), self._number("Q")
            if number not in set(GGMLQuantizationType):
                raise self._unknown(f"stores the tensor {name!r:.60} as type", number,
                                    f"those up to {max(GGMLQuantizationType)} that llama.cpp had")
            kind = GGMLQuantizationType(number)
            per_block, block_bytes = GGML_QUANT_SIZES[kind]
            if not shape or 0 in shape or shape[0] % per_block:
                raise ValueError(f"the tensor {name!r:.60} has the shape {shape}, which {kind.name} cannot hold")
            size = prod(shape) // per_block * block_bytes
            places[name] = TensorPlace(kind.name, prod(shape), offset)
            end, total = max(end, offset + size), total + size
        step = fields.get("general.alignment", 32)
        if not isinstance(step, int) or step not in (2**power for power in range(17)):
            raise ValueError(f"it aligns tensors at {step!r:.40}, which is no power of two up to 65,536")
        start = self._position + -self._position % step
        if max(end, total) > self._size - start:
            raise ValueError(f"its tensors take {max(end, total):,} bytes, and {max(0, self._size - start):,} are "
                             "left")
        return {name: place._replace(start=start + place.start) for name, place in places.items()}

    def _unknown(self, what: str, number: int, known: str) -> ValueError:
        """The error for a number that stands for nothing known: a small one may have been added by a newer program."""
        kind = UnknownError if number <= MAX_TYPE else ValueError
        return kind(f"{what} {number}, which is not known here; {known} are read")

    def _count(self, count: int, min_bytes: int, what: str, limit: int) -> int:
        """Return the count, if the rest of the file can hold so many."""
        if count * min_bytes > self._size - self._position:
            raise ValueError(f"it says {count:,} {what}, and {self._size - self._position:,} bytes are left")
        if count > limit:
            raise ValueError(f"it says {count:,} {what}, and at most {limit:,} are read")
        return count

    def _text(self) -> str:
        return self._take(self._count(self._number("Q"), 1, "bytes of a text", MAX_TEXT_BYTES), "a text").decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(form), "a number"))[0]

    def _take(self, size: int, what: str) -> bytes:
        if size > self._size - self._position:
            raise ValueError(f"it ends within {what} of {size:,} bytes")
        self._position += size
        return self._data[self._position - size:self._position]
