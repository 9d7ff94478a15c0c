"""MTP drafters, loaded from their targets' published layout, against the equations of two engines without a cache and
against transformers' own class."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.modeling_layers import MtpModel

from engine.records import Request, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.drafters.test_autoregressive import assert_rows_follow, paths, read
from tests.engine.helpers import rig_text
from tests.engine.models.shrunk import SIZES, shrunk
from tests.engine.published import TOKENIZER, refused, write_short

WHOLE, LAYERS, LIKE = 1536, SIZES["num_hidden_layers"], SIZES["num_hidden_layers"] - 1
NEXTN = ("deepseek_v3", "glm4_moe", "glm4_moe_lite")  # DeepSeek's layout: one more numbered layer
QWEN = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")  # names begin with mtp.
PARTS = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "shared_head.norm": "norm"}


def write_mtp(folder: Path, kind: str, **changes: Any) -> Path:
    """Write a random target whose checkpoint holds an MTP layer."""
    counted = {"num_nextn_predict_layers": 1} if kind in NEXTN else {"mtp_num_hidden_layers": 1}
    shrunk(kind, vocab_size=WHOLE, **{**counted, **changes}).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(4)
    size = SIZES["hidden_size"]
    prefix = f"model.layers.{LAYERS}." if kind in NEXTN else "mtp."
    block = prefix if kind in NEXTN else "mtp.layers.0."
    shapes = {f"{block}{name.removeprefix(like)}": tuple(value.shape) for like in [f"model.layers.{LIKE}."]
              for name, value in weights.items() if name.startswith(like)}
    for part, of_qwen in PARTS.items():
        name = part if kind in NEXTN else of_qwen
        shapes[f"{prefix}{name}.weight"] = (size, 2 * size) if part == "eh_proj" else (size,)
    for name, shape in shapes.items():
        weights[name] = torch.randn(shape, generator=generator) * 0.2 + (len(shape) == 1)
    if kind in NEXTN:  # DeepSeek's checkpoints repeat these tensors
        weights |= {f"{prefix}embed_tokens.weight": weights["model.embed_tokens.weight"].clone(),
                    f"{prefix}shared_head.head.weight": weights["model.embed_tokens.weight"].clone()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, folder)
    return folder


@pytest.fixture(scope="module", params=[*NEXTN, *QWEN])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Rig]:
    folder = write_mtp(tmp_path_factory.mktemp("mtp") / request.param, request.param)
    return request.param, folder, load_rig(f"{folder}::mtp", "float32")


class Equations:
    """Compute the layer as SGLang 0.5.23 does (``deepseek_nextn.py``, ``qwen3_5_mtp.py``), for Qwen as vLLM does too:
    fc([norm(embedding), norm(state)]), a decoder layer, and a norm that gives the next row's state. The decoder layer
    is transformers' own, loaded as the only layer of a model and run over whole texts."""

    def __init__(self, kind: str, folder: Path, rig: Rig, elsewhere: Path) -> None:
        self.kind, self.rig = kind, rig
        stored = load_file(folder / "model.safetensors")
        prefix = f"model.layers.{LAYERS}." if kind in NEXTN else "mtp."
        block = prefix if kind in NEXTN else "mtp.layers.0."
        self.part = {part: stored[f"{prefix}{part if kind in NEXTN else of_qwen}.weight"]
                     for part, of_qwen in PARTS.items()}
        one = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        config = one.config
        for name, value in (("num_hidden_layers", 1), ("layer_types", ["full_attention"]),
                            ("mlp_layer_types", ["sparse"]), ("first_k_dense_replace", 0)):
            if getattr(config, name, None) is not None:
                setattr(config, name, value)
        config.save_pretrained(elsewhere)
        kept = {name: value for name, value in stored.items() if ".layers." not in name and "mtp" not in name}
        mine = {f"model.layers.0.{name.removeprefix(block)}": value for name, value in stored.items()
                if name.startswith(block) and not any(part in name for part in (*PARTS, "embed_tokens", "shared_head"))}
        save_file(kept | mine, elsewhere / "model.safetensors", metadata={"format": "pt"})
        self.model = AutoModelForCausalLM.from_pretrained(elsewhere, dtype=torch.float32, attn_implementation="eager")

    def normed(self, rows: Tensor, part: str) -> Tensor:
        gain = self.part[part] + (self.kind in QWEN)  # Gemma's norm in Qwen's later models
        root = (rows.square().mean(-1, keepdim=True) + self.model.config.rms_norm_eps).rsqrt()
        normed: Tensor = rows * root * gain
        return normed

    def states(self, states: Tensor, tokens: list[int]) -> Tensor:
        """Return the output of rows at positions 0, 1, …, each of which sees those before it."""
        embedded = self.rig.target.embedding(torch.tensor(tokens))
        joined = torch.cat([self.normed(embedded, "enorm"), self.normed(states, "hnorm")], -1) @ self.part["eh_proj"].T
        decoder = self.model.model
        later = torch.full((1, 1, len(tokens), len(tokens)), -torch.inf).triu(1)
        positions = torch.arange(len(tokens))[None]
        output = decoder.layers[0](
            joined[None], position_embeddings=decoder.rotary_emb(joined[None], positions), attention_mask=later)
        return self.normed(output[0], "shared_head.norm")

    def logprobs(self, features: Tensor, tokens: list[int], path: tuple[int, ...]) -> Tensor:
        """Return log probabilities after the path; ``tokens`` are those after each feature's position."""
        states = self.rig.target.model.model.norm(features)
        for step in range(len(path)):
            states = torch.cat([states, self.states(states, [*tokens, *path[:step]])[-1:]])
        logprobs: Tensor = self.rig.target.head(self.states(states, [*tokens, *path])[-1]).log_softmax(-1)
        return logprobs


@pytest.mark.parametrize("steps", [(9,), (1, 3, 5)])
@torch.no_grad()
def test_every_row_equals_the_equations_after_that_path(
        opened: tuple[str, Path, Rig], steps: tuple[int, ...], tmp_path: Path) -> None:
    kind, folder, rig = opened
    assert rig.target.taps == (LIKE,)
    random = np.random.default_rng(3)
    text = random.integers(0, WHOLE, sum(steps)).tolist()
    features = torch.from_numpy(random.normal(size=(sum(steps), SIZES["hidden_size"])).astype(np.float32))
    lattice = read(rig.drafters["drafter"], text, steps, features)
    equations = Equations(kind, folder, rig, tmp_path)
    assert_rows_follow(lattice, partial(equations.logprobs, features, [*text[1:], 7]))


@pytest.mark.parametrize("kind", ["deepseek_v3", "glm4_moe"])
@torch.no_grad()
def test_the_deepest_path_equals_transformers_own(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_mtp(tmp_path / kind, kind)
    rig = load_rig(f"{folder}::mtp", "float32")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    monkeypatch.setattr(model, "_keys_to_ignore_on_load_unexpected", [rf"model\.layers\.{LAYERS}.*"])
    theirs = MtpModel.from_pretrained(model)
    text = list(range(40, 52))
    _, features = rig.target.prefill(text, 1, Sampling())
    states = model(torch.tensor([text]), output_hidden_states=True).hidden_states[-1]
    lattice = read(rig.drafters["drafter"], text, (len(text),), features)
    path, _ = max(paths(lattice), key=lambda found: len(found[0]))
    rows = {found: row for found, row in paths(lattice)}
    for depth in range(lattice.depth):
        tokens = [*text[1:], 7, *path[:depth]]
        output = theirs.forward_layer(
            0, states, torch.arange(1, len(tokens) + 1)[None], None, input_ids=torch.tensor([tokens]))
        logprobs = theirs._project_to_logits(output[:, -1])[0].log_softmax(-1)
        np.testing.assert_allclose(
            lattice.logprobs[depth, rows[path[:depth]]], logprobs.topk(10).values.numpy(), atol=1e-5, rtol=1e-5)
        states = torch.cat([states, output[:, -1:]], 1)


def test_every_method_writes_plain_decodings_text(tmp_path: Path) -> None:
    rig = load_rig(f"{write_mtp(tmp_path / 'target', 'qwen3_5_text')}::mtp::ngram", "float32")
    assert list(rig.drafters_for("expand")) == ["drafter 1"]
    request = Request(tuple(range(40, 60)), budget=12, max_tokens=10, sampling=Sampling(1.0, 0, 0.95, 3))
    assert len(set(rig_text(rig, request))) > 6


def test_rotary_sections_for_images_get_three_position_rows(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = load_rig(f"{write_mtp(tmp_path / 'target', 'qwen3_5_text')}::mtp", "float32")
    drafter: Any = rig.drafters["drafter"]
    rotary = type(drafter.rotary)
    turn = rotary.forward

    monkeypatch.setattr(  # as transformers 5.17 does
        rotary, "forward", lambda self, states, positions: turn(self, states, positions[:3, :, :]))
    assert read(drafter, [40, 41], (2,), torch.randn(2, SIZES["hidden_size"])).depth


@pytest.mark.parametrize(("kind", "field", "value"), [
    ("deepseek_v3", "num_nextn_predict_layers", 2), ("qwen3_5_text", "mtp_num_hidden_layers", 3),
    ("qwen3_5_text", "mtp_use_dedicated_embeddings", True)])
def test_layers_with_unsupported_options_are_refused(kind: str, field: str, value: object, tmp_path: Path) -> None:
    assert f"{field} = {value}" in refused(f"{write_mtp(tmp_path / kind, kind, **{field: value})}::mtp")


def test_a_target_without_an_mtp_layer_is_refused(tmp_path: Path) -> None:
    assert "qwen3" in refused(f"{write_short(tmp_path / 'other', 'Qwen3-8B')}::mtp")
    folder = write_mtp(tmp_path / "target", "qwen3_5_text")
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if not name.startswith("mtp.")},
              folder / "model.safetensors", metadata={"format": "pt"})
    assert "mtp." in refused(f"{folder}::mtp")
