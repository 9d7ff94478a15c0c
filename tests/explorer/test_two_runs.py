"""Two runs held against each other: where texts and rounds part, and how each accepted."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import RequestError
from engine.lab.redraft import Redrafting
from engine.recorder import Recorder
from engine.records import Sampling
from engine.trace import Trace, committed_ids, load, tau
from explorer.budgets import Budgets
from explorer.two_runs import TwoRuns, accepted_by_depth, texts_part, two_runs, two_runs_call
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering

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
        "same_text": True, "texts_part": None, "same_prompt": True, "rounds_part": 0, "rule": "", "sides": [
            {"tau": 2.0, "rows": 3.0, "rounds": 2, "tokens": 4, "lengths": [3, 1], "depths": [0.5, 0.5]},
            {"tau": 1.5, "rows": 2.5, "rounds": 2, "tokens": 3, "lengths": [2, 1], "depths": [0.5, 0.0]}],
        "said": "The texts are the same. The rounds first differ at round 1, which kept 3 tokens in the first run and "
                "2 in the second."}


@pytest.mark.parametrize(("tokens", "parted"), [
    ((1, 2, 3), None), ((1, 2, 12), [2, 2]), ((1, 3, 2), [1, 1]), ((11, 3), None), ((11, 13), [2, 1]),
    ((1, 2), [2, 2])])
def test_texts_part_where_their_characters_do(tmp_path: Path, tokens: Sequence[int], parted: list[int] | None) -> None:
    first = recorded(tmp_path / "a.jsonl", 1, [((2, 3), 2)], [1])
    second = recorded(tmp_path / "b.jsonl", tokens[0], [(tokens[1:], len(tokens) - 1)], [1])
    assert texts_part(first, second) == parted
    assert two_runs(first, second)["said"].startswith("The texts are the same" if parted is None else (
        f"The texts first differ at token {parted[0] + 1} of the first and {parted[1] + 1} of the second."))


def test_two_methods_on_one_prompt_and_two_rounds_of_one_file() -> None:
    runs = {"tree": scripted_trace("ddtree", 24), "chain": scripted_trace("dflash", 10)}
    ask = two_runs_call(runs.__getitem__)
    view = ask({"first": {"run": "tree", "round": 2}, "second": {"run": "tree", "round": 0}})
    assert view["said"] == "The texts are the same. Every round kept as many tokens as in the other run."
    assert [side["round"]["index"] for side in view["sides"]] == [2, 0]
    assert view["sides"][0]["round"]["kept"] == view["sides"][0]["lengths"][2]
    view = ask({"first": {"run": "tree"}, "second": {"run": "chain"}})
    assert view["same_text"] and view["rounds_part"] is not None and "round" not in view["sides"][0]
    assert view["sides"][0]["tau"] > view["sides"][1]["tau"] and view["sides"][0]["rows"] > view["sides"][1]["rows"]
    rounds = [entry.round for entry in runs["chain"].entries]
    assert accepted_by_depth(rounds)[0] == sum(len(round_.acceptance.keep) > 1 for round_ in rounds) / len(rounds)


@pytest.mark.parametrize(("wanted", "words"), [
    ({}, "has to be an object"), ({"first": {"run": "x"}, "second": 7}, "has to be an object"),
    ({"first": {"run": "x", "round": 99}, "second": {"run": "x"}}, "The round is 99"),
    ({"first": {"run": "empty"}, "second": {"run": "x"}}, "The first run has no round to compare."),
    ({"first": {"run": "x"}, "second": {"run": "empty"}}, "The second run has no round to compare.")])
def test_what_cannot_be_compared_is_a_sentence(wanted: Any, words: str) -> None:
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


def test_where_two_texts_part_has_one_verdict_and_its_rule() -> None:
    near, wide, drawn = parted(0.0005), parted(0.2), parted(0.2, temperature=0.7)
    assert "a near-tie, which rounding in float32 may turn" in near["said"] and "look for a bug" in wide["said"]
    assert "a near-tie" in parted(0.2, "bfloat16")["said"] and "Both were drawn" in drawn["said"]
    assert near["rule"].endswith("nothing follows.") and " are as near." in near["said"]
    assert parted(float("nan"))["said"].count("is not known.") == 1
    assert "is not known." in parted(0.2, presence_penalty=1.0)["said"], "the choice was by other logits"
    thinks = scripted_trace("ddtree", 8)
    assert not two_runs(thinks, replace(thinks, header=replace(thinks.header, thinking="off")))["same_prompt"]


def asked(traces: dict[str, Trace], call: int, **wanted: Any) -> Any:
    source = ScriptedSource()
    return Budgets(answering(source, ScriptedInstruments()), traces.__getitem__).functions()[call](wanted)


@pytest.mark.parametrize("method", ["ddtree", "joint", "merged", "routed", "dflash"])
def test_at_its_own_budget_a_run_is_what_it_was(method: str) -> None:
    trace = scripted_trace(method, 16)
    alike = replace(trace, header=replace(trace.header, drafters=("a",) * len(trace.header.drafters)))
    for drafts, entry in itertools.product((Redrafting(trace), Redrafting(alike)), trace.entries[:-1]):
        round_ = drafts.round_at(entry.round, 16)
        np.testing.assert_array_equal(round_.tree.tokens, entry.round.tree.tokens)
        np.testing.assert_array_equal(round_.committed, entry.round.committed)
        assert round_.acceptance.bonus == entry.round.acceptance.bonus
        np.testing.assert_array_equal(round_.verification.offered, entry.round.verification.offered)


def test_another_budget_keeps_what_a_run_at_it_keeps_from_the_same_place() -> None:
    small, large = scripted_trace("ddtree", 4), scripted_trace("ddtree", 64)
    round_, real = Redrafting(small).round_at(small.entries[0].round, 64), large.entries[0].round
    np.testing.assert_array_equal(round_.committed, real.committed)
    assert round_.acceptance.bonus == real.acceptance.bonus and len(round_.tree) > len(small.entries[0].round.tree)
    assert np.isnan(round_.verification.offered).any()  # of nodes that the run did not verify, nothing is known
    assert (round_.verification.choice[round_.acceptance.keep] >= 0).all()


def test_the_curve_goes_through_the_run_and_rises_with_the_budget() -> None:
    trace = scripted_trace("ddtree", 32)
    view = asked({"run": trace}, 0, run="run")
    at = view["budgets"].index(32)
    assert view["tau"]["mean"][at] == pytest.approx(tau([entry.round for entry in trace.entries]), rel=0.1)
    assert view["tau"]["mean"] == sorted(view["tau"]["mean"])
    assert all(low <= mean <= high for low, mean, high in zip(*(view["tau"][side] for side in ("low", "mean", "high")),
                                                              strict=True))
    assert min(view["speed"]["mean"]) > 0 and view["plain"] > 0 and view["withheld"] == ""


def test_the_curve_has_the_scale_of_what_was_measured_and_none_where_that_is_withheld() -> None:
    trace, measured = scripted_trace("ddtree", 32), dict[str, Any]()
    budgets = Budgets(answering(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__,
                      lambda run: measured)
    alone = budgets.curve({"run": "run"})
    measured |= {"withheld": "", "plain_speed": "12.5"}
    beside = budgets.curve({"run": "run"})
    assert beside["plain"] == 12.5 and beside["tau"] == alone["tau"]
    gains = [np.asarray(view["speed"]["mean"]) / view["plain"] for view in (alone, beside) if view["speed"]]
    np.testing.assert_allclose(gains[0], gains[1], rtol=1e-3)
    measured["withheld"] = "It was busy."
    withheld = budgets.curve({"run": "run"})
    assert (withheld["speed"], withheld["plain"], withheld["withheld"]) == (None, 0.0, "It was busy.")
    assert withheld["tau"] == alone["tau"]


def test_a_run_in_progress_is_read_a_few_rounds_at_a_time() -> None:
    trace = scripted_trace("ddtree", 2)
    budgets = Budgets(answering(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__)
    counts = [budgets.curve({"run": "run", "live": True})["rounds"] for _ in range(3)]
    assert counts[0] < counts[1] < counts[2] <= len(trace.entries)
    assert budgets.curve({"run": "run"})["rounds"] > counts[2]


def test_what_cannot_be_known_is_a_sentence() -> None:
    with pytest.raises(RequestError, match="autoregressive would have kept"):
        Redrafting(scripted_trace("autoregressive", 0))
    with pytest.raises(RequestError, match="follows the text"):
        Redrafting(scripted_trace("nanogpt", 8))
    trace = scripted_trace("ddtree", 8)
    assert "from 0 to 4096" in asked({"run": trace}, 1, run="run", round=0, budget=10**6)["error"]
    line = json.loads(asked({"run": trace}, 1, run="run", round=0, budget=8))
    assert line["round"]["tree"]["tokens"]["shape"] == [9]
    assert len(committed_ids(entry.round for entry in trace.entries)) > 8
