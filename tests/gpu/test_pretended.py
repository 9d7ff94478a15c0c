"""The engine on a pretended GPU: the CPU's texts, no operation across two devices, and the calls of a round."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from engine.commands.program import main
from engine.decoding.loop import DecodeRun, decode_batch
from engine.decoding.methods import METHODS
from engine.decoding.protocols import Drafter
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.lattices import transitions
from engine.machine.files import kept_files
from engine.measure.pretended_gpu import (
    KERNEL,
    RECORD,
    SYNCHRONISATION,
    TO_DEVICE,
    TO_HOST,
    Counts,
    calls_per_round,
    pretended_gpu,
)
from engine.models.passes import FusedPass
from engine.models.target import TorchTarget
from engine.records import PromptRequest, Request, Round, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import Entry
from tests.engine.drafters import test_eagle3
from tests.engine.drafters.test_dspark import FAMILIES
from tests.engine.drafters.test_mtp import write_mtp
from tests.engine.drafters.test_uno import write_adapter
from tests.engine.helpers import GREEDY, WARM, decode, plain_text, text, text_of
from tests.engine.models.shrunk import FallibleDrafter, shrunk
from tests.engine.published import write_short
from tests.engine.small import TAPS, small_drafter_model, small_target

PROMPT = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
# The fused pass, windows, sinks, chunks, latent attention, delta rules, short convolutions and state spaces.
DENSE: dict[str, dict[str, Any]] = {
    "qwen3": {}, "llama": {}, "gemma3_text": {}, "mistral": {}, "deepseek_v3": {"first_k_dense_replace": 4},
    "qwen3_5_text": {}, "lfm2": {}, "mamba2": {}}
# Experts run one by one in float32 here, and are chosen on the host.
TARGETS = {**DENSE, "qwen3_moe": {}, "gpt_oss": {}, "llama4_text": {}, "deepseek_v32": {}, "bamba": {}}
SEES_ITS_PATH = "small"
Parts = tuple[TorchTarget, list[Drafter]]
WAYS = {"greedy": GREEDY, "sampled": WARM}
Result = TypeVar("Result")


def uncounted(compute: Callable[[], Result]) -> Result:
    """Compute in another thread, which the pretended GPU does not count, in half the time."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(compute).result()


def alternating_ways(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise kinds with greedy and sampled decoding in turn; the other combinations are marked long."""
    return pytest.mark.parametrize(("kind", "sampling"), [
        pytest.param(kind, sampling, id=f"{kind}-{way}", marks=() if (number + turn) % 2 else pytest.mark.long)
        for number, kind in enumerate(kinds) for turn, (way, sampling) in enumerate(WAYS.items())])


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


def asked(method: str, sampling: Sampling = GREEDY, drafters: Sequence[str] = (), budget: int = 12) -> PromptRequest:
    return PromptRequest(PROMPT, method=method, budget=budget, max_tokens=16, sampling=sampling,
                         drafters=tuple(drafters))


def answer(rig: Rig, ask: PromptRequest) -> list[int]:
    with rig.interleaved([ask]) as (rounds,):
        return text(rounds)


@pytest.mark.parametrize("sampling", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_the_cpus_text(method: str, sampling: Sampling, on_cpu: Rig, on_gpu: Rig) -> None:
    ask = asked(method, sampling, [SEES_ITS_PATH] if method == "expand" else [])
    assert answer(on_gpu, ask) == uncounted(lambda: answer(on_cpu, ask))


@pytest.mark.skipif(not (kept_files() / "rigs" / "smollm2" / "target").is_dir(), reason="smollm2 was never fetched")
def test_smollm2_writes_the_cpus_text(gpu: Counts) -> None:
    """Run in float32: products with 4-bit weights have kernels for CPUs alone."""
    rig = uncounted(lambda: load_rig("smollm2", "float32", "cpu"))
    prompt, drafters = rig.prompt_ids(PROMPT), [*rig.drafters.values()]
    asks = [Request(prompt, method=method, budget=budget, max_tokens=6, sampling=sampling)
            for method, budget, sampling in (("ddtree", 3, GREEDY), ("merged", 4, WARM))]
    texts = uncounted(lambda: [text_of(ask, rig.target, drafters) for ask in asks])
    there = TorchTarget(rig.target.model.to("cuda"), rig.target.taps)
    assert [text_of(ask, there, drafters) for ask in asks] == texts


def of_demo(name: str) -> Callable[[str, Path], Parts]:
    def parts(device: str, folder: Path) -> Parts:
        rig = load_rig("demo", "float32", device)
        return rig.target, [rig.drafters[name]]
    return parts


def of_folder(write: Callable[[Path], str]) -> Callable[[str, Path], Parts]:
    def parts(device: str, folder: Path) -> Parts:
        rig = load_rig(write(folder / device), "float32", device)
        return rig.target, [rig.drafters["drafter"]]
    return parts


def of_small(**named: Any) -> Callable[[str, Path], Parts]:
    def parts(device: str, folder: Path) -> Parts:
        target = TorchTarget(small_target().model.to(device), TAPS)
        return target, [DFlashDrafter(small_drafter_model(**named).to(device), target.embedding, target.logits)]
    return parts


def eagle3(folder: Path) -> str:
    target = write_short(folder / "target", test_eagle3.LLAMA, num_hidden_layers=test_eagle3.LAYERS)
    return f"{target}::{test_eagle3.write_eagle3(folder / 'head')}"


DRAFTERS: Mapping[str, Callable[[str, Path], Parts]] = {
    "DFlash": of_demo("all"), "DFlash 2": of_demo("all2"), "n-grams": of_demo("ngram"),
    "a small model": of_demo(SEES_ITS_PATH), "DFlash in a window": of_small(window=4, causal=True),
    **{name: of_small(options=options) for name, (options, _) in FAMILIES.items()},
    "EAGLE-3": of_folder(eagle3),
    "MTP": of_folder(lambda folder: f"{write_mtp(folder, 'qwen3_5_text')}::mtp"),
    "MTP, latent attention": of_folder(lambda folder: f"{write_mtp(folder, 'deepseek_v3')}::mtp"),
    "UNO": of_folder(lambda folder: f"{write_short(folder / 'target', 'Qwen3-8B')}::{write_adapter(folder / 'uno')}")}


@alternating_ways(DRAFTERS)
def test_every_kind_of_drafter_drafts_the_cpus_trees_with_one_copy(kind: str, sampling: Sampling, gpu: Counts,
                                                                   tmp_path: Path) -> None:
    """At any concurrency only drafters that see their path copy tokens to the device: those they have not read."""
    requests = [Request(tuple(range(5, 5 + size)), method="ddtree", budget=6, max_tokens=6, sampling=sampling)
                for size in (12, 30, 12)]
    def draft(device: str) -> tuple[list[list[list[int]]], Mapping[tuple[str, str], float]]:
        """Return the trees of the first request alone, then of all, and the calls of a round of the first."""
        target, drafters = DRAFTERS[kind](device, tmp_path)
        trees: list[list[list[int]]] = [[], [], [], []]
        calls = calls_per_round(gpu, trees_into(trees[0], decode(requests[0], target, drafters)))
        runs = [DecodeRun(one, target.fork(), [drafter.fork() for drafter in drafters]) for one in requests]
        for number, round_ in decode_batch(runs, 3):
            trees[1 + number].append(round_.tree.tokens.tolist())
        return trees, calls

    expected, _ = uncounted(lambda: draft("cpu"))
    trees, calls = draft("cuda")
    assert trees == expected
    rows = 1 + (kind == "UNO")  # UNO drafts with the target's own pass: its rows, and those it keeps
    assert calls.get(("draft", TO_HOST), 0) <= 1 and calls.get(("draft", TO_DEVICE), 0) <= rows, gpu.lines
    assert calls["verify", TO_HOST] == calls["verify", TO_DEVICE] == 1, gpu.lines
    assert not any(kind == SYNCHRONISATION for _, kind in calls), gpu.lines


def trees_into(trees: list[list[int]], rounds: Iterator[Any]) -> Iterator[Any]:
    for round_ in rounds:
        trees.append(round_.tree.tokens.tolist())
        yield round_


def test_transitions_equal_the_cpus_without_a_synchronisation(gpu: Counts) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 40, 40, generator=generator)
    on_host = transitions(lambda slot, tokens: scores[slot, tokens], 4, torch.tensor(5), 6)
    there, root = scores.to("cuda"), torch.tensor(5, device="cuda")
    gpu.clear()
    on_device = transitions(lambda slot, tokens: there[slot, tokens], 4, root, 6)
    assert gpu.total(TO_HOST) == 1 and not gpu.total(SYNCHRONISATION) and not gpu.total(TO_DEVICE)
    for name in ("tokens", "logprobs", "follow"):
        assert getattr(on_host, name).tolist() == getattr(on_device, name).tolist()


@alternating_ways(TARGETS)
def test_targets_of_each_cache_and_layer_write_the_cpus_text_at_any_concurrency(kind: str, sampling: Sampling,
                                                                                gpu: Counts) -> None:
    prompt = tuple(range(5, 17))
    request = Request(prompt, method="merged", budget=8, max_tokens=8, sampling=sampling)
    target = TorchTarget(shrunk(kind, **TARGETS[kind]), ())
    plain = uncounted(lambda: plain_text(request, target))
    there = TorchTarget(shrunk(kind, **TARGETS[kind]).to("cuda"), ())
    drafters: list[Drafter] = [FallibleDrafter(prompt, plain, seed) for seed in (0, 1)]
    deep = Request((*prompt, *plain), method="merged", budget=8, max_tokens=6, sampling=sampling)
    wanted = {0: plain, 1: uncounted(lambda: plain_text(deep, target)), 2: plain}
    for numbers in ((0,), (0, 1, 2)):
        runs = [DecodeRun(deep if number == 1 else request, there.fork(), [drafter.fork() for drafter in drafters])
                for number in numbers]
        texts: dict[int, list[int]] = {number: [] for number in numbers}
        for number, round_ in decode_batch(runs, len(numbers)):
            texts[number] += round_.committed.tolist()
        assert texts == {number: wanted[number] for number in numbers}


@pytest.mark.parametrize("recorded", [False, True], ids=["recording off", "recording on"])
@pytest.mark.parametrize(("method", "drafters", "drafts"), [
    ("autoregressive", [], 0), ("ddtree", ["all"], 1), ("ddtree", ["all2"], 1), ("merged", ["math", "code"], 2),
    ("expand", [SEES_ITS_PATH], 1)])
def test_a_round_copies_once_each_way(method: str, drafters: list[str], drafts: int, recorded: bool, on_gpu: Rig,
                                      gpu: Counts) -> None:
    """To the device go the tree's rows and the kept ones; to the host each lattice, the choices, and read
    statistics."""
    with on_gpu.interleaved([asked(method, drafters=drafters)]) as (rounds,):
        calls = calls_per_round(gpu, rounds, recorded)
    allowed = {("draft", TO_DEVICE): int(method == "expand"), ("draft", TO_HOST): drafts, ("verify", TO_DEVICE): 1,
               ("verify", TO_HOST): 1, ("keep", TO_DEVICE): 1, (RECORD, TO_HOST): 1.5 * recorded}
    copies = {key: count for key, count in calls.items() if key[1] != KERNEL}
    assert all(count <= allowed.get(key, 0) for key, count in copies.items()), gpu.lines


def test_a_recorded_run_copies_its_alternatives_once_more(gpu: Counts, on_gpu: Rig) -> None:
    def copies(rounds: Iterator[Round]) -> float:
        return sum(count for (_, kind), count in calls_per_round(gpu, rounds).items() if kind != KERNEL)

    ask = asked("autoregressive")
    with on_gpu.interleaved([ask]) as (rounds,):
        alone = copies(rounds)
    assert copies(line.round for line in on_gpu.run(ask) if isinstance(line, Entry)) <= alone + 1


@pytest.mark.parametrize("kind", DENSE)
def test_no_target_synchronises_to_learn_the_trees_shape(kind: str, gpu: Counts) -> None:
    prompt = tuple(range(5, 17))
    target = TorchTarget(shrunk(kind, **DENSE[kind]).to("cuda"), ())
    request = Request(prompt, method="ddtree", budget=8, max_tokens=6)
    calls = calls_per_round(gpu, decode(request, target, [FallibleDrafter(prompt, ())]))
    assert calls["verify", TO_HOST] == 1 and not any(kind == SYNCHRONISATION for _, kind in calls), gpu.lines


def test_the_fused_pass_takes_at_most_fifteen_kernels_per_layer(gpu: Counts, on_gpu: Rig) -> None:
    """Count the difference between all layers and half of them, which leaves out the rest of a pass."""
    counted = []
    for layers in (4, 8):
        target = on_gpu.target.fork()
        target.fastest, target.taps = FusedPass(target.model, ()), ()
        target.fastest.layers = target.fastest.layers[:layers]
        request = Request(tuple(range(5, 30)), method="ddtree", budget=8, max_tokens=6)
        counted.append(calls_per_round(gpu, decode(request, target, [FallibleDrafter(request.prompt_ids, ())])))
    assert (counted[1]["verify", KERNEL] - counted[0]["verify", KERNEL]) / 4 <= 15, counted


def test_the_bench_counts_the_calls_of_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--counts", "--rig", "random:tiny", "--methods", "ddtree", "published", "--budgets", "4",
                 "--max-tokens", "8"]) == 0
    ours, published = (line.split() for line in capsys.readouterr().out.splitlines() if " round " in line)
    assert [ours[0], published[0]] == ["ddtree", "published"] and 0 < float(ours[4]) < float(published[4])


def test_the_pretended_gpu_refuses_what_a_gpu_would(gpu: Counts, on_gpu: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="cuda") + torch.ones(2)
    with pytest.raises(TypeError, match="numpy"):
        torch.ones(2, device="cuda").numpy()

    rows = TorchTarget._rows

    def rows_with_mask_on_host(self: TorchTarget, packed: Any) -> Any:
        there = rows(self, packed)
        return there._replace(visible=there.visible.cpu()) if there.visible is not None else there

    monkeypatch.setattr(TorchTarget, "_rows", rows_with_mask_on_host)
    with pytest.raises(RuntimeError, match="same device"):
        answer(on_gpu, asked("ddtree"))
