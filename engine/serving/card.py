"""A rig's card: what is known of a rig besides its weights, as the ``rig.json`` of its folder says it."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic import field_validator as check_field

from engine.checkpoints.files import display_name, first_line
from engine.checkpoints.sources import Package
from engine.decoding.methods import METHODS
from engine.errors import RigError
from engine.machine.files import cause_of, open_file
from engine.records import MAX_NODES, RunOptions
from engine.requests.prompts import compiled
from engine.requests.rig_names import NGRAM

CARD = "rig.json"
MAX_CARD_BYTES = 2**18
OLDER_NAME = "heads"  # of ``drafters``, in cards written before
TYPICAL_LENGTHS: Mapping[int, float] = {1: 1.4, 3: 1.8, 7: 2.0, 16: 2.2}  # if no card says
FOLDER_NAME = re.compile(r"\w[\w .+@-]*")  # so never "..", an option, or a path


def _name_beside(name: str) -> str:
    if not FOLDER_NAME.fullmatch(name):
        raise ValueError("it has to be a list of names of folders beside it")
    return name


def _expression(kind: str) -> str:
    try:
        compiled(kind)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"it has to be a regular expression ({first_line(error)})") from error
    return kind


class RigCard(BaseModel):
    """``drafters`` are the names of their folders, beside the card; ``defaults`` those for methods of one and of two;
    ``package`` says where the target comes from. ``method`` and ``budget`` are what a run takes that names none:
    what the rig's recorded table measured as fastest.

    A prompt whose mean surprise is above ``familiar_nats`` lies outside the rig's training, unless a regular expression
    of ``familiar`` matches it; ``good_at`` is a sentence about what lies inside. ``acceptance_lengths`` are mean tokens
    per round by the node budget, as measured on prompts of its kind; those that a card lacks are typical ones.
    ``thinking`` says which drafters were trained on answers that think first, and which on answers without.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    # a field's description completes the sentence about a wrong value: "it has to be …"
    title: str = Field(max_length=300, description="a text of at most 300 characters")
    drafters: tuple[Annotated[str, Field(max_length=100), AfterValidator(_name_beside)], ...] = Field(
        max_length=64, validation_alias=AliasChoices("drafters", OLDER_NAME),
        description="a list of names of folders beside it")
    defaults: dict[int, tuple[str, ...]] = Field(
        description="an object of lists: a list of names for each number of drafters")
    method: str = Field(default=RunOptions.method, description=f"one of {', '.join(METHODS)}")
    budget: int = Field(default=RunOptions.budget, ge=0, le=MAX_NODES,
                        description=f"a number of nodes from 0 to {MAX_NODES:,}")
    revisions: dict[str, Annotated[str, Field(max_length=300)]] = Field(
        default={}, max_length=64, description="an object of at most 64 texts of at most 300 characters")
    package: Package | None = Field(default=None, description="an object of texts")
    good_at: str = Field(default="", max_length=3000, description="a text of at most 3,000 characters")
    familiar_nats: float = Field(default=math.inf, description="a number")
    familiar: tuple[Annotated[str, AfterValidator(_expression)], ...] = Field(
        default=(), max_length=64, description="a list of regular expressions")
    thinking: dict[str, bool] = Field(default={}, description="an object of true or false for each drafter")
    acceptance_lengths: dict[int, float] = Field(
        default=dict(TYPICAL_LENGTHS), max_length=64,
        description="an object of numbers: tokens per round by node budget, each from 1 to the budget + 1")

    @check_field("defaults")
    @classmethod
    def _as_many_drafters(cls, defaults: dict[int, tuple[str, ...]], info: ValidationInfo) -> dict[
            int, tuple[str, ...]]:
        known = (*info.data.get("drafters", ()), NGRAM)
        if any(count not in (0, 1, 2) or len(names) != count or not {*names} <= {*known}
               for count, names in defaults.items()):
            raise ValueError(f"it has to be as many of {', '.join(known)}, for \"1\" or \"2\"")
        return defaults

    @check_field("method")
    @classmethod
    def _known_method(cls, method: str) -> str:
        if method not in METHODS:
            raise ValueError(f"it has to be {cls.model_fields['method'].description}")
        return method

    @check_field("acceptance_lengths")
    @classmethod
    def _possible_lengths(cls, lengths: dict[int, float]) -> dict[int, float]:
        if not all(1 <= length <= nodes + 1 for nodes, length in lengths.items()):
            raise ValueError(f"it has to be {cls.model_fields['acceptance_lengths'].description}")
        return {**TYPICAL_LENGTHS, **lengths}


def has_card(folder: Path) -> bool:
    """Whether this folder holds a rig; False for a name that no folder can have."""
    try:
        return (folder / CARD).is_file()
    except (OSError, ValueError):
        return False


def read_card(folder: Path) -> RigCard:
    """The card in a folder; RigError says which field is missing or of the wrong kind."""
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
        first = error.errors()[0]
    if first["type"] == "json_invalid":
        raise RigError(f"{name} is not JSON: {first['ctx']['error']}.")
    if not first["loc"]:
        raise RigError(f"{name} holds a {type(first['input']).__name__}; it has to be an object.")
    model: type[BaseModel] = RigCard
    field, *inner = (str(part) for part in first["loc"])
    shown = field
    if field == "package" and inner:
        model, field, shown = Package, inner[0], f"package.{inner[0]}"
    if first["type"] == "missing":
        raise RigError(f"{name} has no {shown!r}.")
    if first["type"] == "extra_forbidden":
        raise RigError(f"{name} has {shown[:60]!r}; a package has {', '.join(Package.model_fields)}.")
    wanted = first["ctx"]["error"] if first["type"] == "value_error" else (
        f"it has to be {model.model_fields['drafters' if field == OLDER_NAME else field].description}")
    raise RigError(f"{name} has {str(first['input'])[:60]!r} under {shown!r}; {wanted}.")
