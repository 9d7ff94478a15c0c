"""Two runs held against each other: where texts and rounds part, and how each accepted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.recorder import Recorder
from engine.records import Sampling
from engine.trace import Trace, load
from explorer.two_runs import TwoRuns, texts_part, two_runs, two_runs_call
from tests.explorer.scripted import scripted_trace

Chains = Sequence[tuple[Sequence[int], int]]  # drafted tokens and how many were accepted
TEXT = {1: "one ", 2: "two ", 3: "three ", 11: "one two ", 12: "🌳", 13: "x"}


def recorded(path: Path, root: int, chains: Chains, bonus: Sequence[int], prompt: str = "Count.") -> Trace:
    with Recorder(path, prompt=prompt, method="theirs", engine="their loop", token_text=TEXT) as recorder:
        for number, ((drafted, accepted), after) in enumerate(zip(chains, bonus, strict=True)):
            recorder.chain(drafted, accepted, after, root=None if number else root)
    return load(path)


def test_one_text_by_two_engines_that_number_their_tokens_otherwise(tmp_path: Path) -> None:
    ours = recorded(tmp_path / "a.jsonl", 1, [((2, 3), 2), ((2, 2), 0)], [1, 2])  # one two three | one
    theirs = recorded(tmp_path / "b.jsonl", 11, [((3, 13), 1), ((2,), 0)], [1, 3])  # "one two " three | one
    assert two_runs(ours, theirs) == {
        "same_text": True, "texts_part": None, "same_prompt": True, "rule": "", "sides": [
            {"rows": 3.0, "depths": [0.5, 0.5]}, {"rows": 2.5, "depths": [0.5, 0.0]}],
        "said": "The texts are the same. The rounds first differ at round 1, which kept 3 tokens in the first run and "
                "2 in the second."}


@pytest.mark.parametrize(("tokens", "parted"), [
    ((1, 2, 3), None), ((1, 2, 12), [2, 2]), ((1, 3, 2), [1, 1]), ((11, 3), None), ((11, 13), [2, 1]),
    ((1, 2), [2, 2])])
def test_texts_differ_at_their_first_different_character(
        tmp_path: Path, tokens: Sequence[int], parted: list[int] | None) -> None:
    first = recorded(tmp_path / "a.jsonl", 1, [((2, 3), 2)], [1])
    second = recorded(tmp_path / "b.jsonl", tokens[0], [(tokens[1:], len(tokens) - 1)], [1])
    assert texts_part(first, second) == parted
    assert two_runs(first, second)["said"].startswith("The texts are the same" if parted is None else (
        f"The texts first differ at token {parted[0] + 1} of the first and {parted[1] + 1} of the second."))


def test_two_methods_on_one_prompt() -> None:
    runs = {"tree": scripted_trace("ddtree", 24), "chain": scripted_trace("dflash", 10)}
    ask = two_runs_call(runs.__getitem__)
    view = ask({"first": {"run": "tree"}, "second": {"run": "tree"}})
    assert view["said"] == "The texts are the same. Every round kept as many tokens as in the other run."
    view = ask({"first": {"run": "tree"}, "second": {"run": "chain"}})
    assert view["same_text"] and "The rounds first differ at round " in view["said"]
    assert view["sides"][0]["rows"] > view["sides"][1]["rows"]
    rounds = runs["chain"].rounds
    accepted = sum(len(round_.acceptance.keep) > 1 for round_ in rounds) / len(rounds)
    assert view["sides"][1]["depths"][0] == accepted


@pytest.mark.parametrize(("wanted", "words"), [
    ({}, "has to be an object"), ({"first": {"run": "x"}, "second": 7}, "has to be an object"),
    ({"first": {"run": "empty"}, "second": {"run": "x"}}, "The first run has no round to compare."),
    ({"first": {"run": "x"}, "second": {"run": "empty"}}, "The second run has no round to compare.")])
def test_runs_that_cannot_be_compared_are_refused_in_a_sentence(wanted: Any, words: str) -> None:
    whole = scripted_trace("ddtree", 8)
    runs = {"x": whole, "empty": Trace(whole.header, (), whole.end)}
    ask = two_runs_call(runs.__getitem__)
    assert words in ask(wanted)["error"]


def parted(gap: float, dtype: str = "float32", **sampling: Any) -> TwoRuns:
    """Two runs of one prompt whose second tokens differ, if the first run's gap there was this."""
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
    near, wide, drawn = parted(0.0005), parted(0.2), parted(0.2, temperature=0.7)
    assert "a near-tie, which rounding in float32 may turn" in near["said"] and "look for a bug" in wide["said"]
    assert "a near-tie" in parted(0.2, "bfloat16")["said"] and "Both were drawn" in drawn["said"]
    assert near["rule"].endswith("nothing follows.") and " are as near." in near["said"]
    assert parted(float("nan"))["said"].count("is not known.") == 1
    assert "is not known." in parted(0.2, presence_penalty=1.0)["said"], "the choice was by other logits"
    thinks = scripted_trace("ddtree", 8)
    assert not two_runs(thinks, replace(thinks, header=replace(thinks.header, thinking="off")))["same_prompt"]
