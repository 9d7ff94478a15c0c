"""GGUF files: converted once into a folder that later starts read, once they have hashed the file.

Targets are converted by transformers, drafters by ``gguf_drafters.py``. The folder is named by the file's hash. One
process at a time writes it under another name and renames it once it is complete; the next conversion deletes an
interrupted one's rest.
"""

import errno
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from engine.checkpoints.files import first_line
from engine.checkpoints.gguf_drafters import LAYOUTS, write_drafter
from engine.checkpoints.gguf_header import GgufHeader, read_header
from engine.checkpoints.gguf_keys import check_converted, follow_metadata
from engine.checkpoints.loading import ONE_AT_A_TIME
from engine.errors import RigError
from engine.machine.files import CACHE_VARIABLE, kept_files
from engine.machine.progress import ReportProgress, ignore_progress

ORIGIN_FILE = "gguf.json"  # beside the converted weights: the file that they came from
FORMAT = 2  # increase it when the conversion changes: former folders are then ignored
END_FIELDS = ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
LOCK_SECONDS = 1800  # how long to wait for another process that converts the same file
# The dtype that weights are written in: unquantised ones keep their precision. Others would take twice the disk in
# float32, and differ from bfloat16 by at most 2⁻⁸ of each, far less than by their quantisation.
DTYPES = {"F32": torch.float32, "F16": torch.float16}


@dataclass(frozen=True)
class Origin:
    """The file that a target was converted from: its name, hash and quantisation, and the tokens that it lists as the
    end of a turn or a message."""

    file: str
    sha256: str
    quantisation: str
    end_ids: tuple[object, ...] = ()

    @property
    def note(self) -> str:
        """The sentence about the weights that is shown with every run."""
        rounded = "" if self.quantisation in DTYPES else ", rounded to bfloat16"
        return (f"The target's weights come from {self.file} ({self.quantisation}){rounded}: lossless means against "
                "these weights.")


def convert_gguf(name: str, report: ReportProgress = ignore_progress) -> Path:
    """Return the folder of a GGUF file's target, converted if it is new; RigError says why it cannot be."""
    file = Path(name).expanduser()
    if not file.is_file():
        raise RigError(f"There is no file {str(file)!r}; name a GGUF file on this machine.")
    report(f"Reading {file.name} …", None)
    read_header(file)  # or a large file that cannot be converted would be hashed first
    try:
        digest = sha256_of(file)
    except OSError as error:
        raise RigError(f"{file.name} cannot be read ({(error.strerror or first_line(error)).lower()}).") from error
    return convert_into(kept_files() / f"gguf{FORMAT}" / f"{file.stem}-{digest[:16]}", file, digest, report)


def convert_into(folder: Path, file: Path, digest: str, report: ReportProgress = ignore_progress) -> Path:
    """Convert a file of a known hash into a given folder, see ``convert_gguf``."""
    if is_converted_from(folder, digest):
        return folder
    with folder_lock(folder, report):
        if not is_converted_from(folder, digest):
            report(f"Converting {file.name}, once …", None)
            header = read_header(file)
            partial = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            _convert(file, partial, header)
            end_ids = tuple(header.fields[name] for name in END_FIELDS if name in header.fields)
            origin = Origin(file.name, digest, header.quantisation, end_ids)
            (partial / ORIGIN_FILE).write_text(json.dumps(asdict(origin), indent=1) + "\n")
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
    return folder


@contextmanager
def folder_lock(folder: Path, report: ReportProgress) -> Iterator[None]:
    """Hold the lock for writing a folder among the kept files; RigError if it cannot be had."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(f"{folder.name}.lock"))
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            report(f"Another process is making {folder.name}; waiting for it …", None)
            held = lock.acquire(timeout=LOCK_SECONDS)
        with held:
            yield
    except Timeout as error:
        raise RigError(f"Another process has been making {folder} for {LOCK_SECONDS // 60} minutes; end it, or "
                       "delete the lock file beside that folder.") from error
    except (OSError, SafetensorError) as error:
        full = "No space left" in str(error) or getattr(error, "errno", None) == errno.EDQUOT
        reason = "the disk is full" if full else getattr(error, "strerror", None) or first_line(error)
        raise RigError(f"{folder} cannot be written ({reason}); make room there, or set {CACHE_VARIABLE} to a folder "
                       "that can be written.") from error


def sha256_of(file: Path) -> str:
    """Return the file's hash in hexadecimal digits."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _convert(file: Path, folder: Path, header: GgufHeader) -> None:
    """Write the file's model and tokenizer, or its drafter; no code in the file is run."""
    dtype = DTYPES.get(header.quantisation, torch.bfloat16)
    source: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    try:
        if header.architecture in LAYOUTS:
            write_drafter(file, folder, header, dtype)
            return
        config = AutoConfig.from_pretrained(file.parent, **source)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
        rotary = follow_metadata(file, header, config)
        with ONE_AT_A_TIME:
            model, report = AutoModelForCausalLM.from_pretrained(
                file.parent, config=config, dtype=torch.float32, output_loading_info=True,
                quantization_config=GgufConfig(gguf_file=file.name, dequantize=True), **source)
        check_converted(file, header, model, report, rotary)
    except RigError:
        raise
    except Exception as error:  # whatever a file brings about in transformers, tokenizers and torch
        raise RigError(f"{file.name} holds a model of the architecture {header.architecture!r:.60}, which cannot be "
                       f"converted ({first_line(error)}).") from error
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def origin_of(folder: Path) -> Origin | None:
    """Return the GGUF file that a target's folder was converted from; None for any other folder."""
    try:
        values = json.loads((folder / ORIGIN_FILE).read_text(encoding="utf8"))
        return Origin(**{**values, "end_ids": tuple(values.get("end_ids", ()))})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def is_converted_from(folder: Path, digest: str) -> bool:
    """Return whether a folder holds the whole target of the GGUF file with this hash."""
    origin = origin_of(folder)
    return origin is not None and origin.sha256 == digest
