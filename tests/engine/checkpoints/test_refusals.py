"""What cannot run as it was trained, or cannot run at all, is refused in one sentence that names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.checkpoints import memory
from engine.decoding.loop import decode
from engine.decoding.outcome import outcome
from engine.decoding.tree import pack
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.errors import CancellationError, RequestError, RigError
from engine.models import target as target_module
from engine.records import Request, Sampling
from engine.serving import rigs
from engine.serving.rigs import Rig, load_rig
from tests.engine.published import SHORT_DRAFTER, write_config, write_short, write_short_dflash

QWEN, LLAMA = "Qwen3-8B", "Llama-3.1-8B-Instruct"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short target and a drafter for it."""
    folder = tmp_path_factory.mktemp("made")
    write_short(folder / "target", QWEN)
    write_short_dflash(folder / "head", QWEN)
    return folder


@pytest.fixture
def pair(made: Path, tmp_path: Path) -> Path:
    """A copy of them to break."""
    shutil.copytree(made, tmp_path / "pair")
    return tmp_path / "pair"


def opened(pair: Path) -> Rig:
    return load_rig(f"{pair / 'target'}::{pair / 'head'}", "float32")


def refused(name: str | Path) -> str:
    with pytest.raises(RigError) as caught:
        load_rig(f"{name / 'target'}::{name / 'head'}" if isinstance(name, Path) else name, "float32")
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".") and len(sentence) < 400
    return sentence


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(("changes", "said"), [
    ({"hidden_size": 64}, "hidden size 64; the target has 32"),
    ({"vocab_size": 32000}, "a vocabulary of 32000; the target has 1536"),
    ({"num_target_layers": 36}, "a target of layers: 36; the target has 6"),
    ({"mlp_bias": True}, "uses mlp_bias = True, which is not supported"),
    ({"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": False, "sliding_window": 2048},
     "uses sliding layers without a sliding_window = True"),
    ({"layer_types": ["full_attention", "chunked_attention"]}, "uses layer_types = chunked_attention"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "uses rope_type = dynamic"),
    ({"hidden_act": "gelu"}, "uses hidden_act = gelu"),
    ({"block_size": 1}, "block_size 1; it has to be 2 or more"),
])
def test_a_drafter_of_another_target_or_with_unknown_parts(pair: Path, changes: dict[str, Any], said: str) -> None:
    changed(pair / "head", lambda values: values.update(changes))
    assert said in refused(pair)


@pytest.mark.parametrize(("options", "said"), [
    ({"target_layer_ids": [1, 9]}, "reads the target's layers 1, 9; the target has layers 0 to 5"),
    ({"target_layer_ids": []}, "reads the target's layers none"),
    ({"mask_token_id": 1536}, "the mask token 1536; the target's embedding has rows 0 to 1535"),
    ({"mask_token_id": None}, "names no mask_token_id"),
    ({"selector_rank": 256, "selector_top_k": 16}, "uses selector_rank = 256, selector_top_k = 16"),
    ({"conv_kernel_size": 2}, "uses conv_kernel_size = 2"),
    ({"output_multiplier": "0.196"}, "head has output_multiplier '0.196'; it has to be a number."),
    ({"use_swa": True, "swa_window_size": 2048}, "uses swa_window_size = 2048, use_swa = True"),
    ({"attention_sink_bias": True}, "uses attention_sink_bias = True"),
    ({"something_new": [1]}, "uses something_new = [1]"),
])
def test_options_of_the_drafter(pair: Path, options: dict[str, Any], said: str) -> None:
    changed(pair / "head", lambda values: values["dflash_config"].update(options))
    assert said in refused(pair)


@pytest.mark.parametrize(("part", "changes", "said"), [
    ("head", {"dflash_config": [1]}, "head has dflash_config [1]; it has to be an object"),
    ("head", {"num_hidden_layers": "2"}, "head holds a value of the wrong kind (StrictDataclassFieldValidationError: "
     "Validation error for field 'num_hidden_layers'"),
    ("head", {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}},
     "uses rope_parameters = full_attention, which is not supported"),
    *[("head", {"vocab_size": size}, f"head has vocab_size {size!r}; it has to be a whole number above 0, without")
      for size in ("1536", "many", 1536.0, True, [1536], 0, -5)],
    ("head", {"num_target_layers": "6"}, "head has a target of layers: '6'; the target has 6"),
    ("head", {"rms_norm_eps": 0.1, "layer_types": 3}, "config.json in head holds a value of the wrong kind ("),
    ("head", {"architectures": [1]}, "config.json in head holds a value of the wrong kind ("),
    ("target", {"num_hidden_layers": "6"}, "target holds a value of the wrong kind (StrictDataclassFieldValidation"),
    ("target", {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}},
     "config.json in target holds a value of the wrong kind (KeyError: 'rope_type')"),
    ("target", {"num_attention_heads": 0}, "config.json in target holds a value of the wrong kind (ZeroDivisionError"),
])
def test_fields_of_the_wrong_kind(pair: Path, part: str, changes: dict[str, Any], said: str) -> None:
    changed(pair / part, lambda values: values.update(changes))
    assert said in refused(pair)


@pytest.mark.parametrize(("options", "said"), [
    ({"target_layer_ids": 3}, "config.json in head has target_layer_ids 3; it has to be a list of layers."),
    ({"target_layer_ids": ["1"]}, "reads the target's layers '1'; the target has layers 0 to 5"),
    ({"mask_token_id": "<mask>"}, "config.json in head has mask_token_id '<mask>'; it has to be a whole number."),
    ({"mask_token_id": True}, "config.json in head has mask_token_id True; it has to be a whole number."),
    ({"block_size": "8"}, "config.json in head has block_size '8'; it has to be a whole number."),
])
def test_options_of_the_wrong_kind(pair: Path, options: dict[str, Any], said: str) -> None:
    changed(pair / "head", lambda values: values["dflash_config"].update(options))
    assert said in refused(pair)


@pytest.mark.parametrize(("index", "said"), [
    ({"weight_map": {"a.weight": 1, "b.weight": "x"}}, "has 1 for a.weight in its weight_map; it has to be the name"),
    ({"weight_map": [1]}, "names no files"), ([1], "names no files"), ({}, "names no files ('weight_map')")])
@pytest.mark.parametrize("part", ["target", "head"])
def test_an_index_that_names_no_files(pair: Path, part: str, index: Any, said: str) -> None:
    (pair / part / "model.safetensors.index.json").write_text(json.dumps(index))
    sentence = refused(pair)
    assert sentence.startswith(f"model.safetensors.index.json in {part} ") and said in sentence


@pytest.mark.parametrize("error", [CancellationError("No."), RequestError("No."), MemoryError(), KeyboardInterrupt()])
def test_what_is_no_fault_of_a_config_is_not_said_of_it(pair: Path, monkeypatch: pytest.MonkeyPatch,
                                                        error: BaseException) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(rigs, "load_causal", fails)
    with pytest.raises(type(error)):
        opened(pair)


@pytest.mark.parametrize(("quantised", "said"), [
    ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "fp8"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq"),
    ({"quant_method": "awq", "bits": 4, "version": "gemm"}, "awq"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
    ({"load_in_8bit": True}, "bitsandbytes"),
    ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "compressed-tensors"),
    ({"bits": 4}, "by an unnamed method"),
])
def test_quantised_targets(pair: Path, quantised: dict[str, Any], said: str) -> None:
    changed(pair / "target", lambda values: values.update(quantization_config=quantised))
    for path in (pair / "target").glob("*.safetensors"):
        path.write_bytes(b"")  # nothing of it is looked at
    assert refused(pair) == (
        f"The model in target is a qwen3: its weights are quantised ({said}); Canopy reads bfloat16, float16 and "
        "float32 weights, so name an unquantised checkpoint.")


@pytest.mark.parametrize(("outer", "inner", "causal"), [
    ({}, {}, (True, False)), ({"is_causal": False}, {}, (False, False)), ({}, {"causal": False}, (False, False)),
    ({}, {"causal": True}, (True, True))])
def test_sliding_layers_are_the_checkpoints_own(pair: Path, outer: dict[str, Any], inner: dict[str, Any],
                                                causal: tuple[bool, bool]) -> None:
    def slide(values: dict[str, Any]) -> None:
        values.update({"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True,
                       "sliding_window": 12, **outer})
        values["dflash_config"].update(inner)

    changed(pair / "head", slide)
    drafter = opened(pair).drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter)
    assert drafter.model.sights == ((12, causal[0]), (0, causal[1]))


def test_options_that_are_switched_off_change_nothing(pair: Path) -> None:
    off = {"causal": False, "use_swa": False, "swa_window_size": 2048, "attention_sink_bias": False,
           "conv_group_size": 4, "selector_rank": 0, "output_multiplier": 1.0,
           "final_logit_softcapping": None, "projector_type": "none"}
    changed(pair / "head", lambda values: values["dflash_config"].update(off))
    drafter = opened(pair).drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter) and drafter.block == 8


def test_biased_projections_are_loaded_where_the_config_says_so(pair: Path) -> None:
    changed(pair / "head", lambda values: values.update(attention_bias=True))
    assert "tensor layers.0.self_attn.k_proj.bias has shape nothing where (32,) is expected" in refused(pair)


def test_another_tokenizer(made: Path, tmp_path: Path) -> None:
    small = write_short(tmp_path / "small", QWEN, num_hidden_layers=1)
    assert "drafter" in load_rig(f"{made / 'target'}::{small}", "float32").drafters
    path = small / "tokenizer.json"
    table = json.loads(path.read_text())
    vocabulary = table["model"]["vocab"]
    first, second = list(vocabulary)[300:302]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(table))
    assert "has another tokenizer than the target: its token" in refused(f"{made / 'target'}::{small}")
    path.unlink()
    changed(small, lambda values: values.update(vocab_size=1000))
    assert "no tokenizer of its own and a vocabulary of 1000; the target has 1536" in refused(
        f"{made / 'target'}::{small}")


@pytest.mark.parametrize("part", ["target", "head"])
def test_a_pickle_where_safetensors_belong(pair: Path, part: str) -> None:
    for path in (pair / part).glob("*.safetensors"):
        path.rename(pair / part / "pytorch_model.bin")
    assert f"{part} holds its weights as pytorch_model.bin, a pickle" in refused(pair)


def test_a_shard_that_was_not_downloaded(pair: Path) -> None:
    shards = {"a.weight": "model-00001-of-00003.safetensors", "b.weight": "model-00003-of-00003.safetensors"}
    (pair / "head" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (pair / "head" / "model.safetensors").rename(pair / "head" / "model-00001-of-00003.safetensors")
    assert refused(pair) == ("The download of head is incomplete: 1 of its 2 weight files are missing, the first being "
            "model-00003-of-00003.safetensors; fetch it again.")


def test_weights_that_lack_a_tensor(pair: Path) -> None:
    changed(pair / "target", lambda values: values.update(num_hidden_layers=7))
    changed(pair / "head", lambda values: values.update(num_target_layers=7))
    assert "have no model.layers.6." in refused(pair)


def test_too_little_memory_says_how_much_is_needed(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 200_000)
    sentence = refused(pair)
    assert "The rig needs about 0.0 GB" in sentence and "choose a smaller target" in sentence
    monkeypatch.undo()
    assert memory.free_bytes(torch.device("cpu")) > 1e9
    assert opened(pair).name == "target"


@pytest.mark.parametrize(("values", "said"), [
    ({"model_type": "rwkv"}, "is a rwkv: its layers keep a recurrent state that transformers' cache does not hold"),
    ({"model_type": "deepseek_v4"}, "keep one entry for several positions, not one for each"),
    ({"model_type": "bloom"}, "ALiBi"),
    ({"model_type": "t5"}, "is a t5, for which transformers has no causal language model"),
    ({"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}, "without running code of the checkpoint"),
    ({}, "describes no model that transformers knows"),
])
def test_targets_that_are_no_plain_decoder(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    write_config(tmp_path / "odd", values)
    assert said in refused(f"{tmp_path / 'odd'}::ngram")


def test_texts_go_on_beyond_a_sliding_window(tmp_path: Path) -> None:
    target = write_short(tmp_path / "target", LLAMA, model_type="mistral", architectures=["MistralForCausalLM"],
                         sliding_window=64, max_position_embeddings=2048)
    rig = load_rig(f"{target}::ngram", "float32")
    assert rig.target.context_limit == 2048 and not any("window" in note for note in rig.notes)
    prompt = tuple(range(3, 103))
    wanted = outcome(decode(Request(prompt, method="autoregressive", budget=0, max_tokens=40,
                                    sampling=Sampling(1.0, seed=1)), rig.target, []))
    found = outcome(decode(Request(prompt, method="expand", budget=8, max_tokens=40,
                                   sampling=Sampling(1.0, seed=1)), rig.target,
                           [rig.drafters["ngram"]]))
    assert wanted.token_ids == found.token_ids and len(wanted.token_ids) == 40


@pytest.mark.parametrize("kind", ["gemma2", "gpt2", "olmo2", "phi3"])
def test_other_architectures_write_their_own_text(tmp_path: Path, kind: str) -> None:
    names = {"num_key_value_heads": None, "head_dim": None} if kind == "gpt2" else {}
    target = write_short(tmp_path / kind, LLAMA, model_type=kind, architectures=None, rope_scaling=None,
                         max_position_embeddings=600, pad_token_id=0, **names)
    rig = load_rig(f"{target}::ngram", "float32")
    for sampling in (Sampling(), Sampling(1.0, 0, 0.95, 3)):
        wanted = outcome(decode(Request((5, 6, 7, 8), method="autoregressive", budget=0, max_tokens=24,
                                        sampling=sampling), rig.target, [])).token_ids
        found = outcome(decode(Request((5, 6, 7, 8), method="expand", budget=12, max_tokens=24,
                                       sampling=sampling), rig.target,
                               [rig.drafters["ngram"]])).token_ids
        assert found == wanted


def test_a_model_that_counts_rows_for_positions_is_found_out(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "TRIED", frozenset())
    rig = load_rig(f"{made / 'target'}::ngram", "float32")
    assert target_module.largest_difference_nats(rig.target) < 1e-3
    monkeypatch.setattr(target_module, "pack", lambda tree, start: replace(
        pack(tree, start), positions=start + np.arange(len(tree), dtype=np.int32)))
    with pytest.raises(RigError, match="predicts something else in a tree than in a plain pass"):
        target_module.must_verify_trees(rig.target)


def test_a_target_that_names_a_layer_to_tap_elsewhere(tmp_path: Path) -> None:
    target = write_short(tmp_path / "gpt2", LLAMA, model_type="gpt2", architectures=None, num_key_value_heads=None,
                         head_dim=None, rope_scaling=None)
    drafter = write_short_dflash(tmp_path / "head", QWEN, **SHORT_DRAFTER)
    assert "The layers of a gpt2 cannot be tapped" in refused(f"{target}::{drafter}")
