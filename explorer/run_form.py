"""What a person asks of the rig: the fields of the bar, each checked, the ``PromptRequest`` that they make, and the
presets that fill them in: ``presets-RIG.json`` in ``assets/prompts/`` for each rig that has its own, and one file for
all others. All presets are checked when the page starts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from engine.decoding.budget_policy import FIXED, PACES
from engine.decoding.methods import METHODS, SERVED, method_named, split_rule_of
from engine.errors import CanopyError, PresetError, RequestError
from engine.records import PromptRequest, Sampling
from engine.requests.limits import MAX_NODES, check_int, check_number, top_p
from engine.requests.prompts import Turn, check_text, turns_from
from engine.requests.rig_names import EMBEDDED_RIG
from explorer.recordings import RECORDINGS
from explorer.rig import CurrentRig, Source
from explorer.view import View

USUAL_DRAFTERS = "own"  # the rig's own choice, among the values of the list
MAX_PROMPT_LENGTH = 20_000  # characters; far above any rig's context, far below what slows the page down
MAX_CONVERSATION_LENGTH = 100_000  # characters of all turns
MAX_TURNS = 64
MAX_ANSWER_LENGTH = 4096  # tokens
MAX_TEMPERATURE = 2.0
MAX_SEED = 2**31 - 1
MAX_TOP_K = 100_000
MAX_DRAFTERS = max(row.drafter_count for row in METHODS.values())
MAX_NAME_LENGTH = 200  # characters of a drafter's
OLDER_NAME = "heads"  # an earlier name of the field ``drafters``, which programs may still send
ANY = "any"  # the file for rigs without one of their own: prompts for any model
SHOWN = 3  # on a presenter's keys
# Presets that are strong cases of their rig, and the labels of their buttons; the embedded rig answers its own right.
VETTED = {
    EMBEDDED_RIG: {"boxes": "Books in boxes", "clamp": "A Python function", "tree": "What is a draft tree?"},
    "smollm2": {"smollm2-palindrome": "A Python function", "smollm2-rewrite": "A text repeated",
                "smollm2-poem": "A poem"}}
USUAL_METHOD = "ddtree"  # replaces a method that a rig cannot run


def whole_in(name: str, least: int, most: int) -> BeforeValidator:
    """A field that is a whole number in a range."""
    return BeforeValidator(lambda value: check_int(name, value, least, most))


def asked_for() -> Any:
    """The default of a field that has to be filled in: None, which its checker refuses by the field's name."""
    return Field(default=None, validate_default=True)


def prompt(value: Any) -> str:
    """A prompt; RequestError for an empty one, and for one that is too long."""
    text = value if isinstance(value, str) else ""
    if not text.strip():
        raise RequestError("The prompt is empty; write at least one character, or pick a preset.")
    if len(text) > MAX_PROMPT_LENGTH:
        raise RequestError(
            f"The prompt has {len(text):,} characters; at most {MAX_PROMPT_LENGTH:,} are taken, so shorten it.")
    return check_text("The prompt", text)


def turns(value: Any) -> tuple[Turn, ...]:
    """The conversation before a prompt, within bounds; RequestError names the first turn that is not valid."""
    conversation = turns_from(value)
    if len(conversation) > MAX_TURNS:
        raise RequestError(f"There are {len(conversation)} turns; at most {MAX_TURNS} are taken, so leave the first "
                           "out.")
    length = sum(len(text) for _, text in conversation)
    if length > MAX_CONVERSATION_LENGTH:
        raise RequestError(f"The turns have {length:,} characters; at most {MAX_CONVERSATION_LENGTH:,} are taken, so "
                           "leave the first out.")
    for count, (_, text) in enumerate(conversation, start=1):
        check_text(f"Turn {count}", text)
    return conversation


# What several forms ask for, each bounded here and nowhere else.
PromptField = Annotated[str, BeforeValidator(prompt)]
TurnsField = Annotated[tuple[Turn, ...], BeforeValidator(turns)]
BudgetField = Annotated[int, whole_in("The node budget", 0, MAX_NODES)]
TemperatureField = Annotated[
    float, BeforeValidator(lambda value: check_number("The temperature", value, 0, MAX_TEMPERATURE))]
MaxTokensField = Annotated[int, whole_in("Max tokens", 1, MAX_ANSWER_LENGTH)]


def _method(value: Any) -> str:
    if value != SERVED:
        method_named(str(value))
    return str(value)


def _pace(value: Any) -> str:
    pace = str(value or FIXED)
    if pace not in PACES:
        raise RequestError(f"There is no pace {pace[:20]!r}; choose one of {', '.join(PACES)}.")
    return pace


def _drafters(value: Any) -> tuple[str, ...]:
    """A list of names; which drafters exist, and how many a method takes, is checked by the rig."""
    names = () if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The drafters are {str(value)[:40]!r}; they have to be a list of the names of the rig's.")
    if len(names) > MAX_DRAFTERS:
        raise RequestError(f"There are {len(names)} drafters; at most {MAX_DRAFTERS} draft in any method.")
    if long := [name for name in names if len(name) > MAX_NAME_LENGTH]:
        raise RequestError(f"There is no drafter {long[0][:20]!r}…; a name has at most {MAX_NAME_LENGTH} characters.")
    return tuple(names)


class RunForm(BaseModel):
    """The fields of a run with their defaults, for the bar, the presets and other programs. Values arrive as they were
    filled in, so a number may be missing, text, a fraction or out of range; RequestError says which field is wrong,
    what was seen and what is allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: PromptField = asked_for()
    method: Annotated[str, BeforeValidator(_method)] = asked_for()
    budget: BudgetField = asked_for()
    split: Annotated[str, BeforeValidator(lambda value: str(value or PromptRequest.split))] = PromptRequest.split
    temperature: TemperatureField = Sampling.temperature
    top_k: Annotated[int, whole_in("top-k", 0, MAX_TOP_K)] = Sampling.top_k
    top_p: Annotated[float, BeforeValidator(lambda value: top_p("top-p", value))] = Sampling.top_p
    seed: Annotated[int, whole_in("The seed", 0, MAX_SEED)] = Sampling.seed
    max_tokens: MaxTokensField = PromptRequest.max_tokens
    pace: Annotated[str, BeforeValidator(_pace)] = PromptRequest.pace
    drafters: Annotated[tuple[str, ...], BeforeValidator(_drafters), Field(
        validation_alias=AliasChoices("drafters", OLDER_NAME))] = ()
    turns: TurnsField = ()

    def ask(self) -> PromptRequest:
        """What the engine is asked; RequestError if the method has no such split."""
        if self.method in METHODS:
            split_rule_of(method_named(self.method), self.split)
        sampling = Sampling(self.temperature, self.top_k, self.top_p, self.seed)
        return PromptRequest(prompt=self.prompt, method=self.method, budget=self.budget, max_tokens=self.max_tokens,
                   sampling=sampling, split=self.split, pace=self.pace, drafters=self.drafters, turns=self.turns)


FIELDS = tuple(RunForm.model_fields)  # their names, in the order of the bar
USUAL = {name: field.default for name, field in RunForm.model_fields.items() if field.default is not None}


def names_of(value: Any) -> list[str]:
    """The drafters that a value of the list stands for; none for the rig's own choice, or for a value that is not in
    the list."""
    try:
        names = json.loads(value) if isinstance(value, str) and value != USUAL_DRAFTERS else []
    except ValueError:
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def choosing_drafters(source: Source, method: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """The choices and the value of the list of drafters for a method: the rig's own choice, unless ``names`` are
    others. If a method takes no drafter, or all that the rig has, there is nothing to choose."""
    usual = tuple(source.usual_drafters(method))
    count = METHODS[method].drafter_count if method in METHODS else len(usual)  # an attached server drafts as it does
    others = [choice for choice in combinations(source.drafters, count) if choice != usual]
    asked = tuple(map(str, names))  # an uploaded file may name anything
    if len(asked) == count and asked != usual and asked not in others and set(asked) <= set(source.drafters):
        others.append(asked)  # in another order
    ours = f"the rig's own: {' + '.join(usual) or 'its drafters'}" if count else "none"
    offered = [(ours, USUAL_DRAFTERS), *((" + ".join(choice), json.dumps(choice)) for choice in others if count)]
    return {"choices": offered, "value": json.dumps(asked) if count and asked in others else USUAL_DRAFTERS,
            "interactive": len(offered) > 1}


class Preset(RunForm):
    """A question and how to run it. ``domain`` is what it is about, ``title`` what the list shows."""

    name: str
    domain: str
    title: str


PRESET_FIELDS = ("name", "domain", "title", "prompt", "method", "budget", "temperature")  # of a presets file


@dataclass(frozen=True)
class Presets:
    """The presets by the name of their rig."""

    by_rig: Mapping[str, Sequence[Preset]]

    def of(self, rig: CurrentRig) -> Sequence[Preset]:
        """The presets of the rig that is being loaded, else of the one that answers; without a rig, those of the
        embedded one, on which the recordings were made."""
        recorded = rig.source.name == RECORDINGS
        name = rig.coming.name if rig.coming else EMBEDDED_RIG if recorded else rig.instruments.opened_as
        return self.by_rig.get(name, self.by_rig[ANY])

    def vetted(self) -> View:
        """By rig, for the browser, what is worth to be shown: {label, prompt, method, budget, temperature} each. Where
        none are named, those are the first that draft."""
        def of(rig: str, presets: Sequence[Preset]) -> list[View]:
            named = {preset.name: preset for preset in presets}
            first = {preset.name: preset.title for preset in presets if preset.budget}
            labels = VETTED.get(rig) or dict(islice(first.items(), SHOWN))
            return [{"label": label, **named[name].model_dump(include={"prompt", "method", "budget", "temperature"})}
                    for name, label in labels.items()]
        return {rig: of(rig, presets) for rig, presets in self.by_rig.items()}


def read_presets(folder: Path) -> Presets:
    """Every presets file of a folder; PresetError names the first preset that could not be run as it stands."""
    return Presets({path.stem.removeprefix("presets-"): _read(path) for path in sorted(folder.glob("presets-*.json"))})


def _read(path: Path) -> tuple[Preset, ...]:
    presets = list[Preset]()
    try:
        rows = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PresetError(f"{path.name} is not a list of presets ({error}).") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PresetError(f"{path.name} is not a list of presets, each with {', '.join(PRESET_FIELDS)}.")
    for row in rows:
        if set(row) != set(PRESET_FIELDS):
            raise PresetError(f"A preset in {path.name} has {', '.join(row) or 'no field'}; each has "
                              f"{', '.join(PRESET_FIELDS)}, and nothing else.")
        try:
            presets.append(Preset(**row))
            presets[-1].ask()
        except CanopyError as error:
            raise PresetError(f"The preset {row['name']!r} in {path.name} cannot be run. {error}") from error
        except ValueError as error:
            raise PresetError(f"A field of the preset {row['name']!r} in {path.name} is of another kind than it has to "
                              "be.") from error
    if not presets:
        raise PresetError(f"{path.name} has no preset; it has to have one at least.")
    return tuple(presets)


def titles(presets: Sequence[Preset]) -> list[tuple[str, str]]:
    """The presets as a list offers them: title and name."""
    return [(preset.title, preset.name) for preset in presets]


def fitting(method: str, methods: Sequence[str]) -> str:
    """The method if the rig can run it, else the usual one, else the rig's last."""
    return next((name for name in (method, USUAL_METHOD) if name in methods), methods[-1])
