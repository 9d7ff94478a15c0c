"""Published block-diffusion checkpoints (DFlash, DFlash 2, DSpark, TreeFlash, JetSpec): their options, and the drafter.

Taps, mask token, block size, sliding layers and rotary embedding all come from the checkpoint; a formula for the taps
would be wrong for most. An option is looked for in ``dflash_config``, then at the top; the format of speculators has
other names for some. Options that later checkpoints have added are refused by name, unless the tensors show that they
change nothing (``fields.py``).
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import nn
from transformers import Qwen3Config

from engine.checkpoints.files import read_config
from engine.checkpoints.weights import fill_model, load_weights, move_model
from engine.drafters import fields, kinds
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.models.packed_linear import PackedHead
from engine.models.target import TorchTarget


class Options(kinds.StrictFields):
    """Options of every family. Fields of type ``Any`` are known and ignored."""

    mask_token_id: NonNegativeInt
    target_layer_ids: list[int]
    block_size: int = Field(ge=2)
    num_target_layers: int | None = None
    output_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    input_embedding_scale: float = 1.0


class DFlash(Options):
    """Options of DFlash's drafters; these two are JetSpec's."""

    causal_head: bool = False
    draft_shift: bool | int = False


class DFlash2(Options):
    """Sizes of convolutions and of the candidate selector."""

    conv_kernel_size: PositiveInt
    conv_group_size: PositiveInt
    selector_rank: PositiveInt
    selector_top_k: PositiveInt


class TreeFlash(Options):
    """The correction of a slot by the token before it."""

    treeflash_config: dict[str, Any]


class DSpark(Options):
    """The Markov head, and a head that guesses how far a chain is accepted."""

    markov_rank: NonNegativeInt
    markov_head_type: str = ""
    sample_from_anchor: bool = True
    num_anchors: Any = None
    enable_confidence_head: Any = None
    confidence_head_with_markov: Any = None


class Speculators(kinds.StrictFields):
    """Fields that only the format of speculators has."""

    aux_hidden_state_layer_ids: list[int]
    transformer_layer_config: dict[str, Any] = {}
    sliding_window_non_causal: bool = False
    speculators_config: dict[str, Any] = {}
    speculators_model_type: Any = None
    speculators_version: Any = None
    target_hidden_size: Any = None


# By a part of the architecture's name; the last takes the others.
FAMILIES: Mapping[str, type[Options]] = MappingProxyType({
    "dflash2": DFlash2, "dspark": DSpark, "treeflash": TreeFlash, "": DFlash})
CAUSAL = "causal"  # an option that stands inside dflash_config only
MARKOV_BIAS = "markov_head.markov_w2.weight"  # by tokens of the draft vocabulary
CONFIDENCE_HEAD = "confidence_head."  # a tree has the probability of every node
# Sizes, and the option without which they mean nothing.
SWITCHES: Mapping[str, str] = MappingProxyType({
    "swa_window_size": "use_swa", "conv_group_size": "conv_kernel_size", "selector_top_k": "selector_rank",
    "top_k": "selector_rank"})
DEFAULT_VALUES = (("partial_rotary_factor", 1.0), ("sample_from_anchor", False))
# Extra fields of config.json that do not affect the computation.
IGNORED_FIELDS = frozenset({"block_size", "dflash_config", "num_target_layers", "quantization_config", "is_causal"})


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config.json has a block-diffusion drafter's own options, or says that it is one."""
    named = kinds.architectures(values)
    return (any(part in named for part in ("dflash", "dspark", "treeflash")) or "dflash_config" in values
            or values.get("speculators_model_type") in ("dflash", "dflash2", "dspark"))


def plan(folder: Path, target: kinds.TargetFacts) -> kinds.DrafterPlan:
    """Plan a block-diffusion drafter; RigError if it cannot run on this target as it was trained."""
    config = drafter_config(folder, target.block_size)
    options = config.dflash_config
    taps = tuple(options["target_layer_ids"])
    kinds.check_equal(folder, "hidden size", config.hidden_size, target.config.hidden_size)
    kinds.check_equal(folder, "a vocabulary of", config.vocab_size, target.config.vocab_size)
    if options["num_target_layers"]:
        kinds.check_equal(folder, "num_target_layers", options["num_target_layers"], target.config.num_hidden_layers)
    kinds.check_taps(folder, taps, target.config)
    # the angles are a formula, so a drafter serves texts as long as its target does
    config.max_position_embeddings = max(
        config.max_position_embeddings, target.config.max_position_embeddings) + config.block_size
    return kinds.DrafterPlan(taps, partial(_load, folder, config), sees_path=False, thinking=False,
                       note=options["note"], kind="dspark" if options["kind"] == "dspark" else "")


def _load(folder: Path, config: Qwen3Config, target: TorchTarget) -> DFlashDrafter:
    model, options = DFlashModel(config), config.dflash_config
    weights = {name.removeprefix("model."): value for name, value in load_weights(folder).items()
               if not name.startswith(CONFIDENCE_HEAD)}
    matrices = {name: weights.pop(f"{name}.weight", None) for name in ("embed_tokens", "lm_head")}
    token_ids = fields.draft_token_ids(folder, weights, config.draft_vocab_size, config.vocab_size)
    if token_ids is not None and MARKOV_BIAS in weights:  # biases of tokens that are never proposed are not needed
        biases = fields.over_vocabulary(weights[MARKOV_BIAS].T, token_ids, config.vocab_size, 0.0)
        weights[MARKOV_BIAS] = biases.T.contiguous()
    if options["uses_interleaved_rope"]:
        weights = fields.interleaved_to_neox(weights, config.head_dim)
    fill_model(model, weights, folder)
    embedding, head = target.embedding, target.logits
    for name, rows in (("embed_tokens", config.vocab_size), ("lm_head", config.draft_vocab_size)):
        value, shape = matrices[name], (rows, config.hidden_size)
        if value is not None or rows != config.vocab_size:
            kinds.check_equal(folder, f"{name} of shape", value if value is None else tuple(value.shape), shape)
    to_target = partial(move_model, device=target.device, dtype=target.model.dtype)
    if matrices["embed_tokens"] is not None:
        embedding = to_target(nn.Embedding.from_pretrained(matrices["embed_tokens"]))
    if matrices["lm_head"] is not None:
        linear = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False, device="meta")
        linear.weight = nn.Parameter(matrices["lm_head"], requires_grad=False)
        head = PackedHead(to_target(linear))
    columns = kinds.tap_columns(target, options["target_layer_ids"])
    return DFlashDrafter(to_target(model), embedding, head, token_ids, columns)


def drafter_config(folder: Path, block_size: int | None = None) -> Qwen3Config:
    """Return the drafter's config with all its own options in ``dflash_config``; ``block_size`` replaces the
    checkpoint's. RigError names an unsupported option."""
    values = _from_speculators(folder, read_config(folder))
    kind = next(kind for kind in FAMILIES if kind in kinds.architectures(values))
    family, inside = FAMILIES[kind], values.get("dflash_config") or {}
    configured = {name: value for name, value in {**values, **inside}.items() if value is not None}
    configured |= {"block_size": block_size} if block_size else {}
    options = kinds.parse_fields(folder, family, configured).model_dump()
    unread = fields.unread_fields(values, Qwen3Config, IGNORED_FIELDS | family.model_fields.keys()) | {
        name: value for name, value in inside.items() if name not in {*family.model_fields, CAUSAL}}
    note = fields.ignored_note(folder, {
        name: value for name, value in unread.items()
        if not (name in SWITCHES and kinds.is_switched_off(unread.get(SWITCHES[name])))
        and (name, value) not in (("projector_type", kind or "dflash"), *DEFAULT_VALUES)})
    config = Qwen3Config(**{key: value for key, value in values.items() if key not in ("auto_map", "dflash_config")})
    config.draft_vocab_size = values.get("draft_vocab_size") or config.vocab_size
    config.block_size = options["block_size"]
    causal = inside.get(CAUSAL, True if options.get("causal_head") else None)
    config.dflash_config = {
        **options, "note": note, "kind": kind, "uses_interleaved_rope": fields.uses_interleaved_rope(unread),
        "causal": causal if values.get("is_causal") is None else values["is_causal"],
        "ar_approximation": options.get("treeflash_config", {}).get("ar_approximation")}
    options, vocabulary = config.dflash_config, config.vocab_size
    layer_kinds = set(config.layer_types or ["full_attention"])
    rotated_share = (config.rope_parameters or {}).get("partial_rotary_factor", 1.0)
    head, correction = options.get("markov_head_type"), options["ar_approximation"]
    group, top_k = options.get("conv_group_size", 1), options.get("selector_top_k", 0)
    kinds.refuse_unknown(folder, {
        "layer_types": ", ".join(sorted(layer_kinds - {"full_attention", "sliding_attention"})),
        "sliding layers without a sliding_window": "sliding_attention" in layer_kinds and not config.sliding_window,
        "quantization_config": bool(values.get("quantization_config")),
        "partial_rotary_factor": rotated_share != 1.0 and rotated_share,
        "hidden_act": config.hidden_act != "silu" and config.hidden_act,
        "markov_head_type": options.get("markov_rank") and head not in ("vanilla", "gated") and head,
        "ar_approximation": correction != "swiglu" and correction,
        "conv_group_size that does not divide hidden_size": config.hidden_size % group and group,
        "selector_top_k beyond its vocabulary": top_k > vocabulary and top_k,
        "mask_token_id beyond its vocabulary": options["mask_token_id"] >= vocabulary and options["mask_token_id"],
        **kinds.unsupported_rope_fields(config)})
    return config


def _from_speculators(folder: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a config.json in the format of speculators to the authors' own form. Its layer ids count the embedding as
    0, so id i is the output of layer i − 1."""
    if "speculators_model_type" not in values:
        return values
    stored = kinds.parse_fields(folder, Speculators, values)
    rest = {name: value for name, value in values.items() if name not in Speculators.model_fields}
    methods = stored.speculators_config.get("proposal_methods") or [{}]
    if methods[0].get("speculative_tokens") == values.get("block_size", 0) - 1:
        rest.setdefault("sample_from_anchor", False)  # the root's slot proposes nothing
    options: dict[str, Any] = {"target_layer_ids": [tap - 1 for tap in stored.aux_hidden_state_layer_ids]}
    if stored.sliding_window_non_causal:
        options[CAUSAL] = False  # else sliding layers are causal, and full ones are not
    return {**stored.transformer_layer_config, **rest, "dflash_config": options}
