"""The engine on a pretended GPU: the CPU's texts, no call over two devices, and the copies of a round counted."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.decoding.loop import Run, decode, decode_batch
from engine.decoding.methods import METHODS
from engine.decoding.protocols import Drafter
from engine.drafters.dflash.lattices import transitions
from engine.models.passes import FusedPass
from engine.models.target import TorchTarget
from engine.records import PromptRequest, Request, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.drafters.test_eagle3 import LAYERS, LLAMA, write_eagle3
from tests.engine.drafters.test_mtp import write_mtp
from tests.engine.drafters.test_uno import write_adapter
from tests.engine.material import GREEDY, WARM, plain_text, text, text_of
from tests.engine.models.shrunk import HalfKnowing, shrunk
from tests.engine.published import write_short
from tests.gpu.pretended import Counts, pretended_gpu

PROMPT = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
# The fused pass, windows, latent attention, two kinds of recurrent layers: one of each cache.
DENSE: dict[str, dict[str, Any]] = {
    "qwen3": {}, "gemma3_text": {}, "deepseek_v3": {"first_k_dense_replace": 4}, "qwen3_5_text": {}, "lfm2": {}}
TARGETS = {**DENSE, "qwen3_moe": {}}
SEES_ITS_PATH = "small"


@pytest.fixture(scope="module")
def on_cpu() -> Rig:
    return load_rig("demo", "float32", "cpu")


@pytest.fixture(scope="module")
def gpu() -> Iterator[Counts]:
    with pretended_gpu() as counts:
        yield counts


@pytest.fixture(scope="module")
def on_gpu(gpu: Counts) -> Rig:
    return load_rig("demo", "float32", "cuda")


def asked(method: str, sampling: Sampling = GREEDY, drafters: Sequence[str] = ()) -> PromptRequest:
    return PromptRequest(PROMPT, method=method, budget=12, max_tokens=16, sampling=sampling, drafters=tuple(drafters))


def answer(rig: Rig, ask: PromptRequest) -> list[int]:
    with rig.in_turns([ask]) as (rounds,):
        return text(rounds)


def copies(rig: Rig, counts: Counts, ask: PromptRequest, recorded: bool) -> dict[str, float]:
    """Copies and synchronisations a round, on average over the rounds after the first."""
    made = 0
    with rig.in_turns([ask]) as (rounds,):
        for number, round_ in enumerate(rounds):
            if recorded:
                assert round_.verification.entropy.shape == round_.tree.tokens.shape
            if number == 0:
                counts.clear()
            made = number
    return {kind: counts.calls[kind] / made for kind in ("to_device", "to_host", "synchronisation")}


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_the_cpus_text(method: str, sampling: Sampling, on_cpu: Rig, on_gpu: Rig) -> None:
    drafters = [SEES_ITS_PATH] if method == "expand" else []
    ask = asked(method, sampling, drafters)
    assert answer(on_gpu, ask) == answer(on_cpu, ask)


@pytest.mark.parametrize("drafter", ["all", "all2", SEES_ITS_PATH])
def test_every_drafter_of_the_demo_rig_does(drafter: str, on_cpu: Rig, on_gpu: Rig) -> None:
    ask = asked("ddtree", drafters=[drafter])
    assert answer(on_gpu, ask) == answer(on_cpu, ask)


DRAFTERS: dict[str, Callable[[Path], str]] = {
    "EAGLE-3": lambda folder: f"{write_short(folder / 'target', LLAMA, num_hidden_layers=LAYERS)}::"
                              f"{write_eagle3(folder / 'head')}",
    "MTP": lambda folder: f"{write_mtp(folder / 'target', 'qwen3_5_text')}::mtp",
    "MTP, latent attention": lambda folder: f"{write_mtp(folder / 'target', 'deepseek_v3')}::mtp",
    "UNO": lambda folder: f"{write_short(folder / 'target', 'Qwen3-8B')}::{write_adapter(folder / 'uno')}"}


@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_drafter_proposes_what_it_does_on_the_cpu(kind: str, tmp_path: Path, gpu: Counts) -> None:
    name, trees = DRAFTERS[kind](tmp_path), []
    for device in ("cpu", "cuda"):
        rig = load_rig(name, "float32", device)
        with rig.in_turns([PromptRequest("A", method="ddtree", budget=8, max_tokens=12)]) as (rounds,):
            trees.append([round_.tree.tokens.tolist() for round_ in rounds])
    assert trees[0] == trees[1]


def test_transitions_are_those_of_the_cpu_without_a_synchronisation(gpu: Counts) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 40, 40, generator=generator)
    on_host = transitions(lambda slot, tokens: scores[slot, tokens], 4, torch.tensor(5), 6)
    there, root = scores.to("cuda"), torch.tensor(5, device="cuda")
    gpu.clear()
    on_device = transitions(lambda slot, tokens: there[slot, tokens], 4, root, 6)
    assert gpu.calls["to_host"] == 1 and not gpu.calls["synchronisation"] and not gpu.calls["to_device"]
    for name in ("tokens", "logprobs", "follow"):
        assert getattr(on_host, name).tolist() == getattr(on_device, name).tolist()


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_of_each_cache_write_the_cpus_text_at_any_concurrency(kind: str, gpu: Counts) -> None:
    prompt = tuple(range(5, 17))
    request = Request(prompt, method="merged", budget=8, max_tokens=8)
    target = TorchTarget(shrunk(kind, **TARGETS[kind]), ())
    plain = plain_text(request, target)
    there = TorchTarget(shrunk(kind, **TARGETS[kind]).to("cuda"), ())
    drafters: list[Drafter] = [HalfKnowing(prompt, plain, seed) for seed in (0, 1)]
    assert text_of(request, there, drafters) == plain
    deep = Request((*prompt, *plain), method="merged", budget=8, max_tokens=6)
    runs = [Run(one, there.fork(), [drafter.fork() for drafter in drafters]) for one in (request, deep, request)]
    texts: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for number, round_ in decode_batch(runs, 3):
        texts[number] += round_.committed.tolist()
    assert texts == {0: plain, 1: plain_text(deep, target), 2: plain}


@pytest.mark.parametrize("recorded", [False, True], ids=["recording off", "recording on"])
@pytest.mark.parametrize(("method", "drafters", "drafts"), [
    ("autoregressive", [], 0), ("ddtree", ["all"], 1), ("ddtree", ["all2"], 1), ("merged", ["math", "code"], 2),
    ("expand", [SEES_ITS_PATH], 1)])
def test_a_round_copies_once_each_way(method: str, drafters: list[str], drafts: int, recorded: bool, on_gpu: Rig,
                                      gpu: Counts) -> None:
    """To the device: the tree's rows, and which of them are kept; what a drafter that sees its path reads is not
    there yet. To the host: each lattice, the choices, and the statistics if they are read."""
    counted = copies(on_gpu, gpu, asked(method, drafters=drafters), recorded)
    reads = method == "expand"
    assert counted["to_device"] <= 2 + reads, gpu.lines
    assert counted["to_host"] <= drafts + 1 + 1.5 * recorded, gpu.lines
    assert counted["synchronisation"] == 0, gpu.lines


@pytest.mark.parametrize("kind", DENSE)  # experts, computed one by one in float32, are chosen on the host
def test_no_target_synchronises_to_learn_the_trees_shape(kind: str, gpu: Counts) -> None:
    prompt = tuple(range(5, 17))
    target = TorchTarget(shrunk(kind, **DENSE[kind]).to("cuda"), ())
    request = Request(prompt, method="ddtree", budget=8, max_tokens=6)
    rounds = decode(request, target, [HalfKnowing(prompt, ())])
    next(rounds)
    gpu.clear()
    made = len(list(rounds))
    engines = {line: count / made for line, count in gpu.lines.items() if "to_host" in line or "synchron" in line}
    assert sum(engines.values()) <= 1, engines


def test_the_fused_pass_takes_at_most_fifteen_kernels_a_layer(gpu: Counts, on_gpu: Rig) -> None:
    """Counted as the difference between all layers and half of them, so that what every pass has is left out."""
    model = on_gpu.target.model
    counted = []
    for layers in (4, 8):
        shorter = FusedPass(model, ())
        shorter.layers = shorter.layers[:layers]
        target = on_gpu.target.fork()
        target.fastest, target.taps = shorter, ()
        request = Request(tuple(range(5, 30)), method="ddtree", budget=8, max_tokens=6)
        rounds = decode(request, target, [HalfKnowing(request.prompt_ids, ())])
        next(rounds)
        gpu.clear()
        made = len(list(rounds))
        counted.append(gpu.calls["kernel"] / made)
    assert (counted[1] - counted[0]) / 4 <= 15, counted


def test_what_a_gpu_refuses_is_refused(gpu: Counts, on_gpu: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="cuda") + torch.ones(2)
    with pytest.raises(TypeError, match="numpy"):
        torch.ones(2, device="cuda").numpy()

    rows = TorchTarget._rows

    def left_on_the_host(self: TorchTarget, packed: Any) -> Any:
        there = rows(self, packed)
        return there._replace(seen=there.seen.cpu()) if there.seen is not None else there

    monkeypatch.setattr(TorchTarget, "_rows", left_on_the_host)
    with pytest.raises(RuntimeError, match="same device"):
        answer(on_gpu, asked("ddtree"))
