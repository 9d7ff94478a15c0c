"""Reads a checkpoint's files and configs; RigError for one that is missing, cut off or a pickle. Imports no torch, so
that a process for tokenizers starts in a second."""

import json
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from engine.errors import RigError
from engine.records import MAX_INT32, MAX_INT64

INDEX = "model.safetensors.index.json"
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"  # PEFT's names
COUNT_NAMES = re.compile(r"(layers?|blocks?|experts|depth)$")  # fields that count modules, at most ``MAX_COUNT``
REAL_NAMES = re.compile(r"(theta|base|factor|scale|scaling|eps|multiplier|cap(ping)?)$")  # may be real numbers
MAX_COUNT = 2**13
SHARD = re.compile(r"\w[\w.-]*\.safetensors")  # in the index's own folder
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def display_name(folder: Path) -> str:
    """Return a folder's name for people: OWNER/NAME in the hub's cache, else its own name."""
    hub_folder = hub_folder_of(folder)
    return "/".join(hub_folder.name.split("--")[1:]) if hub_folder else folder.name or folder.resolve().name


def hub_folder_of(folder: Path) -> Path | None:
    """Return the model's folder in the hub's cache; None if this folder is not one of its snapshots."""
    hub_folder = folder.parent.parent
    return hub_folder if folder.parent.name == "snapshots" and hub_folder.name.startswith("models--") else None


def read_config(folder: Path) -> dict[str, Any]:
    """Return the values of config.json, or of an adapter's config; RigError if they are invalid."""
    path = adapter_file(folder, ADAPTER_CONFIG) or require_file(folder, "config.json")
    values = read_object(path, "config.json")
    for name, value in _numbers(values):
        limit = MAX_COUNT if COUNT_NAMES.search(name) else MAX_INT64 if REAL_NAMES.search(name) else MAX_INT32
        if abs(value) > limit:
            raise RigError(f"config.json in {display_name(folder)} has {name:.60} {str(value):.40}; at most {limit:,} "
                           "is read.")
    return values


def read_object(path: Path, name: str = "") -> dict[str, Any]:
    """Return the JSON object in a file; RigError if it holds none. ``name`` is the file's name in messages."""
    where = f"{name or path.name} in {display_name(path.parent)}"
    try:
        values = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RigError(f"{where} is not JSON ({first_line(error)}).") from error
    if not isinstance(values, dict):
        raise RigError(f"{where} holds a {type(values).__name__}; it has to be an object.")
    return values


def adapter_file(folder: Path, name: str) -> Path | None:
    """Return this file of an adapter, in a folder or below it in ``adapter``; None in a folder of a model."""
    paths = [] if (folder / "config.json").is_file() else [folder / name, folder / "adapter" / name]
    return next((path for path in paths if path.is_file()), None)


def _numbers(values: object, name: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(values, int):
        yield name, values
    elif isinstance(values, list):
        for value in values:
            yield from _numbers(value, name)
    elif isinstance(values, dict):
        for key, value in values.items():
            yield from _numbers(value, key)


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has a tokenizer, in any of the forms that checkpoints have."""
    single, vocabulary, merges = [(folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "merges.txt")]
    return single or vocabulary and merges or any(folder.glob("*.model"))


def weight_files(folder: Path) -> list[Path]:
    """Return the files of the weights; RigError if one is missing, or if there are only pickles."""
    if adapter := adapter_file(folder, ADAPTER):
        return [adapter]
    if (folder / INDEX).is_file():
        names = shard_names(folder)
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise RigError(f"The download of {display_name(folder)} is incomplete: {len(missing)} of its {len(names)} "
                           f"weight files are missing, the first being {missing[0]}; fetch it again.")
        return [folder / name for name in names]
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles and not (folder / "model.safetensors").is_file():
        raise pickle_error(display_name(folder), pickles[0])
    return [require_file(folder, "model.safetensors")]


def shard_names(folder: Path) -> list[str]:
    """Return the files that the index names."""
    try:
        weight_map = read_object(folder / INDEX).get("weight_map")
    except RigError as error:
        raise RigError(f"{str(error).removesuffix('.')}; {_redownload_hint(folder)}.") from error
    names: list[Any] = list(weight_map.values()) if isinstance(weight_map, dict) else [weight_map]
    for name in names:
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise RigError(f"{INDEX} in {display_name(folder)} has {str(name)[:60]!r} in its weight_map; it has to be "
                           f"the name of a safetensors file beside it, so {_redownload_hint(folder)}.")
    return sorted(set(names))


class StoredTensor(NamedTuple):
    """A tensor's format in the file, such as BF16, and its shape."""

    kind: str
    shape: tuple[int, ...]


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Return the weights' tensors by name, from the files' headers only; RigError if a file is missing or damaged."""
    stored: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, "np") as tensors:
                for name in tensors.keys():  # noqa: SIM118  # no mapping
                    tensor = tensors.get_slice(name)
                    stored[name] = StoredTensor(tensor.get_dtype(), tuple(tensor.get_shape()))
        except (SafetensorError, OSError) as error:
            raise damaged_error(path, error) from error
    return stored


def count_parameters(folder: Path) -> int:
    """Count the parameters."""
    return sum(prod(tensor.shape) for tensor in stored_tensors(folder).values())


def damaged_error(path: Path, error: BaseException) -> RigError:
    """Return the error for a file that cannot be read to its end."""
    return RigError(f"{path.name} in {display_name(path.parent)} is cut off or damaged ({first_line(error)}); "
                    f"{_redownload_hint(path.parent)}.")


def pickle_error(where: str, name: str) -> RigError:
    """Return the error for weights that exist only as a pickle."""
    return RigError(f"{where} holds its weights as {name}, a pickle, which could run code when opened; "
                    "only safetensors are read, so convert it or choose another revision.")


def _redownload_hint(folder: Path) -> str:
    """Say how to download a damaged file again. The hub's cache would take the existing file for complete."""
    hub_folder = hub_folder_of(folder)
    return f"delete the folder {hub_folder} and start again" if hub_folder else "fetch it again"


def require_file(folder: Path, name: str) -> Path:
    """Return the file of that name; RigError if it is not there."""
    path = folder / name
    if not path.is_file():
        raise RigError(f"{display_name(folder)} has no {name}; the checkpoint is missing or incomplete.")
    return path


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, as part of a sentence."""
    message = str(error).strip() or type(error).__name__
    return message.split("\n")[0][:300].rstrip(".")
