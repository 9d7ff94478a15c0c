"""A rig's card: what is known of a rig besides its weights, as the ``rig.json`` of its folder says it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic import field_validator as check_field

from engine.checkpoints.files import display_name, first_line
from engine.errors import RigError
from engine.requests.rig_names import NGRAM

CARD = "rig.json"
OLDER_NAME = "heads"  # of ``drafters``, in cards written before
TYPICAL_LENGTHS: Mapping[int, float] = {1: 1.4, 3: 1.8, 7: 2.0, 16: 2.2}  # where no card says


def _name_beside(name: str) -> str:
    if not name or Path(name).name != name:
        raise ValueError("it has to be a list of names of folders beside it")
    return name


class RigCard(BaseModel):
    """``drafters`` are the names of their folders, beside the card; ``defaults`` those for methods of one and of two;
    ``package`` describes where the target comes from, see ``checkpoints.sources.Package``.

    A prompt whose mean surprise is above ``familiar_nats`` lies outside the rig's training, unless a regular expression
    of ``familiar`` matches it; ``good_at`` is a sentence about what lies inside. ``acceptance_lengths`` are mean tokens
    per round by the node budget, as measured on prompts of its kind; those that a card lacks are typical ones.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    # a field's description completes the sentence about a wrong value: "it has to be …"
    title: str = Field(description="a text")
    drafters: tuple[Annotated[str, AfterValidator(_name_beside)], ...] = Field(
        validation_alias=AliasChoices("drafters", OLDER_NAME), description="a list of names of folders beside it")
    defaults: dict[int, tuple[str, ...]] = Field(
        description="an object of lists: a list of names for each number of drafters")
    revisions: dict[str, str] = Field(default={}, description="an object of texts")
    package: dict[str, Any] = Field(default={}, description="an object of texts")
    good_at: str = Field(default="", description="a text")
    familiar_nats: float = Field(default=math.inf, description="a number")
    familiar: tuple[str, ...] = Field(default=(), description="a list of regular expressions")
    acceptance_lengths: dict[int, float] = Field(
        default=dict(TYPICAL_LENGTHS),
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
        return RigCard.model_validate_json((folder / CARD).read_bytes())
    except OSError as error:
        raise RigError(f"{name} cannot be read: {first_line(error)}.") from error
    except ValidationError as error:
        first = error.errors()[0]
    if first["type"] == "json_invalid":
        raise RigError(f"{name} is not JSON: {first['ctx']['error']}.")
    if not first["loc"]:
        raise RigError(f"{name} holds a {type(first['input']).__name__}; it has to be an object.")
    field = str(first["loc"][0])
    if first["type"] == "missing":
        raise RigError(f"{name} has no {field!r}.")
    wanted = first["ctx"]["error"] if first["type"] == "value_error" else (
        f"it has to be {RigCard.model_fields['drafters' if field == OLDER_NAME else field].description}")
    raise RigError(f"{name} has {str(first['input'])[:60]!r} under {field!r}; {wanted}.")
