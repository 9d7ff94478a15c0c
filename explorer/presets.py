"""The prompts that the page offers: a file for each rig that has its own, and one for all others.

The files are ``presets-RIG.json`` in ``assets/prompts/``; all of them are checked when the page starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

from engine.errors import CanopyError, PresetError
from engine.requests.rig_names import EMBEDDED_RIG
from explorer.recordings import RECORDINGS
from explorer.rig import AnsweringRig
from explorer.run_form import RunForm
from explorer.view import View

ANY = "any"  # the file for rigs without one of their own: prompts for any model
SHOWN = 3  # on a presenter's keys
# Presets that are strong cases of their rig, and the labels of their buttons; the embedded rig answers its own right.
VETTED = {
    EMBEDDED_RIG: {"boxes": "Books in boxes", "clamp": "A Python function", "tree": "What is a draft tree?"},
    "smollm2": {"smollm2-stack": "A Python class", "smollm2-rewrite": "A text repeated", "smollm2-poem": "A poem"}}
USUAL = "ddtree"  # replaces a method that a rig cannot run


@dataclass(frozen=True)
class Preset:
    """A question and how to run it. ``domain`` is what it is about, ``title`` what the list shows."""

    name: str
    domain: str
    title: str
    prompt: str
    method: str
    budget: int
    temperature: float


@dataclass(frozen=True)
class Presets:
    """The presets by the name of their rig."""

    by_rig: Mapping[str, Sequence[Preset]]

    def of(self, rig: AnsweringRig) -> Sequence[Preset]:
        """The presets of the rig that is being loaded, else of the one that answers; without a rig, those of the
        embedded one, on which the recordings were made."""
        recorded = rig.source.rig == RECORDINGS
        name = rig.coming.name if rig.coming else EMBEDDED_RIG if recorded else rig.instruments.rig
        return self.by_rig.get(name, self.by_rig[ANY])

    def vetted(self) -> View:
        """By rig, for the browser, what is worth to be shown: {label, prompt, method, budget, temperature} each. Where
        none are named, those are the first that draft."""
        def of(rig: str, presets: Sequence[Preset]) -> list[View]:
            named = {preset.name: preset for preset in presets}
            first = {preset.name: preset.title for preset in presets if preset.budget}
            labels = VETTED.get(rig) or dict(islice(first.items(), SHOWN))
            return [{"label": label, "prompt": named[name].prompt, "method": named[name].method,
                     "budget": named[name].budget, "temperature": named[name].temperature}
                    for name, label in labels.items()]
        return {rig: of(rig, presets) for rig, presets in self.by_rig.items()}


def read_presets(folder: Path) -> Presets:
    """Every presets file of a folder; PresetError names the first preset that could not be run as it stands."""
    files = sorted(folder.glob("presets-*.json"))
    return Presets({path.stem.removeprefix("presets-"): _read(path) for path in files})


def _read(path: Path) -> tuple[Preset, ...]:
    try:
        presets = tuple(Preset(**row) for row in json.loads(path.read_text("utf8")))
    except (ValueError, TypeError) as error:
        names = ", ".join(field.name for field in fields(Preset))
        raise PresetError(f"{path.name} is not a list of presets ({error}); each has {names}, and nothing else."
                          ) from error
    if not presets:
        raise PresetError(f"{path.name} has no preset; it has to have one at least.")
    for preset in presets:
        _check(preset, path.name)
    return presets


def _check(preset: Preset, file: str) -> None:
    try:
        RunForm(prompt=preset.prompt, method=preset.method, budget=preset.budget, temperature=preset.temperature).ask()
    except CanopyError as error:
        raise PresetError(f"The preset {preset.name!r} in {file} cannot be run. {error}") from error


def titles(presets: Sequence[Preset]) -> list[tuple[str, str]]:
    """The presets as a list offers them: title and name."""
    return [(preset.title, preset.name) for preset in presets]


def fitting(method: str, methods: Sequence[str]) -> str:
    """The method if the rig can run it, else the usual one, else the rig's last."""
    return next((name for name in (method, USUAL) if name in methods), methods[-1])
