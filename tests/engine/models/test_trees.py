"""Trees over full, recurrent, windowed and latent layers, compared with transformers' own decoding token by token."""

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, PreTrainedModel, Qwen3_5ForConditionalGeneration

from engine.checkpoints.loading import causal_config, load_causal
from engine.checkpoints.memory import cache_bytes
from engine.decoding.tree import pack, path_to
from engine.models import recurrent
from engine.models.cache import cache_argument
from engine.models.passes import FusedPass, ReferencePass
from engine.models.recurrent import DeltaMixer
from engine.models.target import TorchTarget
from engine.records import DraftTree, Request, Sampling
from engine.serving.rigs import load_rig
from tests.engine.helpers import plain_text, text_of
from tests.engine.models.shrunk import VOCABULARY, FallibleDrafter, cut, shrunk, small_config_of
from tests.engine.published import TOKENIZER, write_short_dflash
from tests.engine.small import small_target

PROMPT = tuple(range(5, 17))
DELTA_AND_FULL = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
LATENT = {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "num_key_value_heads": 4, "head_dim": 4}
GLOBAL_HEADS = {"per_layer_config": {"1": {"head_dim": 24, "num_key_value_heads": 1},
                                     "3": {"head_dim": 24, "num_key_value_heads": 1}}}
FEWER_HEADS = {"per_layer_config": {layer: {"num_attention_heads": 2, "num_key_value_heads": 2} for layer in "13"}}


def random_tree(random: np.random.Generator, root: int, nodes: int) -> DraftTree:
    parents = np.asarray([0, *(int(random.integers(max(0, node - 4), node)) for node in range(1, nodes))], np.int32)
    tokens = random.integers(3, VOCABULARY, nodes).astype(np.int32)
    tokens[0] = root
    return DraftTree(tokens, parents, np.zeros(nodes, np.float32), np.ones(nodes, np.int32))


class PlainDecoding:
    """Decode with transformers itself, from the text so far or from any state after it."""

    def __init__(self, target: TorchTarget, prompt_ids: tuple[int, ...]) -> None:
        self.target, self.length = target, len(prompt_ids)
        self.cache = DynamicCache(config=target.config)
        self.step(self.cache, prompt_ids, 0)

    def step(self, cache: Any, token_ids: Any, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits (vocabulary,) and tapped states (taps × hidden size,) after the last token."""
        positions = torch.arange(start, start + len(token_ids))[None]
        with torch.inference_mode():
            output = self.target.model(input_ids=torch.tensor([list(token_ids)]), position_ids=positions,
                                       use_cache=True, output_hidden_states=True,
                                       **{cache_argument(self.target.model): cache})
        tapped = [output.hidden_states[layer + 1][0, -1] for layer in self.target.taps]
        return output.logits[0, -1], torch.cat(tapped) if tapped else torch.empty(0)

    def along(self, tree: DraftTree) -> tuple[list[Any], torch.Tensor, torch.Tensor]:
        """Return the cache, the logits and the tapped states at every node."""
        caches: list[Any] = []
        outputs, depths = [], [0] * len(tree)
        for node, (token, parent) in enumerate(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True)):
            depths[node] = depths[parent] + 1 if node else 0
            caches.append(deepcopy(caches[parent] if node else self.cache))
            outputs.append(self.step(caches[node], [token], self.length + depths[node]))
        logits, tapped = zip(*outputs, strict=True)
        return caches, torch.stack(logits), torch.stack(tapped)


def largest_difference(target: TorchTarget, trees: int) -> float:
    """Return the largest difference from plain decoding in logits and features, over random trees of up to 12 nodes,
    each of which is committed. Every fifth tree begins a text."""
    random, worst = np.random.default_rng(0), 0.0
    for number in range(trees):
        if number % 5 == 0:
            plain, (root, _) = PlainDecoding(target, PROMPT), target.prefill(PROMPT, 80, Sampling())
        tree = random_tree(random, root, int(random.integers(1, 13)))
        target.verify_batch([target], [pack(tree, plain.length)])
        caches, logits, tapped = plain.along(tree)
        keep = path_to(tree.parents, int(random.integers(len(tree))))
        features = target.commit(keep)
        worst = max([worst, float((target._output.logits - logits).abs().max()), *(
            float((features - tapped[keep]).abs().max()) for _ in target.taps[:1])])
        plain.cache, plain.length = caches[keep[-1]], plain.length + len(keep)
        root = int(random.integers(3, VOCABULARY))
    return worst


@pytest.mark.parametrize(("gpus", "way"), [((), FusedPass), ((0, 0, 1), ReferencePass)], ids=["fused", "in pieces"])
def test_every_node_and_feature_equals_plain_decoding_of_its_path(gpus: tuple[int, ...], way: type) -> None:
    target = small_target()
    if gpus:
        names = ("model.embed_tokens", "model.layers.0", "model.layers.1")
        target.model.hf_device_map = dict(zip(names, gpus, strict=True))
        target = TorchTarget(target.model, target.taps)
    assert isinstance(target.fastest, way) and target.taps
    assert largest_difference(target, 20) <= 1e-4


@pytest.mark.parametrize(("kind", "trees"), [("qwen3_next", 10), ("qwen3_5_text", 60), ("qwen3_5_moe_text", 10)])
def test_every_node_over_delta_rules_equals_plain_decoding_of_its_path(kind: str, trees: int, tmp_path: Path) -> None:
    target = TorchTarget(shrunk(kind, torch.float64, tmp_path, **DELTA_AND_FULL), ())
    assert any(isinstance(module, DeltaMixer) for module in target.model.modules())
    assert largest_difference(target, trees) <= 1e-12


@pytest.mark.parametrize(("kind", "changes"), [
    ("qwen3_5_text", {}), ("olmo_hybrid", {}), ("lfm2", {}), ("bamba", {}),  # recurrent layers, one step per depth
    ("mistral", {}), ("gemma3_text", {"layer_types": ["full_attention", *["sliding_attention"] * 3]}), ("gpt_oss", {}),
    ("glm4_moe_lite", LATENT)])
def test_every_node_of_the_reference_pass_equals_plain_decoding_of_its_path(
        kind: str, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In windowed layers each row sees five positions."""
    monkeypatch.setattr(recurrent, "DELTA", frozenset())
    target = TorchTarget(shrunk(kind, torch.float64, tmp_path, **changes), ())
    assert not isinstance(target.fastest, FusedPass) and largest_difference(target, 10) <= 1e-12


def test_a_multimodal_hybrid_and_its_dflash_drafter_open_as_a_rig(tmp_path: Path) -> None:
    sizes = {"vocab_size": 1536, "hidden_size": 32, "num_hidden_layers": 6, "layer_types": None, "eos_token_id": 2}
    config = small_config_of("qwen3_5")
    config = small_config_of("qwen3_5", text_config={**cut(config.text_config.to_dict()), **sizes})
    torch.manual_seed(0)
    model: PreTrainedModel = Qwen3_5ForConditionalGeneration(config)
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, 0.2)
    model.save_pretrained(tmp_path / "target")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, tmp_path / "target")
    head = write_short_dflash(tmp_path / "head", "Qwen3-8B")
    rig = load_rig(f"{tmp_path / 'target'}::{head}", "float32")
    assert rig.target.recurrent_layers == 5 and set(rig.drafters) == {"drafter", "ngram"}
    for method in ("dflash", "ddtree", "joint"):
        request = Request(PROMPT, method=method, budget=8, max_tokens=24)
        assert text_of(request, rig.target, [*rig.drafters.values()]) == plain_text(request, rig.target)


@pytest.mark.parametrize(("kind", "layers"), [
    ("gemma4_text", GLOBAL_HEADS), ("gemma4_unified_text", GLOBAL_HEADS), ("dots3_note_text", FEWER_HEADS)])
def test_a_target_with_layers_of_different_sizes_writes_plain_text(
        kind: str, layers: dict[str, Any], tmp_path: Path) -> None:
    shrunk(kind, **layers).save_pretrained(tmp_path)
    target = TorchTarget(load_causal(tmp_path, torch.float32, torch.device("cpu")), ())
    assert target.config.per_layer_attributes
    request = Request(PROMPT, method="ddtree", budget=8, max_tokens=24)
    plain = plain_text(request, target)
    assert text_of(request, target, [FallibleDrafter(PROMPT, plain)]) == plain


def test_a_window_per_layer_is_read(tmp_path: Path) -> None:
    small_config_of("mistral").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"per_layer_config": {"1": {"sliding_window": 3}}}))
    assert causal_config(tmp_path).per_layer_config[1].sliding_window == 3


@pytest.mark.parametrize(("kind", "changes"), [
    ("qwen3_5_text", {}), ("gemma4_text", GLOBAL_HEADS), ("glm4_moe_lite", LATENT)])
def test_the_bytes_of_a_cache_are_predicted(kind: str, changes: dict[str, Any]) -> None:
    target = TorchTarget(shrunk(kind, **changes), ())
    target.prefill(PROMPT, 8, Sampling())
    held = target._open_cache.slots
    assert isinstance(held, dict)
    assert cache_bytes(target.config, len(PROMPT) + 8, torch.float32) == sum(
        slots.nbytes for layer in held.values() for slots in layer.values())
