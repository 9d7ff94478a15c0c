"""Rigs: a target, its tokenizer and the drafters that were trained for it, as one named set of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from engine.decode import Drafter
from engine.drafters.dflash import DFlashDrafter
from engine.drafters.ngram import NGramDrafter
from engine.errors import RequestError, RigError
from engine.methods import method_named
from engine.runtime.checkpoints import load_head, load_target, load_tokenizer
from engine.runtime.target import TorchTarget

RIGS_FOLDER = Path(__file__).resolve().parents[2] / "assets"
DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Rig:
    """``heads`` are block-diffusion drafters by name; ``defaults`` the names that serve one and two heads;
    ``familiar_nats`` is the mean surprise of a prompt above which it lies outside the rig's training, and
    ``good_at`` says in a sentence what lies inside."""

    name: str
    target: TorchTarget
    tokenizer: PreTrainedTokenizerBase
    heads: Mapping[str, DFlashDrafter]
    defaults: Mapping[int, tuple[str, ...]]
    revisions: Mapping[str, str]
    good_at: str = ""
    familiar_nats: float = float("inf")

    def drafters(self, method: str, names: Sequence[str] = ()) -> Mapping[str, Drafter]:
        """The drafters of a method by name, in head order."""
        row = method_named(method)
        if row.family == "ngram":
            return {"ngram": NGramDrafter(self.target.config.vocab_size)}
        chosen = tuple(names) or self.defaults.get(row.heads, ())
        unknown = [name for name in chosen if name not in self.heads]
        if unknown or len(chosen) != row.heads:
            raise RequestError(
                f"The method {method} takes {row.heads} of the heads {', '.join(self.heads)}; "
                f"asked for were {', '.join(chosen) or 'none'}.")
        return {name: self.heads[name] for name in chosen}


def rig_names() -> list[str]:
    """The rigs that lie in the assets folder."""
    return sorted(path.parent.name for path in RIGS_FOLDER.glob("*/rig.json"))


def open_rig(name: str, dtype: str = "bfloat16", device: str = "") -> Rig:
    """Load a rig by name or from a folder. RigError says what is missing or does not fit."""
    folder = Path(name) if (Path(name) / "rig.json").is_file() else RIGS_FOLDER / name
    if not (folder / "rig.json").is_file():
        raise RigError(f"There is no rig {name!r}; there are {', '.join(rig_names()) or 'none'}, "
                       "or name a folder that holds a rig.json.")
    if dtype not in DTYPES:
        raise RigError(f"The dtype {dtype!r} is not supported; choose one of {', '.join(DTYPES)}.")
    card = _card(folder)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model = load_target(folder / "target", DTYPES[dtype], place)
    models = {head: load_head(folder / head, model) for head in card["heads"]}
    taps = {tuple(head.config.dflash_config["target_layer_ids"]) for head in models.values()}
    if len(taps) != 1:
        raise RigError(f"The heads of {name} tap different layers of the target: {sorted(taps)}.")
    target = TorchTarget(model, taps.pop())
    heads = {head: DFlashDrafter(each, target.embedding, target.head) for head, each in models.items()}
    return Rig(
        card["title"], target, load_tokenizer(folder / "target"), heads,
        {int(count): tuple(names) for count, names in card["defaults"].items()},
        card.get("revisions", {}), card.get("good_at", ""), float(card.get("familiar_nats", "inf")))


def _card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / "rig.json").read_text(encoding="utf8"))
    except ValueError as error:
        raise RigError(f"rig.json in {folder.name} is not JSON: {error}.") from error
    for field in ("title", "heads", "defaults"):
        if field not in card:
            raise RigError(f"rig.json in {folder.name} has no {field!r}.")
    return card
