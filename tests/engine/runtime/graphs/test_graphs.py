"""On a GPU: captured rounds against ``decode`` on the same GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.commands.program import main
from engine.decoding.loop import decode
from engine.decoding.outcome import outcome
from engine.records import Ask, Request, Sampling
from engine.requests.prompts import read_prompts
from engine.runtime.graphs.decode import GraphLoop
from engine.runtime.rigs.live import LiveRig
from engine.runtime.rigs.rigs import open_rig
from tests.engine.runtime.graphs.test_graph_decode import METHODS, PROMPT, assert_same
from tests.engine.runtime.small import small_drafter, small_target

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]


@pytest.mark.filterwarnings("error:A round could not be captured")
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 12, 0.95, 3)], ids=["greedy", "warm"])
@pytest.mark.parametrize("method", METHODS)
def test_captured_rounds_are_those_of_decode(method: str, sampling: Sampling) -> None:
    with torch.device("cuda"):
        target = small_target()
        drafters = [small_drafter(target, 1), small_drafter(target, 2)]
    for budget in (0, 7, 33):
        assert_same(Request(PROMPT, method=method, budget=budget, max_tokens=40, sampling=sampling), target, drafters)


@pytest.mark.filterwarnings("error:A round could not be captured")
def test_the_next_text_of_a_kind_takes_the_same_graphs() -> None:
    with torch.device("cuda"):
        target = small_target()
        drafter = small_drafter(target)
    loop = GraphLoop(target, 16)
    for prompt in (PROMPT, PROMPT[3:], tuple(range(30, 60))):
        request = Request(prompt, method="ddtree", budget=9, max_tokens=20)
        found = [made.committed.tolist() for made in loop.decode(request, [drafter])]
        assert found == [made.committed.tolist() for made in decode(request, target, [drafter])]


def tau_on(device: str, method: str) -> float:
    """Tokens a round over some prompts of the demo rig, float32, budget 64."""
    live = LiveRig(open_rig("demo", "float32", device))
    tokens = rounds = 0
    for prompt in read_prompts(Path("assets/prompts/bench.jsonl"))[:12]:
        with live.rounds(Ask(prompt.text, method=method, budget=64, max_tokens=96)) as made:
            found = outcome(made)
        tokens, rounds = tokens + len(found.token_ids), rounds + len(found.lengths)
    return tokens / rounds


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "joint"])
def test_the_demo_rig_has_the_same_tau_as_on_the_cpu(method: str) -> None:
    assert tau_on("cuda", method) == pytest.approx(tau_on("cpu", method), rel=0.01)  # float32 sums differ by order


def test_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--shape", "tiny", "--random", "--budgets", "8", "--rounds", "3", "--context", "40"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["points"][0]["ms_per_round"] > 0
