"""The names of rigs. Torch-free: the page's command line reads names before anything heavy is imported.

A rig is written NAME, FOLDER (one with a rig.json) or TARGET::DRAFTER, with a second ::DRAFTER if two are wanted.
TARGET and DRAFTER are folders, GGUF files, or model ids such as Qwen/Qwen3-8B, optionally with @REVISION. A DRAFTER may
also be ``ngram``, or ``mtp``, the layer in the target's own checkpoint; DRAFTER?block_size=7 gives a block-diffusion
drafter its block size. random:SHAPE is a rig of random weights in a published size, such as random:qwen3-8b
(``serving/random_weights.py``). http://HOST:PORT is a server that runs already, and with #MODEL one of its models.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict
from urllib.parse import urlsplit

from engine.errors import RigError

RIGS_FOLDER = Path(__file__).resolve().parents[2] / "assets"
PAIR_MARK, REVISION_MARK = "::", "@"
BLOCK_SIZE_KEY = "?block_size="  # DRAFTER?block_size=7
MODEL_MARK = "#"  # http://HOST:PORT#MODEL
NGRAM = "ngram"
MTP = "mtp"  # the target's own layer for multi-token prediction
RANDOM_PREFIX = "random:"  # random:SHAPE
EMBEDDED_RIG = "demo"  # needs neither network nor set-up, so it serves if no other rig can
DEFAULT_RIG = "smollm2"  # if no rig is named; the embedded rig if this one cannot be fetched
AUTO_DTYPE = "auto"  # the fastest dtype on this processor
INT4 = "int4"  # weights that a file stores in 4 bits, multiplied as 4 bits
DTYPE_WORDS: Mapping[str, str] = MappingProxyType({
    "float32": "weights and arithmetic of 32 bits", "bfloat16": "weights and arithmetic of 16 bits",
    INT4: "weights of 4 bits, arithmetic in bfloat16"})
NEAR_TIES = ("if two tokens are nearly equal, a tree's pass may choose the other one than plain decoding's, since "
             "they round in another order")
EXACTNESS: Mapping[str, str] = MappingProxyType({  # of a tree's text, against plain decoding's in the same dtype
    "float32": "trees write plain decoding's text, but for ties closer than its rounding",
    "bfloat16": NEAR_TIES, INT4: "trees write plain decoding's text bit for bit"})
DTYPE_NAMES = (AUTO_DTYPE, *DTYPE_WORDS)
GGUF_ENDING = ".gguf"
SCHEMES = ("http", "https")
SERVER_KEY = "CANOPY_SERVER_KEY"  # the environment variable with a server's key


@dataclass(frozen=True)
class RigModels:
    """A target and its drafters, each a folder or a model id with or without a revision. Small rigs for a CPU also have
    the GB to download and the GB of memory in bfloat16 and int4 (0: its layers have no int4)."""

    target: str
    drafters: tuple[str, ...]
    download_gb: float = 0.0
    bfloat16_gb: float = 0.0
    int4_gb: float = 0.0

    @property
    def needs(self) -> str:
        if not self.download_gb:
            return ""
        four = f", {self.int4_gb:.1f} GB in int4" if self.int4_gb else " (its layers have no int4)"
        return (f"The rig downloads about {self.download_gb:.1f} GB; on a CPU it takes about {self.bfloat16_gb:.1f} GB "
                f"of memory in bfloat16{four}; tried with random weights of this layout, not with the published ones.")


# These formats are tested with random weights of the same configurations and names; the published weights have not been
# run. Pinned to commits for reproducibility, or to main if no commit is known; TARGET@main::DRAFTER@main has the newest
# weights. gpt-oss is published in 4 bits, which are refused, so this is its copy in bfloat16.
HUB_RIGS: Mapping[str, RigModels] = MappingProxyType({
    "qwen3-4b": RigModels(
        "Qwen/Qwen3-4B@1cfa9a7208912126459214e8b04321603b3df60c",
        ("z-lab/Qwen3-4B-DFlash-b16@b74e3a329c4d963783143b1e970d95b002be72bd",)),
    "qwen3-8b": RigModels(
        "Qwen/Qwen3-8B@b968826d9c46dd6066d109eabc6255188de91218",
        ("z-lab/Qwen3-8B-DFlash-b16@9b41424b7109f9c5413454f481b09a82b85333f4",)),
    "qwen3-8b-dspark": RigModels(
        "Qwen/Qwen3-8B@b968826d9c46dd6066d109eabc6255188de91218",
        ("deepseek-ai/dspark_qwen3_8b_block7@03326e5043815da1f81b109078b2889737c26017",)),
    "qwen3-coder-30b-a3b": RigModels(
        "Qwen/Qwen3-Coder-30B-A3B-Instruct@b2cff646eb4bb1d68355c01b18ae02e7cf42d120",
        ("z-lab/Qwen3-Coder-30B-A3B-DFlash@98ca0e3e2e6a372f2789d3a5e146566194084317",)),
    "llama3.1-8b": RigModels(
        "meta-llama/Llama-3.1-8B-Instruct@0e9e39f249a16976918f6564b8830bc894c89659",
        ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat@d3af30def9601abdd10810aba220d692f0e803f0",)),
    "qwen3.5-9b": RigModels("Qwen/Qwen3.5-9B@main", ("z-lab/Qwen3.5-9B-DFlash@main",)),
    "qwen3.5-27b": RigModels("Qwen/Qwen3.5-27B@main", ("z-lab/Qwen3.5-27B-DFlash@main",)),
    "qwen3.6-27b": RigModels("Qwen/Qwen3.6-27B@main", ("z-lab/Qwen3.6-27B-DFlash@main",)),
    "qwen3.8-27b": RigModels("Qwen/Qwen3.8-27B@main", ("z-lab/Qwen3.8-27B-DFlash2@main",)),
    "muse-glimmer-30b": RigModels("meta-models/Muse-Glimmer-30B@main", ("z-lab/Muse-Glimmer-30B-DFlash2@main",)),
    # For a CPU. Memory: 2 bytes per weight; int4 adds 0.6 bytes per weight of the layers.
    "qwen3-0.6b-dspark": RigModels("Qwen/Qwen3-0.6B@main", ("yosefw/Qwen3-0.6B-DSpark@main",), 1.8, 1.5, 1.8),
    "qwen3-1.7b-dspark": RigModels("Qwen/Qwen3-1.7B@main", ("rasyosef/Qwen3-1.7B-DSpark@main",), 4.7, 4.1, 5.0),
    "qwen3-1.7b-dflash2": RigModels("Qwen/Qwen3-1.7B@main", ("rasyosef/Qwen3-1.7B-DFlash2@main",), 4.7, 4.1, 5.0),
    "qwen3.5-2b-dflash2": RigModels("Qwen/Qwen3.5-2B@main", ("rasyosef/Qwen3.5-2B-DFlash2@main",), 5.4, 5.4),
    "gemma-4-e2b-dflash2": RigModels(
        "google/gemma-4-E2B-it@main", ("rasyosef/gemma-4-E2B-it-dflash2@main",), 10.9, 10.9),
    "gpt-oss-20b": RigModels("unsloth/gpt-oss-20b-BF16@main", ("z-lab/gpt-oss-20b-DFlash@main",)),
})


def rig_names() -> list[str]:
    """Return the rigs in the assets folder, then those on the hub."""
    return sorted(path.parent.name for path in RIGS_FOLDER.glob("*/rig.json")) + list(HUB_RIGS)


class DefaultSetting(TypedDict, total=False):
    """The options that a run has on a rig if it names none."""

    method: str
    budget: int


def default_setting(rig: str) -> DefaultSetting:
    """Return what the card of a shipped rig names; {} for other rigs."""
    if rig not in {path.parent.name for path in RIGS_FOLDER.glob("*/rig.json")}:
        return {}
    card = json.loads((RIGS_FOLDER / rig / "rig.json").read_text("utf8"))
    return {"method": card["method"], "budget": card["budget"]}


def parse_rig(rig: str) -> RigModels:
    """Return the models of a named rig or of TARGET::DRAFTER."""
    if rig in HUB_RIGS:
        return HUB_RIGS[rig]
    if is_address(rig):
        raise RigError("That is the address of a server, which the page attaches to (make run RIG=http://…); here a "
                       f"rig's name, a folder or TARGET{PAIR_MARK}DRAFTER is needed.")
    target, *drafters = (part.strip() for part in rig.split(PAIR_MARK))
    if not target or not 1 <= len(drafters) <= 2 or not all(drafters):
        raise RigError(f"The rig {rig[:200]!r} is not of the form TARGET{PAIR_MARK}DRAFTER, or with a second "
                       f"{PAIR_MARK}DRAFTER; each is a folder or a model id.")
    return RigModels(target, tuple(drafters))


def is_address(rig: str) -> bool:
    """Return whether a rig's name is the address of a server that runs already."""
    return rig.strip().lower().startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def server_address(rig: str) -> str:
    """Return the address without a trailing slash or ``/v1``, with #MODEL if it is named; RigError if it is no address,
    or contains a secret."""
    try:
        parts = urlsplit(rig.strip())
        secret, host, _ = parts.username is not None or parts.password is not None, parts.hostname, parts.port
    except ValueError as error:
        raise RigError("The server's address cannot be read; it has to be http://HOST:PORT or https://HOST:PORT."
                       ) from error
    if secret:
        raise RigError("The server's address holds a name or a password, which would be shown; put the key into the "
                       f"environment as {SERVER_KEY} and name the address without it.")
    if parts.query or not host or any(sign <= " " for sign in rig.strip()):
        raise RigError("The server's address has to be http://HOST:PORT or https://HOST:PORT, with a path and #MODEL "
                       f"at most; a key goes into the environment as {SERVER_KEY}.")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    model = f"{MODEL_MARK}{parts.fragment}" if parts.fragment else ""
    return f"{parts.scheme.lower()}://{parts.netloc}{path}{model}"


def is_folder(name: str) -> bool:
    """Return whether there is a folder of that name; False for a name that no folder can have."""
    try:
        return Path(name).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        return False


def from_hub(rig: str) -> tuple[str, ...]:
    """Return the model ids that a rig needs from the hub; () for a local rig or an unknown name."""
    try:
        models = parse_rig(rig)  # refuses a server's address, too
    except RigError:
        return ()
    drafters = (drafter.partition(BLOCK_SIZE_KEY)[0] for drafter in models.drafters)
    return tuple(source for source in (models.target, *drafters)
                 if source not in (NGRAM, MTP) and not source.lower().endswith(GGUF_ENDING) and not is_folder(source))
