"""GGUF files as targets: converted once, by transformers, into a folder that later starts read in seconds.

The folder lies among the kept files under the GGUF file's hash. One process at a time writes it under another name and
renames it once it is complete; the next conversion deletes what an interrupted one left.

A file's header is read here first, and every count checked against the bytes that follow: the readers of gguf and
transformers believe it, so that an array of 2⁴⁰ values in a file of 49 bytes keeps them busy until memory is full. They
also make an object of each value, so the number of values is limited too.
"""

import errno
import hashlib
import json
import mmap
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from engine.checkpoints.files import Tell, first_line, unheard
from engine.checkpoints.loading import ONE_AT_A_TIME
from engine.errors import RigError
from engine.machine.files import CACHE_VARIABLE, kept_files

CARD = "gguf.json"  # beside the converted weights: the file that they came from
PART = re.compile(r"-\d{5}-of-(\d{5})$")
OTHERS_SECONDS = 1800  # how long to wait for another process that converts the same file
# The dtype that weights are written in: unquantised ones keep their precision. Others would take twice the disk in
# float32, and differ from bfloat16 by at most 2⁻⁸ of each, far less than by their quantisation.
DTYPES = {"F32": torch.float32, "F16": torch.float16}

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


@dataclass(frozen=True)
class Origin:
    """The file that a converted target came from: its name, its hash, and how its weights were quantised."""

    file: str
    sha256: str
    quantisation: str

    @property
    def note(self) -> str:
        """The sentence about the weights that is shown with every run."""
        rounded = "" if self.quantisation in DTYPES else ", rounded to bfloat16"
        return (f"The target's weights come from {self.file} ({self.quantisation}){rounded}: lossless means against "
                "these weights.")


class GgufHeader(NamedTuple):
    """What a file says of its model: the architecture's name, and how most weights are stored, such as Q4_1."""

    architecture: str
    quantisation: str


def convert_gguf(name: str, tell: Tell = unheard) -> Path:
    """The folder of a GGUF file's target, which is converted the first time; RigError says why it cannot be."""
    file = Path(name).expanduser()
    must_be_whole(file)
    tell(f"Reading {file.name} …", None)
    digest = sha256_of(file)
    return convert_into(kept_files() / "gguf" / f"{file.stem}-{digest[:16]}", file, digest, tell)


def convert_into(folder: Path, file: Path, digest: str, tell: Tell = unheard) -> Path:
    """``convert_gguf`` into a given folder, for a file whose hash is known."""
    if is_converted_from(folder, digest):
        return folder
    with kept_alone(folder, tell):
        if not is_converted_from(folder, digest):
            tell(f"Converting {file.name}, once …", None)
            header = header_of(file)
            partial = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            _convert(file, partial, header)
            origin = Origin(file.name, digest, header.quantisation)
            (partial / CARD).write_text(json.dumps(asdict(origin), indent=1) + "\n")
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
    return folder


@contextmanager
def kept_alone(folder: Path, tell: Tell) -> Iterator[None]:
    """Hold the lock for writing a folder among the kept files; RigError where it cannot be had or written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(f"{folder.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            tell(f"Another process is making {folder.name}; waiting for it …", None)
            lock.acquire(timeout=OTHERS_SECONDS)
        try:
            yield
        finally:
            lock.release()
    except Timeout as error:
        raise RigError(f"Another process has been making {folder} for {OTHERS_SECONDS // 60} minutes; end it, or "
                       "delete the lock file beside that folder.") from error
    except (OSError, SafetensorError) as error:
        full = "No space left" in str(error) or getattr(error, "errno", None) == errno.EDQUOT
        reason = "the disk is full" if full else getattr(error, "strerror", None) or first_line(error)
        raise RigError(f"{folder} cannot be written ({reason}); make room there, or set {CACHE_VARIABLE} to a folder "
                       "that can be written.") from error


def must_be_whole(file: Path) -> None:
    """RigError where this is not a GGUF file, or is one of several parts."""
    if not file.is_file():
        raise RigError(f"There is no file {str(file)!r}; name a GGUF file on this machine.")
    if part := PART.search(file.stem):
        raise RigError(f"{file.name} is one of {int(part[1])} parts; only GGUF files in one piece are read, so merge "
                       "them first (llama-gguf-split --merge).")
    try:
        with file.open("rb") as opened:
            begin = opened.read(len(MAGIC))
    except OSError as error:
        raise RigError(f"{file.name} cannot be read ({(error.strerror or first_line(error)).lower()}).") from error
    if begin != MAGIC:
        raise RigError(f"{file.name} is not a GGUF file: it begins with {begin!r} where {MAGIC!r} is expected.")


def sha256_of(file: Path) -> str:
    """The file's hash in hexadecimal digits."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def header_of(file: Path) -> GgufHeader:
    """What the file says of its model; RigError says which count or size in it cannot be, or where the file ends."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _HeaderReader(data).header()
    except (ValueError, KeyError, OSError) as error:
        raise RigError(f"{file.name} is cut off or damaged ({first_line(error)}); fetch it again.") from error


def _convert(file: Path, folder: Path, header: GgufHeader) -> None:
    """Write the file's model and tokenizer, as transformers reads them; no code in the file is run."""
    given: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(file.parent, **given)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **given)
        with ONE_AT_A_TIME:
            model = AutoModelForCausalLM.from_pretrained(
                file.parent, config=config, dtype=torch.float32,
                quantization_config=GgufConfig(gguf_file=file.name, dequantize=True), **given)
    except Exception as error:  # whatever a file brings about in transformers, tokenizers and torch
        raise RigError(f"{file.name} holds a model of the architecture {header.architecture!r:.60}, which transformers "
                       f"cannot convert ({first_line(error)}).") from error
    model.to(DTYPES.get(header.quantisation, torch.bfloat16)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def origin_of(folder: Path) -> Origin | None:
    """The GGUF file that a target's folder was converted from; None for any other folder."""
    try:
        return Origin(**json.loads((folder / CARD).read_text(encoding="utf8")))
    except (OSError, ValueError, TypeError):
        return None


def is_converted_from(folder: Path, digest: str) -> bool:
    """Whether a folder holds the whole target of the GGUF file with this hash."""
    origin = origin_of(folder)
    return origin is not None and origin.sha256 == digest


class _HeaderReader:
    """Walks a file from its beginning; ValueError where that cannot be."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._size = data, len(data)
        self._position = self._values = 0

    def header(self) -> GgufHeader:
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
        most, told = max(sizes, key=lambda kind: sizes[kind]), fields.get("general.file_type")
        if isinstance(told, int):  # how most weights are stored: as the file says, else by the tensors' types
            most = LlamaFileType(told).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        return GgufHeader(name, most)

    def _fields(self, count: int) -> dict[str, object]:
        """The values of single fields by name; None for an array's."""
        fields: dict[str, object] = {}
        for _ in range(count):
            name = self._text()
            if name in fields:
                raise ValueError(f"it has two fields {name!r:.60}")
            kind = GGUFValueType(self._number("I"))
            if kind == GGUFValueType.ARRAY:
                self._skip_array()
                fields[name] = None
            else:
                fields[name] = self._text() if kind == GGUFValueType.STRING else self._number(SCALARS[kind])
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
        left = self._size + -self._position // step * step
        if max(furthest, sum(sizes.values())) > left:
            raise ValueError(f"its tensors take {max(furthest, sum(sizes.values())):,} bytes, and {max(0, left):,} are "
                             "left")
        return sizes

    def _count(self, count: int, least: int, what: str, most: int) -> int:
        """The count, if the rest of the file can hold so many."""
        if count * least > self._size - self._position:
            raise ValueError(f"it says {count:,} {what}, and {self._size - self._position:,} bytes are left")
        if count > most:
            raise ValueError(f"it says {count:,} {what}, and at most {most:,} are read")
        return count

    def _text(self) -> str:
        return self._take(self._count(self._number("Q"), 1, "bytes of a text", LONGEST_TEXT), "a text").decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(form), "a number"))[0]

    def _take(self, size: int, what: str) -> bytes:
        if size > self._size - self._position:
            raise ValueError(f"it ends within {what} of {size:,} bytes")
        self._position += size
        return self._data[self._position - size:self._position]
