"""The bar's choices: the presets that fill it in, and the drafters of a method. Presets lie in ``presets-RIG.json`` in
``assets/prompts/`` for each rig that has its own, and in one file for all others; all are checked when the page starts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any, TypedDict

from engine.decoding.methods import METHODS
from engine.decoding.options import prompt_request
from engine.errors import CanopyError, PresetError
from engine.records import PromptRequest
from engine.requests.rig_names import EMBEDDED_RIG
from explorer.recordings import RECORDINGS
from explorer.rig import CurrentRig, Source

USUAL_DRAFTERS = "own"  # the list's value for the rig's own choice
ANY_RIG = "any"  # the file of presets for rigs that have none of their own
PRESENTER_KEYS = 3
# Presets that are strong cases of their rig, and the labels of their buttons; the embedded rig answers its own right.
VETTED = {
    EMBEDDED_RIG: {"boxes": "Books in boxes", "clamp": "A Python function", "tree": "What is a draft tree?"},
    "smollm2": {"smollm2-palindrome": "A palindrome", "smollm2-code": "A prime number",
                "smollm2-facts": "Photosynthesis"}}
USUAL_METHOD = "ddtree"  # replaces a method that a rig cannot run


def names_of(value: Any) -> list[str]:
    """Parse a value of the list of drafters; [] for the rig's own choice and for anything invalid."""
    try:
        names = json.loads(value) if isinstance(value, str) and value != USUAL_DRAFTERS else []
    except ValueError:
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def drafter_dropdown(source: Source, method: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the choices and the value of the list of drafters for a method: the rig's own choice, unless ``names`` are
    others. If a method takes no drafter, or all that the rig has, there is nothing to choose."""
    default = tuple(source.default_drafters(method))
    count = METHODS[method].drafter_count if method in METHODS else len(default)  # an attached server drafts as it does
    others = [choice for choice in combinations(source.drafters, count) if choice != default]
    requested = tuple(map(str, names))  # an uploaded file may name anything
    is_listed = requested == default or requested in others
    if len(requested) == count and not is_listed and set(requested) <= set(source.drafters):
        others.append(requested)  # in another order
    default_label = f"the rig's own: {' + '.join(default) or 'its drafters'}" if count else "none"
    labels = [(" + ".join(choice), json.dumps(choice)) for choice in others if count]
    choices = [(default_label, USUAL_DRAFTERS), *labels]
    return {"choices": choices, "value": json.dumps(requested) if count and requested in others else USUAL_DRAFTERS,
            "interactive": len(choices) > 1}


PRESET_OPTIONS = ("prompt", "method", "budget", "temperature")
PRESET_FIELDS = ("name", "domain", "title", *PRESET_OPTIONS)


@dataclass(frozen=True)
class Preset:
    """A prompt and its options. ``domain``: the prompt's subject. ``title``: its entry in the list."""

    name: str
    domain: str
    title: str
    request: PromptRequest


class VettedPrompt(TypedDict):
    """A preset and the label of its button."""

    label: str
    prompt: str
    method: str
    budget: int
    temperature: float


@dataclass(frozen=True)
class Presets:
    """The presets by the name of their rig."""

    by_rig: Mapping[str, Sequence[Preset]]

    def for_rig(self, rig: CurrentRig) -> Sequence[Preset]:
        """Return the presets of the first rig while it loads, else of the loaded rig, else of the embedded rig, on
        which the recordings were made."""
        recorded = rig.source.name == RECORDINGS
        name = rig.first_load.name if rig.first_load else EMBEDDED_RIG if recorded else rig.instruments.opened_as
        return self.by_rig.get(name, self.by_rig[ANY_RIG])

    def vetted(self) -> dict[str, list[VettedPrompt]]:
        """Return each rig's prompts for talks: those of ``VETTED``, else its first presets that draft."""
        def vetted_of(rig: str, presets: Sequence[Preset]) -> list[VettedPrompt]:
            by_name = {preset.name: preset for preset in presets}
            first_titles = {preset.name: preset.title for preset in presets if preset.request.budget}
            labels = VETTED.get(rig) or dict(islice(first_titles.items(), PRESENTER_KEYS))
            requests = {label: by_name[name].request for name, label in labels.items()}
            return [{"label": label, "prompt": request.prompt, "method": request.method, "budget": request.budget,
                     "temperature": request.sampling.temperature} for label, request in requests.items()]
        return {rig: vetted_of(rig, presets) for rig, presets in self.by_rig.items()}


def read_presets(folder: Path) -> Presets:
    """Read every presets file of a folder; PresetError names the first preset that cannot be run."""
    return Presets({path.stem.removeprefix("presets-"): _read(path) for path in sorted(folder.glob("presets-*.json"))})


def _read(path: Path) -> tuple[Preset, ...]:
    presets = list[Preset]()
    try:
        for row in json.loads(path.read_text("utf8")):
            name, domain, title, *options = (row.pop(field) for field in PRESET_FIELDS)
            request = prompt_request({**row, **dict(zip(PRESET_OPTIONS, options, strict=True))}, page=True)
            presets.append(Preset(name, domain, title, request))
    except (CanopyError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise PresetError(f"Preset {len(presets) + 1} of {path.name} cannot be run: {error} Each is an object with "
                          f"{', '.join(PRESET_FIELDS)}.") from error
    if not presets:
        raise PresetError(f"{path.name} holds no preset; it is a list of at least one object with "
                          f"{', '.join(PRESET_FIELDS)}.")
    return tuple(presets)


def titles(presets: Sequence[Preset]) -> list[tuple[str, str]]:
    """Return (title, name) of each preset, for a dropdown."""
    return [(preset.title, preset.name) for preset in presets]


def fitting(method: str, methods: Sequence[str]) -> str:
    """Return the method if the rig can run it, else the usual one, else the rig's last."""
    return next((name for name in (method, USUAL_METHOD) if name in methods), methods[-1])
