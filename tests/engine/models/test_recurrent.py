"""Trees over recurrent, windowed and latent layers, against transformers' own decoding token by token."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, PreTrainedModel, Qwen3_5ForConditionalGeneration

from engine.checkpoints.memory import cache_bytes
from engine.decoding.methods import METHODS
from engine.decoding.tree import pack, path_to
from engine.models import recurrent
from engine.models.recurrent import DeltaMixer
from engine.models.target import TorchTarget
from engine.records import DraftTree, Request, Sampling
from engine.serving.rigs import load_rig
from tests.engine.material import text_of
from tests.engine.models.shrunk import VOCABULARY, HalfKnowing, cut, shrunk, small_config_of
from tests.engine.published import TOKENIZER, write_short_dflash

DELTA = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
PROMPT = tuple(range(5, 17))
LOSSLESS = [name for name, method in METHODS.items() if method.lossless and name != "autoregressive"]


def random_tree(random: np.random.Generator, root: int, nodes: int) -> DraftTree:
    parents = np.asarray([0, *(int(random.integers(max(0, node - 4), node)) for node in range(1, nodes))], np.int32)
    tokens = random.integers(3, VOCABULARY, nodes).astype(np.int32)
    tokens[0] = root
    return DraftTree(tokens, parents, np.zeros(nodes, np.float32), np.ones(nodes, np.int32))


class Plain:
    """Transformers' own decoding: the text so far in its cache, and a step from any such state."""

    def __init__(self, model: PreTrainedModel, prompt_ids: tuple[int, ...]) -> None:
        self.model, self.length = model, len(prompt_ids)
        self.cache = DynamicCache(config=model.config)
        self.step(self.cache, prompt_ids, 0)

    def step(self, cache: Any, token_ids: Any, start: int) -> torch.Tensor:
        """Logits (vocabulary,) after these tokens."""
        positions = torch.arange(start, start + len(token_ids))[None]
        with torch.inference_mode():
            logits: torch.Tensor = self.model(input_ids=torch.tensor([list(token_ids)]), position_ids=positions,
                                              past_key_values=cache, use_cache=True).logits[0, -1]
        return logits

    def along(self, tree: DraftTree) -> tuple[list[Any], torch.Tensor]:
        """The cache and the logits at every node."""
        caches: list[Any] = []
        logits, depths = [], [0] * len(tree)
        for node, (token, parent) in enumerate(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True)):
            depths[node] = depths[parent] + 1 if node else 0
            caches.append(deepcopy(caches[parent] if node else self.cache))
            logits.append(self.step(caches[node], [token], self.length + depths[node]))
        return caches, torch.stack(logits)


def differences(model: PreTrainedModel, trees: int) -> float:
    """The largest difference between the logits of random trees, of up to 12 nodes and one after another's commit, and
    those of plain decoding, in float64. Every fifth tree begins a text."""
    target, random, worst = TorchTarget(model, ()), np.random.default_rng(0), 0.0
    for number in range(trees):
        if number % 5 == 0:
            plain, (root, _) = Plain(model, PROMPT), target.prefill(PROMPT, 80, Sampling())
        tree = random_tree(random, root, int(random.integers(1, 13)))
        target.verify(pack(tree, plain.length))
        caches, logits = plain.along(tree)
        worst = max(worst, float((target._output.logits - logits).abs().max()))
        keep = path_to(tree.parents, int(random.integers(len(tree))))
        target.commit(keep)
        plain.cache, plain.length = caches[keep[-1]], plain.length + len(keep)
        root = int(random.integers(3, VOCABULARY))
    return worst


@pytest.mark.parametrize(("kind", "trees"), [("qwen3_next", 10), ("qwen3_5_text", 200), ("qwen3_5_moe_text", 10)])
def test_every_node_of_a_tree_over_delta_rules_is_the_text_of_its_path(kind: str, trees: int, tmp_path: Path) -> None:
    layers = ["linear_attention", "full_attention"]
    model = shrunk(kind, torch.float64, tmp_path, num_hidden_layers=2, layer_types=layers)
    assert any(isinstance(module, DeltaMixer) for module in TorchTarget(model, ()).model.modules())
    assert differences(model, trees) <= 1e-12


@pytest.mark.parametrize("kind", ["qwen3_5_text", "olmo_hybrid", "lfm2", "bamba"])
def test_every_node_of_a_tree_stepped_by_depth_is_the_text_of_its_path(
        kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "DELTA", frozenset())
    assert differences(shrunk(kind, torch.float64), 10) <= 1e-12


def written(target: TorchTarget, method: str, drafters: Any, temperature: float,
            stop: frozenset[int] = frozenset()) -> list[int]:
    budget = 0 if method == "autoregressive" else 8
    request = Request(PROMPT, method=method, budget=budget, max_tokens=24, stop_ids=stop,
                      sampling=Sampling(temperature, seed=3))
    return text_of(request, target, drafters)


@pytest.mark.parametrize("kind", DELTA)
def test_every_method_writes_plain_decodings_text(kind: str) -> None:
    target = TorchTarget(shrunk(kind), ())
    for temperature in (0.0, 0.9):
        wanted = written(target, "autoregressive", [], temperature)
        assert len(set(wanted)) > 8, "a text that repeats itself proves nothing"
        drafters = [HalfKnowing(PROMPT, wanted, seed) for seed in (0, 1)]
        for method in LOSSLESS if temperature == 0 else ("ddtree", "merged"):
            got = written(target, method, drafters, temperature)
            assert got == wanted, method
        stop = frozenset(wanted[13:14])
        stopped = written(target, "autoregressive", [], temperature, stop)
        assert written(target, "ddtree", drafters, temperature, stop) == stopped != wanted


@pytest.mark.parametrize(("kind", "full"), [("mistral", False), ("gemma3_text", True), ("gpt_oss", True)])
def test_a_window_is_a_mask(kind: str, full: bool) -> None:
    """Texts of 36 positions, of which windowed layers see five."""
    layers: dict[str, Any] = {"layer_types": ["full_attention", *["sliding_attention"] * 3]} if full else {}
    target = TorchTarget(shrunk(kind, **layers), ())
    assert target.context_limit == 256
    wanted = written(target, "autoregressive", [], 0.0)
    plain = Plain(target.model, PROMPT)
    said = [plain.step(plain.cache, [token], len(PROMPT) + number) for number, token in enumerate(wanted)]
    assert [int(logits.argmax()) for logits in said[:-1]] == list(wanted[1:])
    for method in ("dflash", "ddtree", "merged"):
        drafters = [HalfKnowing(PROMPT, wanted, seed) for seed in (0, 1)]
        assert written(target, method, drafters, 0.0) == wanted


def test_a_multimodal_hybrid_and_its_dflash_drafter_open_as_a_rig(tmp_path: Path) -> None:
    sizes = {"vocab_size": 1536, "hidden_size": 32, "num_hidden_layers": 6, "layer_types": None, "eos_token_id": 2}
    config = small_config_of("qwen3_5")
    config = small_config_of("qwen3_5", text_config={**cut(config.text_config.to_dict()), **sizes})
    torch.manual_seed(0)
    model = Qwen3_5ForConditionalGeneration(config)
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, 0.2)
    model.save_pretrained(tmp_path / "target")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, tmp_path / "target")
    head = write_short_dflash(tmp_path / "head", "Qwen3-8B")
    rig = load_rig(f"{tmp_path / 'target'}::{head}", "float32")
    assert rig.target.recurrent_layers == 5 and set(rig.drafters) == {"drafter", "ngram"}
    wanted = written(rig.target, "autoregressive", [], 0.0)
    for method in ("dflash", "ddtree", "joint"):
        assert written(rig.target, method, [rig.drafters["drafter"], rig.drafters["ngram"]], 0.0) == wanted


@pytest.mark.parametrize(("kind", "changes"), [
    ("qwen3_5_text", {}), ("gemma4_text", {"global_head_dim": 24}),
    ("glm4_moe_lite", {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "num_key_value_heads": 4, "head_dim": 4})])
def test_the_bytes_of_a_cache_are_foretold(kind: str, changes: dict[str, Any]) -> None:
    target = TorchTarget(shrunk(kind, **changes), ())
    target.prefill(PROMPT, 8, Sampling())
    held = target._open_cache.slots
    assert isinstance(held, dict)
    assert cache_bytes(target.config, len(PROMPT) + 8, torch.float32) == sum(
        slots.nbytes for layer in held.values() for slots in layer.values())
