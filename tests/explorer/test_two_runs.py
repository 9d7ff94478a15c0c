"""Two runs compared: where their texts and rounds first differ, and how much each accepted."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.lab.against_plain import NEAR_TIE
from engine.recorder import Recorder
from engine.records import Sampling
from engine.trace import Trace, load
from explorer.two_runs import TwoRuns, first_difference, two_runs, two_runs_call
from tests.explorer.scripted import scripted_trace

Chains = Sequence[tuple[Sequence[int], int]]  # drafted tokens, number accepted
TEXT = {1: "one ", 2: "two ", 3: "three ", 11: "one two ", 12: "🌳", 13: "x"}


def record_run(path: Path, root: int, chains: Chains, bonus: Sequence[int], prompt: str = "Count.") -> Trace:
    with Recorder(path, prompt=prompt, method="theirs", engine="their loop", token_text=TEXT) as recorder:
        for number, ((drafted, accepted), after) in enumerate(zip(chains, bonus, strict=True)):
            recorder.chain(drafted, accepted, after, root=None if number else root)
    return load(path)


def test_equal_texts_are_recognised_across_different_tokenizers(tmp_path: Path) -> None:
    ours = record_run(tmp_path / "a.jsonl", 1, [((2, 3), 2), ((2, 2), 0)], [1, 2])  # one two three | one
    theirs = record_run(tmp_path / "b.jsonl", 11, [((3, 13), 1), ((2,), 0)], [1, 3])  # "one two " three | one
    view: dict[str, Any] = {**two_runs(ours, theirs)}
    assert re.findall(r"\d+", view.pop("summary")) == ["1", "3", "2"], "the round, and each side's kept nodes"
    assert view == {"same_text": True, "first_difference": None, "same_prompt": True, "rule": "", "sides": [
        {"rows": 3.0, "depths": [0.5, 0.5]}, {"rows": 2.5, "depths": [0.5, 0.0]}]}


@pytest.mark.parametrize(("tokens", "difference"), [
    ((1, 2, 3), None), ((1, 2, 12), [2, 2]), ((1, 3, 2), [1, 1]), ((11, 3), None), ((11, 13), [2, 1]),
    ((1, 2), [2, 2])])
def test_texts_differ_at_their_first_different_character(
        tmp_path: Path, tokens: Sequence[int], difference: list[int] | None) -> None:
    first = record_run(tmp_path / "a.jsonl", 1, [((2, 3), 2)], [1])
    second = record_run(tmp_path / "b.jsonl", tokens[0], [(tokens[1:], len(tokens) - 1)], [1])
    assert first_difference(first, second) == difference
    view = two_runs(first, second)
    assert view["same_text"] == (difference is None)
    assert difference is None or re.findall(r"\d+", view["summary"])[:2] == [str(place + 1) for place in difference]


def test_two_methods_on_one_prompt_are_compared() -> None:
    runs = {"tree": scripted_trace("ddtree", 24), "chain": scripted_trace("dflash", 10)}
    ask = two_runs_call(runs.__getitem__)
    view = ask({"first": {"run": "tree"}, "second": {"run": "tree"}})
    assert view["same_text"] and not re.search(r"\d", view["summary"]), "no round is named"
    view = ask({"first": {"run": "tree"}, "second": {"run": "chain"}})
    assert view["same_text"] and re.search(r"\d", view["summary"])
    assert view["sides"][0]["rows"] > view["sides"][1]["rows"]
    rounds = runs["chain"].rounds
    accepted = sum(len(round_.acceptance.keep) > 1 for round_ in rounds) / len(rounds)
    assert view["sides"][1]["depths"][0] == accepted


@pytest.mark.parametrize(("wanted", "named"), [
    ({}, "object"), ({"first": {"run": "x"}, "second": 7}, "object"),
    ({"first": {"run": "empty"}, "second": {"run": "x"}}, "first"),
    ({"first": {"run": "x"}, "second": {"run": "empty"}}, "second")])
def test_runs_that_cannot_be_compared_are_refused_in_a_sentence(wanted: Any, named: str) -> None:
    whole = scripted_trace("ddtree", 8)
    runs = {"x": whole, "empty": Trace(whole.header, (), whole.end)}
    ask = two_runs_call(runs.__getitem__)
    assert named in ask(wanted)["error"]


def differing_runs(gap: float, dtype: str = "float32", **sampling: Any) -> TwoRuns:
    """Compare two runs of one prompt whose second tokens differ, with this gap in the first run."""
    one, other = scripted_trace("ddtree", 8), scripted_trace("ddtree", 8)
    first = one.entries[0]
    blank = np.full(len(first.round.tree), gap, np.float32)
    verified = replace(first.round.verification, gap=blank)
    header = replace(one.header, dtype=dtype, request=replace(
        one.header.request, sampling=Sampling(**sampling)))
    tokens = first.round.tree.tokens.copy()
    tokens[first.round.acceptance.keep[1]] = tokens[0]
    changed = replace(first.round, tree=replace(first.round.tree, tokens=tokens), verification=verified)
    bare = replace(first.round, verification=replace(verified, gap=np.full(len(tokens), np.nan, np.float32)))
    return two_runs(Trace(header, (replace(first, round=changed), *one.entries[1:]), one.end),
                    Trace(header, (replace(first, round=bare), *other.entries[1:]), other.end))


def test_the_first_difference_of_two_texts_has_one_verdict() -> None:
    near, wide, drawn = differing_runs(0.0005), differing_runs(0.2), differing_runs(0.2, temperature=0.7)
    assert NEAR_TIE in near["summary"] and "float32" in near["summary"] and near["rule"]
    assert NEAR_TIE in differing_runs(0.2, "bfloat16")["summary"]
    unknown, penalised = differing_runs(float("nan")), differing_runs(0.2, presence_penalty=1.0)
    assert not any(NEAR_TIE in view["summary"] for view in (wide, drawn, unknown, penalised))
    assert len({view["summary"] for view in (near, wide, drawn, unknown)}) == 4
    thinks = scripted_trace("ddtree", 8)
    assert not two_runs(thinks, replace(thinks, header=replace(thinks.header, thinking="off")))["same_prompt"]
