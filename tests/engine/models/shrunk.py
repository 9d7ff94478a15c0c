"""Small random models of any causal class of transformers, and a drafter that is often right."""

import inspect
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.checkpoints.loading import attention_of, auto_class, model_class
from engine.records import Integers, Lattice

VOCABULARY, DEPTH, SPREAD = 97, 4, 0.15
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 12,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "sliding_window": 5, "attention_chunk_size": 8, "index_topk": 6,
    "index_head_dim": 8, "index_n_heads": 2, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8, "v_head_dim": 12, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "num_experts_per_token": 2, "n_group": 1, "topk_group": 1, "num_expert_group": 1,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "linear_num_value_heads": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "mamba_n_heads": 12,
    "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_ssm": 96, "mamba_chunk_size": 8,
    "mamba_num_heads": 12, "mamba_head_dim": 8, "ssm_state_size": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8,
    "n_embd": 48, "emb_dim": 48, "d_model": 48, "embed_dim": 48, "n_layer": 4, "n_layers": 4, "num_layers": 4,
    "n_head": 4, "n_heads": 4, "num_heads": 4, "ffn_dim": 64, "n_positions": 256, "rotary_dim": 4,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "global_head_dim": 24}
KINDS_OF_LAYERS = frozenset({"layer_types", "layers_block_type", "mlp_layer_types"})
LATENT = {"num_key_value_heads": 4, "head_dim": 4}
NOTE = {"num_key_value_heads": 4, "head_dim": 12}
QWEN4 = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 12, "indexer_budget": 8, "hc_lowrank": 8,
         "indexer_compress_ratio": 4, "ngram_vocab_size_base": 97, "ple_embed_dim": 16, "split_ngram_parts": 4}
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2],
                             "partial_rotary_factor": 1.0}}
AUDIO = {"encoder_attention_heads": 4, "num_heads": 4}
# Other sizes, for model types that the sizes above do not fit.
CHANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk1", "axk2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "minicpm3",
                     "sarvam_mla", "youtu"), LATENT),
    "deepseek_v2": {**LATENT, "num_experts_per_tok": 2},
    "dots3_note_text": NOTE,
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral"), {"head_dim": 12}),
    "nemotron": {"head_dim": 12, "num_key_value_heads": 2},
    "cohere_compass_text": {"rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}},
    "apertus1p5": {"image_token_offset": 10, "vision_config": {"codebook_size": 20}, "audio_token_offset": 30,
                   "audio_config": {"codebook_dim": 48, "codebook_size": 40}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8}},
    "dory": {"layer_types": ["sliding_attention", "full_attention"] * 2, "n_input_layers": 1, "n_recurrent_layers": 2,
             "n_output_layers": 1},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma3n_text": {"num_kv_shared_layers": 2, "activation_sparsity_pattern": None, "laurel_rank": 8},
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), {
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_hidden_layers": 4,
                        "num_kv_shared_layers": 4}}),
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 5},
    **dict.fromkeys(("kimi_linear", "bailing_hybrid"), {**LATENT, "linear_head_dim": 8, "linear_num_heads": 4}),
    **dict.fromkeys(("lfm2", "lfm2_moe"), {"layer_types": ["conv", "full_attention", "conv", "conv"]}),
    "bamba": {"attn_layer_indices": [1]},
    "dots3_note": {"text_config": NOTE, "vision_config": {"adapter_in_dim": 48, "adapter_out_dim": 48},
                   "audio_config": {"adapter_input_size": 48, "adapter_out_dim": 48}},
    "longcat_flash": {**LATENT, "expert_ffn_hidden_size": 16, "ffn_hidden_size": 64, "zero_expert_num": 2,
                      "moe_topk": 2},
    "qwen4_exp": {"text_config": QWEN4}, "qwen4_exp_text": QWEN4,
    "mamba2": {"num_heads": 12, "head_dim": 8}, "stablelm": {"hidden_size": 64},
    "reformer": {"is_decoder": True, "axial_pos_embds": False}, "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
    **dict.fromkeys(("glm46v", "glm4v", "glm4v_moe", "glm_ocr", "glmga", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl",
                     "qwen2_5_omni_thinker", "qwen3_omni_moe_thinker"), {"text_config": MROPE, "audio_config": AUDIO}),
    "cohere_compass": {"text_config": {"rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}}},
    "granite_docling": {"vision_config": {"out_hidden_size": 48}},
    "hy_v4_vl": {"text_config": {"qk_rope_head_dim": 12, "index_head_dim": 16}},
    **dict.fromkeys(("inkling2", "inkling2_loop"), {"vision_config": {"text_hidden_size": 48}}),
    "muse_spark": {"audio_config": {"out_hidden_size": 48}},
    "molmo2": {"adapter_config": {"vision_feature_layers": [1, 2], "vision_feature_layer": [1, 2]}},
    "step3p7": {"text_config": {"sliding_window": 5}},
    **dict.fromkeys(("mistral_large4", "kimi_k25"), {"text_config": LATENT}),
    "mistral4": {**LATENT, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0, "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 64}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", *["sparse"] * 3], "num_experts_per_tok": 2}},
    "glm5_next": {"text_config": {"num_key_value_heads": 4, "index_kpool": 2, "qk_rope_head_dim": 0}},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "4/8",
                        "vision_config": {"hidden_size": 64}},
    "ernie4_5_vl_moe": {"text_config": {"moe_intermediate_size": [16, 16], "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2]}}},
    "chameleon": {"vocabulary_map": {"<image>": 3}}, "hunyuan_vl": {"text_config": {"head_dim": 12, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 1, 1]}}},
    "exaone4_5": {"text_config": {"model_type": "exaone4_5_text"}},
    "kosmos-2": {"text_config": {"attention_heads": 4, "layers": 4}},
    "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2}},
    "diffusion_gemma": {"text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}},
}


def shrunk(kind: str, dtype: torch.dtype = torch.float32, source: Path | None = None,
           **changes: Any) -> PreTrainedModel:
    """Return a random model of the class whose choices differ from position to position.

    Experts run one by one, as only that works in float64. ``source`` is a folder for a copy of the class's file that
    computes decays, norms and states in float64 too."""
    config = small_config_of(kind, **changes)
    torch.manual_seed(0)
    if source is None and auto_class(config) is AutoModelForCausalLM:
        make = AutoModelForCausalLM.from_config  # its class may take the text part alone
    else:
        make = (model_class(config) if source is None else in_float64(model_class(config), source))._from_config
    model: PreTrainedModel = make(
        config, dtype=dtype, attn_implementation=attention_of(config), experts_implementation="eager").eval()
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, SPREAD)
    return model


def small_config_of(kind: str, **changes: Any) -> PreTrainedConfig:
    """Return a model type's default configuration with small sizes, nested ones included."""
    return AutoConfig.for_model(kind, **{**merged(kind), **changes})


def merged(kind: str) -> dict[str, Any]:
    """Return the fields that differ between a type's small and its default configuration."""
    needed = CHANGES[kind] if kind.endswith("_assistant") else {}  # its defaults contradict one another
    small = cut(AutoConfig.for_model(kind, **needed).to_dict())
    for name, value in CHANGES.get(kind, {}).items():
        small[name] = {**small[name], **value} if isinstance(small.get(name), dict) else value
    return small


def cut(values: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration's fields with small values; of layer types, the first four."""
    small = {name: SIZES[name] for name, value in values.items() if name in SIZES and isinstance(value, int)}
    for name, value in values.items():
        if isinstance(value, dict) and name.endswith("config"):
            small[name] = cut(value)
        elif isinstance(value, dict) and "mrope_section" in value:
            small[name] = {**value, "mrope_section": [2, 2, 2], "partial_rotary_factor": 1.0}
        elif isinstance(value, list) and name in KINDS_OF_LAYERS:
            small[name] = (list(dict.fromkeys(value)) * SIZES["num_hidden_layers"])[:SIZES["num_hidden_layers"]]
    return small


def in_float64(model: type[PreTrainedModel], folder: Path) -> Any:
    """Return the class from a copy of its file with float64 in place of float32."""
    path = folder / f"{model.__name__}.py"
    written = inspect.getsource(sys.modules[model.__module__])
    path.write_text(written.replace("torch.float32", "torch.float64").replace(".float()", ".double()"))
    name = f"{model.__module__}_in_float64"
    spec = spec_from_file_location(name, path)
    assert spec and spec.loader
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, model.__name__)


class FallibleDrafter:
    """Draft the known text with an error at a third of the positions, where the right token has rank 1."""

    def __init__(self, prompt_ids: Sequence[int], token_ids: Sequence[int], seed: int = 0) -> None:
        self.whole, self.start, self.seed = [*prompt_ids, *token_ids], 0, seed

    def begin(self, rows: int) -> None:
        self.start = 0

    def observe(self, token_ids: Integers, features: object) -> None:
        self.start += len(token_ids)

    def draft(self, root: int, width: int) -> Lattice:
        known = [*self.whole[self.start + 1:], *[3] * DEPTH][:DEPTH]
        random = np.random.default_rng([self.seed, self.start])
        tokens = np.zeros((DEPTH, 1, width), np.int32)
        for depth, token in enumerate(known):
            others = random.permutation([other for other in range(VOCABULARY) if other != token])[:width]
            wrong = int(random.random() < 1 / 3) if width > 1 else 0
            tokens[depth, 0] = np.insert(others, wrong, token)[:width]
        logprobs = np.log(np.float32(0.5)) * np.arange(1, width + 1, dtype=np.float32)
        return Lattice(tokens, np.broadcast_to(logprobs, tokens.shape).copy(), np.zeros_like(tokens))

    def release(self) -> None:
        """See ``protocols.Drafter``."""

    def fork(self) -> "FallibleDrafter":
        return FallibleDrafter(self.whole, (), self.seed)
