"""Bad input: one sentence that says which field, what was seen, what is allowed."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from engine.errors import PresetError, RequestError
from engine.records import PromptRequest, Sampling
from explorer import page
from explorer.bundle import ASSETS
from explorer.recordings import Library, recorded_rig
from explorer.rig import CurrentRig
from explorer.rig_choice import loading
from explorer.run_form import USUAL_DRAFTERS, RunForm, choosing_drafters, fitting, names_of, read_presets
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import scripted_rig

PROMPTS = ASSETS / "prompts"

GOOD: dict[str, Any] = {"prompt": "What is τ?", "method": "ddtree", "budget": 64}


def test_a_good_form() -> None:
    ask = RunForm(**GOOD, temperature=0.8, top_k=5, top_p=0.9, seed=3, max_tokens=17, split="total", pace="auto").ask()
    assert ask.pace == "auto" and RunForm(**GOOD).ask().pace == "fixed"
    assert (ask.prompt, ask.method, ask.budget, ask.max_tokens, ask.split) == ("What is τ?", "ddtree", 64, 17, "total")
    assert (ask.sampling.temperature, ask.sampling.top_k, ask.sampling.top_p, ask.sampling.seed) == (0.8, 5, 0.9, 3)


def test_the_form_has_the_fields_and_defaults_of_what_it_becomes() -> None:
    usual = {one.name: one.default for kind in (PromptRequest, Sampling) for one in fields(kind)
             if one.name != "sampling"}
    assert set(RunForm.model_fields) == set(usual)
    defaults = {name: field.default for name, field in RunForm.model_fields.items() if field.default is not None
                and not field.is_required()}
    assert defaults == {name: usual[name] for name in defaults}


def test_drafters_and_turns() -> None:
    hostile = "</script>${7*6} שלום\x00🌳<|im_end|>"
    turns: Any = [["system", hostile], {"role": "user", "content": "a" * 50_000}, ("assistant", "")]
    ask = RunForm(**{**GOOD, "heads": ["math", hostile], "turns": turns}).ask()
    assert ask.drafters == ("math", hostile)
    assert ask.turns == (("system", hostile), ("user", "a" * 50_000), ("assistant", ""))
    nothing = RunForm(**{**GOOD, "heads": None, "turns": None}).ask()
    assert (nothing.drafters, nothing.turns) == ((), ())


@pytest.mark.parametrize("prompt", ["🌳", "\x00\x1b[31m", "<|im_start|>", "${7*6}", "a" * 20_000, "שלום"])
def test_any_text_is_a_prompt(prompt: str) -> None:
    assert RunForm(prompt=prompt, method="ddtree", budget=0).ask().prompt == prompt


@pytest.mark.parametrize(("field", "value", "words"), [
    ("prompt", "", "prompt is empty"), ("prompt", " \n\t", "prompt is empty"), ("prompt", None, "prompt is empty"),
    ("prompt", "a" * 100_000, "100,000 characters"),
    ("method", "magic", "no method 'magic'"), ("method", None, "no method 'None'"),
    ("budget", -1, "node budget is -1"), ("budget", 10**6, "node budget is 1000000"), ("budget", "many", "'many'"),
    ("budget", None, "node budget is empty"), ("budget", 2.5, "whole number"), ("budget", float("nan"), "is nan"),
    ("split", "thirds", "no split 'thirds'"), ("temperature", -0.1, "temperature is -0.1"),
    ("temperature", "hot", "'hot'"), ("top_k", -1, "top-k is -1"), ("top_p", 0, "top-p is 0"),
    ("top_p", 1.5, "top-p is 1.5"), ("seed", -1, "seed is -1"), ("seed", 2**40, "seed is"),
    ("max_tokens", 0, "Max tokens is 0"), ("max_tokens", "∞", "'∞'"), ("pace", "brisk", "no pace 'brisk'"),
    ("drafters", "math", "drafters are 'math'"), ("heads", [1], "drafters are '[1]'"), ("heads", {"a": 1}, "list"),
    ("heads", ["a", "b", "c"], "There are 3 drafters; at most 2"), ("heads", ["a" * 10**6], "at most 200 characters"),
    ("turns", "Hi", "turns are 'Hi'"), ("turns", {"role": "user"}, "have to be a list"), ("turns", 7, "turns are 7"),
    ("turns", ["Hi"], "Turn 1 is 'Hi'"), ("turns", [["user"]], "Turn 1 is ['user']"), ("turns", [None], "[role, text]"),
    ("turns", [["user", "Hi"], ["assistant", 7]], "Turn 2 is ['assistant', 7]"), ("turns", [{"role": "user"}], "role"),
    ("turns", [["<script>" * 10**5, ""]], "role '<script><script><scr'; it has to be one of system, user, assistant"),
    ("turns", [{"role": "${7*6}", "content": ""}], "the role '${7*6}'"), ("turns", [[["user"], "Hi"]], "Turn 1"),
    ("turns", [["user", ""]] * 65, "There are 65 turns; at most 64"),
    ("turns", [["user", "a" * 60_000]] * 2, "120,000 characters; at most 100,000"),
    ("turns", [["user", "a\n" * 10**6, "b"]], "Turn 1 is"),
])
def test_what_does_not_fit_is_named(field: str, value: Any, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        RunForm(**{**GOOD, field: value}).ask()
    sentence = str(refused.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence and len(sentence) < 250


USUAL_ONE, USUAL_TWO = "the rig's own: story", "the rig's own: story + code"
ONE, TWO = [USUAL_ONE, "code", "spare"], [USUAL_TWO, "story + spare", "code + spare"]


@pytest.mark.parametrize(("method", "names", "words", "chosen"), [
    ("ddtree", [], ONE, USUAL_ONE), ("joint", [], TWO, USUAL_TWO), ("autoregressive", [], ["none"], "none"),
    ("ddtree", ["spare"], ONE, "spare"), ("joint", ["story", "code"], TWO, USUAL_TWO),
    ("joint", ["spare", "code"], [*TWO, "spare + code"], "spare + code"),  # in its own order
    *(("ddtree", wrong, ONE, USUAL_ONE) for wrong in (
        ["nobody"], ["story", "code"], [["story"]], [7], [None, None], ["</script>"]))])
def test_the_rigs_own_drafters_come_first_and_what_was_chosen_stays_where_it_fits(
        method: str, names: list[Any], words: list[str], chosen: str) -> None:
    choice = choosing_drafters(ScriptedSource(), method, names)
    named = {value: word for word, value in choice["choices"]}
    assert (list(named.values()), named[choice["value"]]) == (words, chosen)
    assert choice["interactive"] == (len(words) > 1)


def test_a_value_of_the_list_is_read_back_and_nothing_else_is() -> None:
    source = ScriptedSource()
    source.drafters = ("story",)
    assert not choosing_drafters(source, "ddtree")["interactive"], "one drafter leaves no choice"
    for word, value in choosing_drafters(ScriptedSource(), "joint")["choices"][1:]:
        assert " + ".join(names_of(value)) == word
    for nothing in (USUAL_DRAFTERS, "", None, 7, "{", "{}", "[1]", json.dumps("a"), ["a"]):
        assert names_of(nothing) == []


def offered_by(rig: CurrentRig) -> list[str]:
    return [preset.name for preset in read_presets(PROMPTS).of(rig)]


def test_presets_follow_the_rig() -> None:
    demo, other = (offered_by(CurrentRig(scripted_rig(name))) for name in ("demo", "my/folder"))
    assert "boxes" in demo and other[0] == "any-code" and not set(demo) & set(other)
    without = recorded_rig(Library([]), "No model.")
    assert offered_by(CurrentRig(without)) == demo, "the recordings were made on the embedded rig"
    coming = offered_by(CurrentRig(without, coming=loading("smollm2")))
    assert [name.partition("-")[2] for name in coming[:3]] == ["palindrome", "facts", "story"]
    assert fitting("joint", ["autoregressive", "joint"]) == "joint"
    assert fitting("joint", ["autoregressive", "ddtree"]) == "ddtree" and fitting("joint", ["a"]) == "a"


@pytest.mark.parametrize(("change", "words"), [
    ({"method": "ddtre"}, "'any-code' in presets-any.json cannot be run. There is no method 'ddtre'"),
    ({"budget": -1}, "budget is -1"), ({"prompt": ""}, "prompt is empty"), ({"colour": "red"}, "nothing else"),
    ({"max_tokens": 7}, "nothing else"), ({"title": 7}, "of another kind")])
def test_a_preset_that_cannot_be_run_is_refused_when_the_page_starts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str) -> None:
    shipped = json.loads((PROMPTS / "presets-any.json").read_text("utf8"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "presets-any.json").write_text(json.dumps([{**shipped[0], **change}, *shipped[1:]]), "utf8")
    monkeypatch.setattr(page, "ASSETS", tmp_path)
    with pytest.raises(PresetError, match=re.escape(words)) as refused:
        page.build(CurrentRig(scripted_rig("first")), Library([]))
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize("text", ["[]", "{", "[7]", '{"name": "x"}', "7"])
def test_a_file_that_holds_no_presets_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "presets-any.json").write_text(text, "utf8")
    with pytest.raises(PresetError, match=r"^presets-any.json (is not a list of presets|has no preset)"):
        read_presets(tmp_path)
