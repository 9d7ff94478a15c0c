"""On a GPU: every method writes plain decoding's text, with the same acceptance lengths as on a CPU."""

from pathlib import Path

import pytest
import torch

from engine.commands.program import main
from engine.records import PromptRequest
from engine.requests.prompts import read_prompts
from engine.serving.rigs import load_rig
from engine.trace import mean_length

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]


def tau_on(device: str, method: str) -> float:
    """Return the tokens per round over some prompts of the demo rig, in float32 at budget 64."""
    live = load_rig("demo", "float32", device)
    lengths: list[int] = []
    for prompt in read_prompts(Path("assets/prompts/bench.jsonl"))[:12]:
        with live.interleaved([PromptRequest(prompt.text, method=method, budget=64, max_tokens=96)]) as (rounds,):
            lengths += [len(round_.committed) for round_ in rounds]
    return mean_length(sum(lengths), len(lengths))


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "joint"])
def test_the_demo_rig_has_the_same_tau_as_on_the_cpu(method: str) -> None:
    assert tau_on("cuda", method) == pytest.approx(tau_on("cpu", method), rel=0.01)  # the order of float32 sums differs


@pytest.mark.parametrize("rig", ["demo", "random:tiny"])
def test_every_lossless_method_writes_plain_decodings_text(rig: str) -> None:
    assert main(["check", "--rig", rig, "--prompts", "check", "--limit", "4", "--concurrency", "1", "3"]) == 0


def test_the_bench_runs() -> None:
    assert main(["bench", "--rig", "random:tiny", "--budgets", "8", "--limit", "1", "--max-tokens", "16"]) == 0
