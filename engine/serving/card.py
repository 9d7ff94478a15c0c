"""A rig's card, ``rig.json`` in its folder: all that is known of a rig besides its weights."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic import field_validator as check_field

from engine.checkpoints.files import display_name, first_line
from engine.checkpoints.sources import Package
from engine.decoding.methods import METHODS
from engine.errors import RigError
from engine.machine.files import cause_of, open_file
from engine.records import MAX_BUDGET, RunOptions
from engine.requests.prompts import compile_pattern
from engine.requests.rig_names import NGRAM

CARD = "rig.json"
MAX_CARD_BYTES = 2**18
LEGACY_DRAFTERS_KEY = "heads"  # older cards call ``drafters`` so
TYPICAL_LENGTHS: Mapping[int, float] = {1: 1.4, 3: 1.8, 7: 2.0, 16: 2.2}  # if no card says
FOLDER_NAME = r"^\w[\w .+@-]*$"  # never "..", an option, or a path

Title = Annotated[str, Field(max_length=300)]


def _expression(kind: str) -> str:
    try:
        compile_pattern(kind)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"it has to be a regular expression ({first_line(error)})") from error
    return kind


class RigCard(BaseModel):
    """``drafters`` are folders beside the card; ``defaults`` those for methods of one and of two; ``package`` holds the
    target. ``method`` and ``budget`` are a run's defaults: the fastest measured.

    A prompt is unlike the rig's training if its mean negative log probability is above ``familiar_nats`` and no
    expression of ``familiar`` matches it; ``good_at`` is a sentence about the training. ``acceptance_lengths`` are mean
    tokens per round by node budget, measured on such prompts. ``thinking``: whether each drafter was trained on answers
    that think first.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    title: Title
    drafters: tuple[Annotated[str, Field(max_length=100, pattern=FOLDER_NAME)], ...] = Field(
        max_length=64, validation_alias=AliasChoices("drafters", LEGACY_DRAFTERS_KEY))
    defaults: dict[int, tuple[str, ...]]
    method: Literal[tuple(METHODS)] = RunOptions.method  # type: ignore[valid-type]
    budget: int = Field(default=RunOptions.budget, ge=0, le=MAX_BUDGET)
    revisions: dict[str, Title] = Field(default={}, max_length=64)
    package: Package | None = None
    good_at: str = Field(default="", max_length=3000)
    familiar_nats: float = math.inf
    familiar: tuple[Annotated[str, AfterValidator(_expression)], ...] = Field(default=(), max_length=64)
    thinking: dict[str, bool] = {}
    acceptance_lengths: dict[int, float] = Field(default=dict(TYPICAL_LENGTHS), max_length=64)

    @check_field("defaults")
    @classmethod
    def _check_drafter_counts(cls, defaults: dict[int, tuple[str, ...]], info: ValidationInfo) -> dict[
            int, tuple[str, ...]]:
        drafter_names = (*info.data.get("drafters", ()), NGRAM)
        if any(count not in (0, 1, 2) or len(names) != count or not {*names} <= {*drafter_names}
               for count, names in defaults.items()):
            raise ValueError(f"it has to be as many of {', '.join(drafter_names)}, for \"1\" or \"2\"")
        return defaults

    @check_field("acceptance_lengths")
    @classmethod
    def _check_lengths(cls, lengths: dict[int, float]) -> dict[int, float]:
        if not all(1 <= length <= nodes + 1 for nodes, length in lengths.items()):
            raise ValueError("tokens per round by node budget are each from 1 to the budget + 1")
        return {**TYPICAL_LENGTHS, **lengths}


def has_card(folder: Path) -> bool:
    """Return whether this folder holds a rig; False for a name that no folder can have."""
    try:
        return (folder / CARD).is_file()
    except (OSError, ValueError):
        return False


def read_card(folder: Path) -> RigCard:
    """Return the card in a folder; RigError says which field is missing or invalid."""
    name = f"{CARD} in {display_name(folder)}"
    try:
        with open_file(folder / CARD) as file:
            data = file.read(MAX_CARD_BYTES + 1)
    except OSError as error:
        raise RigError(f"{name} cannot be read: {cause_of(error)}.") from error
    if len(data) > MAX_CARD_BYTES:
        raise RigError(f"{name} is larger than the {MAX_CARD_BYTES:,} bytes that are read of a card.")
    try:
        return RigCard.model_validate_json(data)
    except ValidationError as error:
        fault = error.errors()[0]
    place, reason = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
    raise RigError(f"{name} has {str(fault['input'])[:60]!r}{f' under {place!r}' if place else ''}: {reason}.")
