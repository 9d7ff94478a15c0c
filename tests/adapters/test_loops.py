"""Recordings of the published loops: stand-ins make the same calls over the toy engine's rounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.ddtree import record_round
from adapters.eagle import EagleRounds
from engine.recorder import Recorder
from engine.records import Request, Round
from engine.trace import committed_ids, load
from tests.engine.helpers import GREEDY, drafters_of, run
from tests.engine.toy import ToyTarget

torch = pytest.importorskip("torch")
VOCABULARY = 8


@pytest.fixture
def rounds() -> list[Round]:
    target = ToyTarget(seed=2, vocabulary=VOCABULARY)
    request = Request((1, 2, 3), method="ddtree", budget=9, max_tokens=20, sampling=GREEDY)
    return run(request, target, drafters_of("ddtree", target))


def ddtree_generate(
        rounds: list[Round], recorder: Recorder, max_new_tokens: int = 99, stop_token_ids: list[int] | None = None,
) -> None:
    """Run a stand-in with the names of ``ddtree_generate``, which looks for the text's end after a round."""
    for round_ in rounds:
        start = round_.start
        draft_logits = torch.full((1, round_.drafts[0].depth, VOCABULARY), -30.0)
        draft_logits[0].scatter_(1, torch.tensor(round_.drafts[0].tokens[:, 0]).long(),
                                 torch.tensor(round_.drafts[0].logprobs[:, 0]))
        parents = [-1, *round_.tree.parents.tolist()[1:]]
        verify_input_ids = torch.tensor(round_.tree.tokens).long()[None]
        posterior = torch.tensor(round_.verification.choice).long()[None]
        accepted_indices, next_token = round_.acceptance.keep.tolist(), round_.acceptance.bonus
        assert start >= 0 and parents and draft_logits is not None
        record_round(recorder, locals())
        verify_input_ids.zero_()
        assert posterior is not None and accepted_indices and next_token >= 0
        if not {*round_.committed.tolist(), next_token}.isdisjoint(stop_token_ids or []):
            break


def text_of(path: Path) -> list[int]:
    """Return the recorded text's tokens."""
    return committed_ids(load(path).rounds)


@pytest.mark.parametrize("stop", range(VOCABULARY))
@pytest.mark.parametrize("limit", [1, 5, 7, 20, 99])
def test_the_recorded_text_is_cut_as_in_the_loop(
        stop: int, limit: int, rounds: list[Round], tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl", strict=True, every=1) as recorder:
        ddtree_generate(rounds, recorder, limit, [stop])
    whole = committed_ids(rounds)
    expected = whole[:min(limit, whole.index(stop) if stop in whole else len(whole))]
    trace = load(tmp_path / "run.jsonl")
    if not expected:
        assert (trace.entries, trace.end.reason, trace.end.rounds) == ((), "stop", 0)
        return
    assert text_of(tmp_path / "run.jsonl") == expected
    bonus = trace.entries[-1].round.acceptance.bonus
    assert bonus == [*whole, rounds[-1].acceptance.bonus][len(expected)]
    reason = "stop" if bonus == stop else "length" if len(expected) == limit else "unknown"
    assert (trace.end.reason, trace.end.rounds) == (reason, len(trace.entries))


@pytest.mark.parametrize("every", [1, 3])
def test_rounds_after_the_text_are_not_recorded(every: int, tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl", stop_ids=[9], max_tokens=50, every=every) as recorder:
        for tokens in ([1, 2, 3], [4, 5, 9], [9, 7, 7], [8, 8, 8], [1, 1, 1]):
            recorder.round(tokens=tokens, parents=[0, 0, 1], keep=[0, 1, 2], bonus=tokens[0])
    trace = load(tmp_path / "run.jsonl")
    assert text_of(tmp_path / "run.jsonl") == ([1, 2, 3, 4, 5] if every == 1 else [1, 2, 3])
    assert (trace.end.reason, trace.end.rounds, trace.end.refused) == ("stop", 2, 0)
    assert (trace.header.request.stop_ids, trace.header.request.max_tokens) == (frozenset([9]), 50)


def eagenerate(rounds: list[Round], recorder: Recorder) -> None:
    """Run a stand-in with the names of ``EaModel.eagenerate``."""
    eagle = EagleRounds(recorder)
    padding = torch.zeros(1, 1, dtype=torch.long) - 1
    for round_ in rounds:
        input_ids = torch.zeros(1, round_.start, dtype=torch.long)
        paths = paths_of(round_.tree.parents.tolist())
        retrieve_indices = torch.tensor([path + [-1] * (max(map(len, paths)) - len(path)) for path in paths])
        draft_tokens = torch.cat((torch.tensor(round_.tree.tokens).long()[None], padding), dim=1)
        tree_logits = torch.nn.functional.one_hot(torch.tensor(round_.verification.choice).long(), VOCABULARY).float()
        logits = tree_logits[retrieve_indices]
        keep = round_.acceptance.keep.tolist()
        best_candidate = torch.tensor([path[:len(keep)] == keep for path in paths].index(True))
        accept_length = torch.tensor(len(keep) - 1)
        sample_p = logits[best_candidate, accept_length]
        assert input_ids is not None and draft_tokens is not None and sample_p is not None
        eagle.verified(locals())
    eagle.ended()


def paths_of(parents: list[int]) -> list[list[int]]:
    """Return every path from the root to a leaf."""
    paths = []
    for leaf in set(range(len(parents))) - set(parents[1:]) or {0}:
        path = [leaf]
        while path[0] != 0:
            path.insert(0, parents[path[0]])
        paths.append(path)
    return paths


def recorded_parts(round_: Round) -> tuple[Any, ...]:
    """Return the parts of a round that every loop records."""
    tree, acceptance = round_.tree, round_.acceptance
    return (tree.tokens.tolist(), tree.parents.tolist(), acceptance.keep.tolist(), acceptance.bonus,
            round_.verification.choice.tolist())


@pytest.mark.parametrize("loop", [ddtree_generate, eagenerate])
def test_the_recorded_rounds_equal_those_of_the_loop(loop: object, rounds: list[Round], tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz", strict=True) as recorder:
        loop(rounds, recorder)  # type: ignore[operator]
    read = load(tmp_path / "run.jsonl.gz").rounds
    assert len(read) == len(rounds) > 3 and [round_.start for round_ in read] == [round_.start for round_ in rounds]
    assert list(map(recorded_parts, read)) == list(map(recorded_parts, rounds))


def test_recorded_marginals_of_ddtree_equal_the_drafters(rounds: list[Round], tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz", strict=True) as recorder:
        ddtree_generate(rounds, recorder)
    for round_, entry in zip(rounds, load(tmp_path / "run.jsonl.gz").entries, strict=True):
        ranks = round_.drafts[0].tokens.shape[-1]
        np.testing.assert_allclose(entry.round.drafts[0].logprobs[..., :ranks], round_.drafts[0].logprobs, atol=1e-4)
