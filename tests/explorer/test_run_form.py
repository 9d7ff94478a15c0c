"""The bar's choices: the drafters of a method, and presets; a preset that cannot be run is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import PresetError
from explorer import page
from explorer.bundle import ASSETS
from explorer.recordings import Library, recorded_rig
from explorer.rig import CurrentRig
from explorer.rig_choice import loading
from explorer.run_form import USUAL_DRAFTERS, drafter_dropdown, fitting, names_of, read_presets
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import scripted_rig

PROMPTS = ASSETS / "prompts"

USUAL_ONE, USUAL_TWO = "the rig's own: story", "the rig's own: story + code"
ONE, TWO = [USUAL_ONE, "code", "spare"], [USUAL_TWO, "story + spare", "code + spare"]


@pytest.mark.parametrize(("method", "names", "words", "chosen"), [
    ("ddtree", [], ONE, USUAL_ONE), ("joint", [], TWO, USUAL_TWO), ("autoregressive", [], ["none"], "none"),
    ("ddtree", ["spare"], ONE, "spare"), ("joint", ["story", "code"], TWO, USUAL_TWO),
    ("joint", ["spare", "code"], [*TWO, "spare + code"], "spare + code"),  # in the rig's order
    *(("ddtree", wrong, ONE, USUAL_ONE) for wrong in (
        ["nobody"], ["story", "code"], [["story"]], [7], [None, None], ["</script>"]))])
def test_the_rigs_default_drafters_come_first_and_a_valid_choice_is_kept(
        method: str, names: list[Any], words: list[str], chosen: str) -> None:
    choice = drafter_dropdown(ScriptedSource(), method, names)
    named = {value: word for word, value in choice["choices"]}
    assert (list(named.values()), named[choice["value"]]) == (words, chosen)
    assert choice["interactive"] == (len(words) > 1)


def test_only_values_of_the_list_are_parsed() -> None:
    for word, value in drafter_dropdown(ScriptedSource(), "joint")["choices"][1:]:
        assert " + ".join(names_of(value)) == word
    for nothing in (USUAL_DRAFTERS, "", None, 7, "{", "{}", "[1]", json.dumps("a"), ["a"]):
        assert names_of(nothing) == []


def offered_presets(rig: CurrentRig) -> list[str]:
    return [preset.name for preset in read_presets(PROMPTS).for_rig(rig)]


def test_presets_depend_on_the_rig() -> None:
    demo, other = (offered_presets(CurrentRig(scripted_rig(name))) for name in ("demo", "my/folder"))
    assert "boxes" in demo and other[0] == "any-code" and not set(demo) & set(other)
    without = recorded_rig(Library([]), "No model.")
    assert offered_presets(CurrentRig(without)) == demo, "the recordings were made on the embedded rig"
    coming = offered_presets(CurrentRig(without, first_load=loading("smollm2")))
    assert [name.partition("-")[2] for name in coming[:3]] == ["palindrome", "facts", "story"]
    assert fitting("joint", ["autoregressive", "joint"]) == "joint"
    assert fitting("joint", ["autoregressive", "ddtree"]) == "ddtree" and fitting("joint", ["a"]) == "a"


@pytest.mark.parametrize(("change", "words"), [
    ({"method": "ddtre"}, "'ddtre'"), ({"budget": -1}, "-1"), ({"prompt": ""}, "empty"), ({"colour": "red"}, "colour")])
def test_a_preset_that_cannot_be_run_is_refused_when_the_page_starts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str) -> None:
    shipped = json.loads((PROMPTS / "presets-any.json").read_text("utf8"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "presets-any.json").write_text(json.dumps([{**shipped[0], **change}, *shipped[1:]]), "utf8")
    monkeypatch.setattr(page, "ASSETS", tmp_path)
    with pytest.raises(PresetError, match=f"1 of presets-any.json.*{words}"):
        page.build(CurrentRig(scripted_rig("first")), Library([]))
    for text in ("{", "[7]", '{"name": "x"}', "7", "[{}]", "[]"):
        (tmp_path / "prompts" / "presets-any.json").write_text(text, "utf8")
        with pytest.raises(PresetError, match="presets-any.json"):
            read_presets(tmp_path / "prompts")
