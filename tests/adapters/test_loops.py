"""The published loops recorded: stand-ins that call things as they do, over the toy engine's rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters.ddtree import record_round
from adapters.eagle import EagleRounds
from engine.recorder import Recorder
from engine.records import Request, Round
from engine.trace import load
from tests.engine.material import GREEDY, drafters_of, run
from tests.engine.toy import ToyTarget

torch = pytest.importorskip("torch")
VOCABULARY = 8


@pytest.fixture
def rounds() -> list[Round]:
    target = ToyTarget(seed=2, vocabulary=VOCABULARY)
    return run(Request((1, 2, 3), method="ddtree", budget=9, max_tokens=20,
                       sampling=GREEDY), target, drafters_of("ddtree", target))


def ddtree_generate(rounds: list[Round], recorder: Recorder) -> None:
    """The loop's names, as in ``ddtree_generate``."""
    for made in rounds:
        start = made.start
        draft_logits = torch.full((1, made.drafts[0].depth, VOCABULARY), -30.0)
        draft_logits[0].scatter_(1, torch.tensor(made.drafts[0].tokens[:, 0]).long(),
                                 torch.tensor(made.drafts[0].logprobs[:, 0]))
        parents = [-1, *made.tree.parents.tolist()[1:]]
        verify_input_ids = torch.tensor(made.tree.tokens).long()[None]
        posterior = torch.tensor(made.verification.choice).long()[None]
        accepted_indices, next_token = made.acceptance.keep.tolist(), made.acceptance.bonus
        assert start >= 0 and parents and draft_logits is not None
        record_round(recorder, locals())
        verify_input_ids.zero_()
        assert posterior is not None and accepted_indices and next_token >= 0


def eagenerate(rounds: list[Round], recorder: Recorder) -> None:
    """The loop's names, as in ``EaModel.eagenerate``."""
    eagle = EagleRounds(recorder)
    padding = torch.zeros(1, 1, dtype=torch.long) - 1
    for made in rounds:
        input_ids = torch.zeros(1, made.start, dtype=torch.long)
        paths = paths_of(made.tree.parents.tolist())
        retrieve_indices = torch.tensor([path + [-1] * (max(map(len, paths)) - len(path)) for path in paths])
        draft_tokens = torch.cat((torch.tensor(made.tree.tokens).long()[None], padding), dim=1)
        tree_logits = torch.nn.functional.one_hot(torch.tensor(made.verification.choice).long(), VOCABULARY).float()
        logits = tree_logits[retrieve_indices]
        keep = made.acceptance.keep.tolist()
        best_candidate = torch.tensor([path[:len(keep)] == keep for path in paths].index(True))
        accept_length = torch.tensor(len(keep) - 1)
        sample_p = logits[best_candidate, accept_length]
        assert input_ids is not None and draft_tokens is not None and sample_p is not None
        eagle.verified(locals())
    eagle.ended()


def paths_of(parents: list[int]) -> list[list[int]]:
    """Every way from the root to a leaf."""
    paths = []
    for leaf in set(range(len(parents))) - set(parents[1:]) or {0}:
        path = [leaf]
        while path[0] != 0:
            path.insert(0, parents[path[0]])
        paths.append(path)
    return paths


@pytest.mark.parametrize("loop", [ddtree_generate, eagenerate])
def test_the_recorded_rounds_are_the_loops(loop: object, rounds: list[Round], tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz", strict=True) as recorder:
        loop(rounds, recorder)  # type: ignore[operator]
    found = [entry.round for entry in load(tmp_path / "run.jsonl.gz").entries]
    assert len(found) == len(rounds) > 3
    for made, other in zip(rounds, found, strict=True):
        assert other.start == made.start
        assert other.tree.tokens.tolist() == made.tree.tokens.tolist()
        assert other.tree.parents.tolist() == made.tree.parents.tolist()
        assert other.acceptance.keep.tolist() == made.acceptance.keep.tolist()
        assert other.acceptance.bonus == made.acceptance.bonus
        assert other.verification.choice.tolist() == made.verification.choice.tolist()


def test_ddtrees_marginals_are_the_drafters(rounds: list[Round], tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz", strict=True) as recorder:
        ddtree_generate(rounds, recorder)
    for made, entry in zip(rounds, load(tmp_path / "run.jsonl.gz").entries, strict=True):
        ranks = made.drafts[0].tokens.shape[-1]
        np.testing.assert_allclose(entry.round.drafts[0].logprobs[..., :ranks], made.drafts[0].logprobs, atol=1e-4)
