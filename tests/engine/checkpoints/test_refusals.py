"""Models that cannot run as they were trained are refused in one sentence that names the cause."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoints import memory
from engine.checkpoints.loading import load_causal
from engine.decoding.tree import pack
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.errors import CancellationError, RequestError, RigError
from engine.models import target as target_module
from engine.records import Request, Sampling
from engine.serving import rigs
from engine.serving.rigs import load_rig, rig_parts
from tests.engine.helpers import plain_text, text_of
from tests.engine.published import SHORT_DRAFTER, refused, write_config, write_short, write_short_dflash

QWEN, LLAMA = "Qwen3-8B", "Llama-3.1-8B-Instruct"
DEMO = Path("assets/demo")
CONFIG, TOKENIZER, STOP, WEIGHTS = "config.json", "tokenizer.json", "generation_config.json", "model.safetensors"
Values = dict[str, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of a short target and a drafter for it."""
    folder = tmp_path_factory.mktemp("sound")
    write_short(folder / "target", QWEN)
    write_short_dflash(folder / "head", QWEN)
    return folder


@pytest.fixture
def pair(sound: Path, tmp_path: Path) -> Path:
    """Provide a copy of target and drafter that a test may damage."""
    shutil.copytree(sound, tmp_path / "pair")
    return tmp_path / "pair"


def name_of(pair: Path) -> str:
    return f"{pair / 'target'}::{pair / 'head'}"


Change = str | Values | Callable[[Values], object]


def change_file(file: Path, change: Change) -> None:
    """Write a text, or change values of a JSON file; ``...`` removes a field."""
    if isinstance(change, str):
        file.write_text(change)
        return
    values = json.loads(file.read_text("utf8"))
    if isinstance(change, dict):
        values = {name: value for name, value in {**values, **change}.items() if value is not ...}
    else:
        change(values)
    file.write_text(json.dumps(values))


def options(**values: Any) -> Callable[[Values], object]:
    return lambda config: config["dflash_config"].update(values)


def token_at(number: int) -> Callable[[Values], object]:
    return lambda values: values["model"]["vocab"].update(zzz=number)


MISFITS: list[tuple[Change, str]] = [  # a change of the drafter's config.json, a part of the refusal
    ({"hidden_size": 64}, "64"), ({"vocab_size": 32000}, "32000"),
    *[({"num_target_layers": layers}, f"num_target_layers {layers!r}") for layers in (36, "6")],
    ({"intermediate_size": 56}, "mlp.down_proj"), ({"attention_bias": True}, "k_proj.bias"),
    ({"mlp_bias": True}, "mlp_bias = True"),
    ({"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": False, "sliding_window": 2048},
     "sliding_window"),
    ({"layer_types": ["full_attention", "chunked_attention"]}, "layer_types = chunked_attention"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type = dynamic"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}}, "= full_attention"),
    ({"trained_with_thinking": "no"}, "trained_with_thinking 'no'"), ({"hidden_act": "gelu"}, "hidden_act = gelu"),
    ({"block_size": 1}, "block_size 1"), ({"block_size": ...}, "block_size None"),
    ({"dflash_config": [1]}, "dflash_config [1]"),
    *[(change, CONFIG) for change in (  # values of the wrong type
        {"num_hidden_layers": "2"}, {"architectures": [1]}, {"rms_norm_eps": 0.1, "layer_types": 3})],
    *[({"vocab_size": size}, f"vocab_size {size!r}") for size in ("1536", "many", 1536.0, True, [1536], 0, -5)],
    (options(target_layer_ids=[1, 9]), "layers 1, 9"), (options(target_layer_ids=[]), "layers none"),
    (options(mask_token_id=1536), "mask_token_id beyond its vocabulary = 1536"),
    *[(options(**{name: value}), f"{name} {value!r}") for name, value in (
        ("target_layer_ids", ["1"]), ("target_layer_ids", 3), ("target_layer_ids", None), ("mask_token_id", None),
        ("mask_token_id", "<mask>"), ("mask_token_id", True), ("block_size", "8"), ("output_multiplier", "0.196"))],
    (options(selector_rank=256, selector_top_k=16), "selector_rank = 256, selector_top_k = 16"),
    (options(conv_kernel_size=2), "conv_kernel_size = 2"),
    (options(use_swa=True, swa_window_size=2048), "swa_window_size = 2048, use_swa = True"),
    (options(something_new=[1]), "something_new = [1]")]
DAMAGE: list[tuple[str, Change, str]] = [  # a target's file, its change, a part of the refusal
    (CONFIG, "[" * 100_000, CONFIG), (CONFIG, '{"a":' * 100_000, CONFIG),
    (CONFIG, {"max_position_embeddings": 10**15}, "max_position_embeddings 1000"),
    (CONFIG, {"rope_theta": 10**400}, "rope_theta 1000"), (CONFIG, {"rope_theta": 10**19}, "9,223,372,036,854,775,807"),
    (CONFIG, {"rms_norm_eps": -1.0}, CONFIG), (CONFIG, {"num_hidden_layers": 10**9}, "num_hidden_layers 1000"),
    (CONFIG, {"num_hidden_layers": 5000}, "5,000"), (CONFIG, {"num_hidden_layers": "6"}, CONFIG),
    (CONFIG, {"num_hidden_layers": 7}, "model.layers.6."), (CONFIG, {"num_attention_heads": 0}, "ZeroDivisionError"),
    (CONFIG, {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}}, "'rope_type'"),
    *[(TOKENIZER, change, "tokenizer in target") for change in (
        "[]", "3", "[" * 100_000, {"model": ...}, {"added_tokens": 3}, token_at(-1))],
    (TOKENIZER, token_at(5000), "5000"), ("tokenizer_config.json", {"model_max_length": {"x": "y"}}, "tokenizer in"),
    *[(STOP, {"eos_token_id": stop}, f"eos_token_id {stop!r}") for stop in ("x", [[1]], -1, 2**40)],
    (WEIGHTS, "cut off", "model.safetensors in target")]
INDEX: list[tuple[Any, str]] = [
    ({"weight_map": {"a.weight": 1, "b.weight": "x"}}, "in {} has '1'"),
    ({"weight_map": {"a.weight": f"../target/{WEIGHTS}"}}, "'../target/"),
    *[(index, "in {}") for index in ({"weight_map": [1]}, {})],
    *[(index, "{}") for index in ([1], '{"weight_map": {"a')],
    ({"weight_map": {"a.weight": "one.safetensors", "b.weight": WEIGHTS}}, "1 of its 2")]
CASES = [*[(f"head/{CONFIG}", change, sentence) for change, sentence in MISFITS],
         *[(f"target/{file}", change, sentence) for file, change, sentence in DAMAGE],
         *[(f"{part}/model.safetensors.index.json", index if isinstance(index, str) else json.dumps(index),
           sentence.format(part)) for part in ("target", "head") for index, sentence in INDEX]]


@pytest.mark.parametrize(("file", "change", "sentence"), CASES, ids=[f"{row[0]} {row[2]}" for row in CASES])
def test_damaged_mismatched_and_unknown_files_are_refused(
        pair: Path, file: str, change: Change, sentence: str) -> None:
    change_file(pair / file, change)
    assert sentence in refused(name_of(pair) if file.startswith("head") else f"{pair / 'target'}::ngram")


def test_a_large_integer_is_read_as_a_float(pair: Path) -> None:
    def text(theta: float, factor: float) -> list[int]:
        for part in ("target", "head"):
            change_file(pair / part / CONFIG, {"rope_theta": theta, "rope_scaling": {
                "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 32}})
        answer = load_rig(name_of(pair), "float32", "cpu").generate("Hi", budget=4, max_tokens=8)
        assert list(answer)
        return answer.token_ids

    assert text(10**11, 10**10) == text(1e11, 1e10)


def test_special_tokens_beyond_the_embedding_are_accepted(pair: Path) -> None:
    def image(values: Values) -> None:
        values["added_tokens"].append({**values["added_tokens"][0], "id": 1536, "content": "<image>"})

    change_file(pair / "target" / TOKENIZER, image)
    assert load_rig(f"{pair / 'target'}::ngram", "float32", "cpu").tokenizer.facts().size == 1537


@pytest.mark.parametrize("error", [CancellationError("No."), RequestError("No."), MemoryError(), KeyboardInterrupt()])
def test_errors_that_are_not_the_configs_are_passed_on(pair: Path, monkeypatch: pytest.MonkeyPatch,
                                                       error: BaseException) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(rigs, "load_causal", fails)
    with pytest.raises(type(error)):
        load_rig(name_of(pair), "float32")


@pytest.mark.parametrize(("outer", "inner", "causal"), [
    ({}, {}, (True, False)), ({"is_causal": False}, {}, (False, False)), ({}, {"causal": False}, (False, False)),
    ({}, {"causal": True}, (True, True))])
def test_sliding_layers_follow_the_checkpoint(pair: Path, outer: Values, inner: Values,
                                              causal: tuple[bool, bool]) -> None:
    change_file(pair / "head" / CONFIG, {"layer_types": ["sliding_attention", "full_attention"],
                                     "use_sliding_window": True, "sliding_window": 12, **outer})
    change_file(pair / "head" / CONFIG, options(**inner))
    drafter = load_rig(name_of(pair), "float32").drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter)
    assert drafter.model.windows == ((12, causal[0]), (0, causal[1]))


def in_two_files(folder: Path) -> Path:
    """Write a tokenizer as vocab.json and merges.txt."""
    model = json.loads((folder / TOKENIZER).read_text())["model"]
    (folder / TOKENIZER).unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    return folder


def test_a_language_model_drafts_only_with_the_targets_tokenizer(pair: Path, tmp_path: Path) -> None:
    small = write_short(tmp_path / "small", QWEN, num_hidden_layers=1)
    name, copy = f"{pair / 'target'}::{small}", shutil.copytree(small, tmp_path / "copy")
    assert load_rig(f"{in_two_files(pair / 'target')}::{small}", "float32", "cpu").kinds["drafter"] == "autoregressive"

    def swap(table: Values) -> None:
        vocabulary = table["model"]["vocab"]
        first, second = list(vocabulary)[300:302]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]

    change_file(small / TOKENIZER, swap)
    assert "another tokenizer" in refused(name)
    assert "another tokenizer" in refused(f"{copy}::{in_two_files(small)}")
    (small / "vocab.json").unlink()
    change_file(small / CONFIG, {"vocab_size": 1000})
    assert "1000" in refused(name)
    (copy / TOKENIZER).unlink()
    assert "tokenizer.json" in refused(f"{copy}::ngram")


@pytest.mark.parametrize("part", ["target", "head"])
def test_a_pickle_in_place_of_safetensors_is_refused(pair: Path, part: str) -> None:
    (pair / part / WEIGHTS).rename(pair / part / "pytorch_model.bin")
    sentence = refused(name_of(pair))
    assert part in sentence and "pytorch_model.bin" in sentence


def test_too_little_memory_names_the_needed_size(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 200_000)
    assert "0.0 GB" in refused(name_of(pair))
    monkeypatch.undo()
    assert memory.free_bytes(torch.device("cpu")) > 1e9
    assert load_rig(name_of(pair), "float32").name == "target"


@pytest.mark.parametrize(("values", "sentence"), [
    *[({"model_type": kind}, kind) for kind in ("rwkv", "deepseek_v4", "bloom", "t5")],
    *[(values, "without running code") for values in (
        {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}, {})],
    *[({"model_type": "qwen3", "quantization_config": quantised}, f"quantised ({method})")
      for quantised, method in [
          *[({"quant_method": name}, name) for name in ("fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors")],
          ({"load_in_8bit": True}, "bitsandbytes"), ({"bits": 4}, "by an unnamed method")]],
])
def test_unsupported_targets_are_refused_by_their_config_alone(
        tmp_path: Path, values: Values, sentence: str) -> None:
    write_config(tmp_path / "odd", values)
    assert sentence in refused(f"{tmp_path / 'odd'}::ngram")


@pytest.mark.parametrize(("file", "values"), [
    (CONFIG, {"quantization": {"group_size": 64, "bits": 4}}), ("quant_config.json", {"bits": 4}),
    ("quantize_config.json", {"zero_point": True, "w_bit": 4, "q_group_size": 128}),
    ("hf_quant_config.json", {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}),
    ("hf_quant_config.json", {"quantization": None}), ("hf_quant_config.json", {"quantization": [1]})])
def test_a_file_that_declares_quantised_weights_is_refused(file: str, values: Values, pair: Path) -> None:
    change_file(pair / "target" / file, values if file == CONFIG else json.dumps(values))
    sentence = refused(f"{pair / 'target'}::ngram")
    assert "quantised" in sentence and file in sentence


def test_a_quantised_cache_is_not_taken_for_quantised_weights(pair: Path) -> None:
    change_file(pair / "target" / "hf_quant_config.json", json.dumps({
        "quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}}))
    assert load_rig(f"{pair / 'target'}::ngram", "float32", "cpu").target.dtype == "float32"


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn])
@pytest.mark.parametrize(("part", "name"), [
    ("target", "model.layers.1.mlp.up_proj.weight"), ("head", "layers.0.mlp.up_proj.weight")])
def test_a_matrix_of_integers_is_refused_by_name(part: str, name: str, dtype: torch.dtype, pair: Path) -> None:
    weights = load_file(pair / part / WEIGHTS)
    save_file({**weights, name: (weights[name] * 20).to(dtype)}, pair / part / WEIGHTS, metadata={"format": "pt"})
    sentence = refused(name_of(pair))
    assert "quantised" in sentence and name in sentence


@pytest.mark.parametrize("kind", ["gpt2", "olmo2", "phi3"])
def test_other_architectures_draft_for_themselves_without_changing_the_text(tmp_path: Path, kind: str) -> None:
    names: Values = {"num_key_value_heads": None, "head_dim": None} if kind == "gpt2" else {}
    target = write_short(tmp_path / kind, LLAMA, model_type=kind, architectures=None, rope_scaling=None,
                         max_position_embeddings=600, pad_token_id=0, **names)
    rig = load_rig(f"{target}::{target}", "float32")
    request = Request((3, 4, 5, 6), method="expand", budget=12, max_tokens=24)
    for drafter in rig.drafters.values():
        for sampling in (Sampling(), Sampling(1.0, 0, 0.95, 3)):
            asked = replace(request, sampling=sampling)
            assert text_of(asked, rig.target, [drafter]) == plain_text(asked, rig.target)
    assert len(rig.drafters) == 2 and rig.target.context_limit == 600


def test_a_model_that_takes_row_numbers_for_positions_is_refused(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "FUSED_ARCHITECTURES", frozenset())
    rig = load_rig(f"{sound / 'target'}::ngram", "float32")
    assert target_module.largest_difference_nats(rig.target) < 1e-3
    monkeypatch.setattr(target_module, "pack", lambda tree, start: replace(
        pack(tree, start), positions=start + np.arange(len(tree), dtype=np.int32)))
    with pytest.raises(RigError):
        target_module.check_tree_verification(rig.target)


def test_a_target_whose_layers_cannot_be_tapped_is_refused(tmp_path: Path) -> None:
    target = write_short(tmp_path / "target", LLAMA, model_type="gpt2", architectures=None, num_key_value_heads=None,
                         head_dim=None, rope_scaling=None)
    drafter = write_short_dflash(tmp_path / "head", QWEN, **SHORT_DRAFTER)
    assert "gpt2" in refused(f"{target}::{drafter}")


def test_a_rigs_card_is_read_with_old_names_and_refused_if_damaged(tmp_path: Path) -> None:
    rig = tmp_path / "rig"
    shutil.copytree(DEMO, rig)
    card = json.loads((rig / "rig.json").read_text())
    (rig / "rig.json").write_text(json.dumps({**card, "thinking": {"math": True}}))
    opened = load_rig(str(rig), "float32")
    drafters_for = opened.drafters_for
    assert opened.card.thinking == {"math": True, "code": False, "all": False, "all2": False}
    assert {method: list(drafters_for(method)) for method in ("expand", "nanogpt", "joint", "ddtree")} == {
        "expand": ["small"], "nanogpt": ["ngram"], "joint": ["math", "code"], "ddtree": ["all"]}
    names = card.pop("drafters")
    (rig / "rig.json").write_text(json.dumps({**card, "heads": names}))
    assert list(rig_parts(str(rig)).drafters) == names
    (rig / "rig.json").write_text("{")
    assert "rig.json in rig" in refused(str(rig))


def test_the_shipped_weights_stay_small() -> None:
    sizes = [path.stat().st_size for path in DEMO.rglob("*.safetensors")]
    assert len(sizes) >= 5 and sum(sizes) <= 60e6 and max(sizes) <= 15e6


def test_models_loaded_concurrently_are_complete() -> None:
    def load(_: int) -> int:
        return int(load_causal(DEMO / "target", torch.float32, torch.device("cpu")).num_parameters())
    with ThreadPoolExecutor(4) as loads:
        sizes = list(loads.map(load, range(6)))
    assert len({*sizes, load(0)}) == 1
