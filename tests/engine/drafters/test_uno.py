"""UNO drafters, loaded from adapters as PEFT writes them, against SGLang's formulas and its tree, written out."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.decoding.builders import best_first
from engine.drafters.uno import DEFAULT_BLOCK, noise_tokens
from engine.records import Lattice, Request, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.helpers import decode, plain_text, prefixes, rig_text, text_of
from tests.engine.published import SIZES, refused, write_short

RANK, ALPHA, VOCABULARY, LAYERS = 3, 6, 1536, 6
PROMPT = tuple(range(40, 60))
SHAPES = {name: (outputs, inputs) for name, outputs, inputs in (
    ("self_attn.q_proj", 64, 32), ("self_attn.k_proj", 32, 32), ("self_attn.v_proj", 32, 32),
    ("self_attn.o_proj", 32, 64), ("mlp.gate_proj", 48, 32), ("mlp.up_proj", 48, 32), ("mlp.down_proj", 32, 48))}


def write_adapter(folder: Path, names: tuple[str, ...] = tuple(SHAPES), **changes: Any) -> Path:
    """Write a random adapter with PEFT's tensor names."""
    generator = torch.Generator().manual_seed(8)
    weights = {}
    for layer in range(LAYERS):
        for name in names:
            outputs, inputs = SHAPES[name]
            for part, shape in (("A", (RANK, inputs)), ("B", (outputs, RANK))):
                weights[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = torch.randn(
                    shape, generator=generator) * 0.2
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj"], "bias": "none",
        "task_type": "CAUSAL_LM", "use_rslora": False, "use_dora": False, "lora_dropout": 0.0, "fan_in_fan_out": False,
        "inference_mode": True, "modules_to_save": None, "base_model_name_or_path": "Qwen/Qwen3-8B", **changes}))
    return folder


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert (SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["head_dim"]) == (32, 48, 16)
    return write_short(tmp_path_factory.mktemp("uno") / "target", "Qwen3-8B")


def opened(target: Path, adapter: Path, more: str = "", dtype: str = "float32") -> Rig:
    return load_rig(f"{target}::{adapter}{more}", dtype, "cpu")


class NoisyLinear(nn.Module):
    """Compute y = W x, + (α / r) · B A x in noise rows: the ``None`` and ``uno`` segments of SGLang."""

    def __init__(self, linear: nn.Linear, down: Tensor, up: Tensor, scale: float, first: int) -> None:
        super().__init__()
        self.linear, self.down, self.up, self.scale, self.first = linear, down, up, scale, first

    def forward(self, rows: Tensor) -> Tensor:
        noise = (torch.arange(rows.shape[-2]) >= self.first)[:, None]
        output: Tensor = self.linear(rows) + noise * self.scale * (rows @ self.down.T @ self.up.T)
        return output


def reference(rig: Rig, adapter: Path, text: list[int], root: int, noise: list[int], scale: float) -> Tensor:
    """Return the logits of [root, noise, …] after the text, by one causal pass of transformers without a cache."""
    weights = load_file(adapter / "adapter_model.safetensors")
    model: Any = rig.target.model
    plain = dict(model.named_modules())
    replaced = []
    for name, module in plain.items():
        down = weights.get(f"base_model.model.{name}.lora_A.weight")
        if down is not None:
            up = weights[f"base_model.model.{name}.lora_B.weight"]
            parent, _, child = name.rpartition(".")
            setattr(plain[parent], child, NoisyLinear(module, down, up, scale, len(text) + 1))
            replaced.append((plain[parent], child, module))
    try:
        with torch.no_grad():
            logits: Tensor = model(torch.tensor([[*text, root, *noise]]), use_cache=False).logits[0, len(text):]
    finally:
        for parent, child, module in replaced:
            setattr(parent, child, module)
    return logits


@pytest.mark.parametrize(("changes", "scale"), [({}, ALPHA / RANK), ({"use_rslora": True}, ALPHA / RANK**0.5)])
@pytest.mark.parametrize("names", [tuple(SHAPES), ("self_attn.q_proj", "mlp.down_proj")])
def test_the_adapter_applies_to_noise_rows_and_not_to_the_root(
        changes: dict[str, Any], scale: float, names: tuple[str, ...], target: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "uno" / "adapter", names, **changes).parent  # as in one published adapter
    rig = opened(target, adapter)
    request = Request(PROMPT, method="dflash", budget=20, max_tokens=12)
    text = list(PROMPT)
    for round_ in decode(request, rig.target, [rig.drafters["drafter"]]):
        root = int(round_.tree.tokens[0])
        noise = noise_tokens(round_.start, DEFAULT_BLOCK - 1, VOCABULARY).tolist()
        logits = reference(rig, adapter / "adapter", text, root, noise, scale)
        lattice = round_.drafts[0]
        assert lattice.tokens[0, 0, 0] == logits[0].argmax() and lattice.logprobs[0, 0, 0] == 0
        assert round_.acceptance.keep.tolist()[:2] == [0, 1] or len(round_.acceptance.keep) == 1  # or one token is left
        best = logits.log_softmax(-1).topk(20)
        depth = lattice.depth
        np.testing.assert_allclose(lattice.logprobs[1:, 0], best.values[1:depth].numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_array_equal(lattice.tokens[1:, 0], best.indices[1:depth].numpy())
        text += round_.committed.tolist()
    assert len(text) == len(PROMPT) + 12


def tree_of_sglang(lattice: Lattice, nodes: int, top_k: int) -> set[tuple[int, ...]]:
    """Grow the tree of ``uno_tree.py`` to ``nodes`` nodes by the edge of the largest mass to one of a node's ``top_k``
    candidates. Ties go to the shallower, the lower rank, the lower token and the lower parent."""
    paths: list[tuple[int, ...]] = [()]
    masses, used = [0.0], set()
    while len(paths) < nodes:
        edges = []
        for parent, path in enumerate(paths):
            for rank in range(top_k if len(path) < lattice.depth - 1 else 0):
                if (parent, rank) not in used:
                    depth = len(path) + 1
                    token = int(lattice.tokens[depth, 0, rank])
                    mass = np.float32(masses[parent]) + lattice.logprobs[depth, 0, rank]
                    edges.append((-mass, depth, rank, token, parent))
        mass, _, rank, token, parent = min(edges)
        used.add((parent, rank))
        paths.append((*paths[parent], token))
        masses.append(-mass)
    return set(paths)


@pytest.mark.parametrize("nodes", [2, 12, 40])
def test_the_tree_equals_that_of_sglang(nodes: int, target: Path, tmp_path: Path) -> None:
    rig = opened(target, write_adapter(tmp_path / "uno"))
    request = Request(PROMPT, method="ddtree", budget=40, max_tokens=1)
    lattice = next(decode(request, rig.target, [rig.drafters["drafter"]])).drafts[0]
    drafted = [path for _, path in prefixes(best_first(lattice, 7, nodes))]
    first = int(lattice.tokens[0, 0, 0])
    assert all(path[0] == first for path in drafted)
    assert {path[1:] for path in drafted} == tree_of_sglang(lattice, nodes, 40)


def test_an_int4_rig_drafts_with_its_adapter(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = opened(target, write_adapter(tmp_path / "uno"), dtype="int4")
    request = Request(PROMPT, method="dflash", budget=20, max_tokens=12)

    def drafts() -> list[Lattice]:
        return [round_.drafts[0] for round_ in decode(request, rig.target, [rig.drafters["drafter"]])]

    drafted = drafts()
    monkeypatch.setattr("engine.models.passes.MAX_COMPILED_ROWS", 0)  # torch computes every row
    for lattice, expected in zip(drafted, drafts(), strict=True):
        np.testing.assert_array_equal(lattice.tokens, expected.tokens)
        np.testing.assert_array_equal(lattice.logprobs, expected.logprobs)


@pytest.mark.parametrize("sampling", [
    Sampling(), Sampling(1.0, 0, 0.95, 3), Sampling(repetition_penalty=1.8, presence_penalty=1.0)])
def test_every_method_writes_plain_decodings_text_to_the_end_of_the_context(
        sampling: Sampling, target: Path, tmp_path: Path) -> None:
    rig = opened(target, write_adapter(tmp_path / "uno"), "?block_size=12")
    prompt = (*PROMPT, *range(200, 400))
    request = Request(prompt, budget=6, max_tokens=40, sampling=sampling)
    assert len(prompt) + len(rig_text(rig, request)) == rig.target.context_limit
    rounds = list(decode(replace(request, method="dflash", budget=12), rig.target, [rig.drafters["drafter"]]))
    assert rounds[0].drafts[0].depth == 12
    # with any sampling the target repeats its choice from the draft
    assert all(len(round_.acceptance.keep) > 1 for round_ in rounds[:-1])


@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_the_text_stays_correct_if_the_adapter_computes_nan(
        dtype: str, target: Path, tmp_path: Path) -> None:
    rig = opened(target, write_adapter(tmp_path / "uno", lora_alpha=1e39), dtype=dtype)
    request = Request(PROMPT, method="ddtree", budget=4, max_tokens=12)
    assert text_of(request, rig.target, list(rig.drafters.values())) == plain_text(request, rig.target)


def test_a_draft_costs_a_pass_of_the_target(target: Path, tmp_path: Path) -> None:
    rig = opened(target, write_adapter(tmp_path / "uno"))
    request = Request(PROMPT, method="ddtree", budget=8, max_tokens=8)
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1
    rounds = list(decode(request, rig.target.fork(count), [rig.drafters["drafter"]]))
    assert passes == LAYERS * (1 + 2 * len(rounds))


@pytest.mark.parametrize(("changes", "named"), [
    ({"use_dora": True}, "use_dora = True"), ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ({"bias": "all"}, "bias = all"), ({"rank_pattern": {"q_proj": 4}}, "rank_pattern"), ({"r": "3"}, "r '3'"),
    ({"lora_alpha": None}, "lora_alpha None")])
def test_adapters_with_unsupported_options_are_refused(
        changes: dict[str, Any], named: str, target: Path, tmp_path: Path) -> None:
    assert named in refused(f"{target}::{write_adapter(tmp_path / 'uno', **changes)}")


def test_adapters_of_another_target_are_refused(target: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "uno")
    weights = load_file(adapter / "adapter_model.safetensors")
    moved = {name.replace("layers.5", "layers.6"): value for name, value in weights.items()}
    narrow = {name: value[:, :-1].contiguous() for name, value in weights.items() if name.endswith("A.weight")}
    for changed, named in ((moved, "layers.6"), (weights | narrow, "inputs of model.layers.0.self_attn.q_proj")):
        save_file(changed, adapter / "adapter_model.safetensors")
        assert named in refused(f"{target}::{adapter}")
