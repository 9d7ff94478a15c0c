"""Published block-diffusion checkpoints (DFlash, DFlash 2, DSpark, TreeFlash, JetSpec): their options, and the drafter.

Taps, mask token, block size, sliding layers and rotary embedding all come from the checkpoint; a formula for the taps
would be wrong for most published ones. An option is looked for in ``dflash_config``, then at the top; the same drafters
in the format of speculators have other names for some. Options that later checkpoints have added are refused by name,
unless the tensors show that they change nothing (``fields.py``).
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn
from transformers import Qwen3Config

from engine.checkpoints.files import display_name, read_config
from engine.checkpoints.weights import fill_model, load_weights, move_model
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.drafters.draft_vocabulary import draft_token_ids, over_vocabulary
from engine.drafters.fields import ignored_note, neighbours_to_halves, turns_neighbours, without_place
from engine.drafters.kinds import (
    DrafterPlan,
    TargetFacts,
    architectures,
    check_count,
    check_equal,
    check_taps,
    check_type,
    off,
    refuse_unknown,
    unsteady_rope,
)
from engine.errors import RigError
from engine.models.packed_linear import PackedHead
from engine.models.target import TorchTarget

REQUIRED = ("mask_token_id", "target_layer_ids", "block_size")
SCALES = ("output_multiplier", "final_logit_softcapping", "input_embedding_scale")
DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
# Options of one family only; its config.json has to name the first so many.
FAMILIES: Mapping[str, tuple[tuple[str, ...], int]] = MappingProxyType({
    "DFlash": (("causal_head", "draft_shift"), 0),  # those two are JetSpec's
    "DFlash 2": (DFLASH2, len(DFLASH2)),
    "TreeFlash": (("treeflash_config",), 1),
    "DSpark": (("markov_rank", "markov_head_type", "sample_from_anchor", "num_anchors", "enable_confidence_head",
                "confidence_head_with_markov"), 1)})
ARCHITECTURES: Mapping[str, str] = MappingProxyType({
    "dflash2": "DFlash 2", "dspark": "DSpark", "treeflash": "TreeFlash"})
MARKOV_HEADS = ("vanilla", "gated")
SPECULATORS = frozenset({"dflash", "dflash2", "dspark"})  # of the algorithms in the format of speculators
MARKOV_BIAS = "markov_head.markov_w2.weight"  # by tokens of the draft vocabulary
CONFIDENCE_HEAD = "confidence_head."  # guesses how far a chain is accepted; a tree has the probability of every node
# Sizes that mean nothing if the option that they belong to is switched off.
COMPANIONS: Mapping[str, str] = MappingProxyType({
    "swa_window_size": "use_swa", "conv_group_size": "conv_kernel_size", "selector_top_k": "selector_rank",
    "top_k": "selector_rank"})
NEUTRAL: Mapping[str, float] = MappingProxyType({"partial_rotary_factor": 1.0, "sample_from_anchor": False})
# What a config.json may hold besides the fields of a Qwen3 model without changing what is computed.
SILENT = frozenset({"block_size", "dflash_config", "num_target_layers", "quantization_config", "is_causal"})


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config.json has a block-diffusion drafter's own options, or says that it is one."""
    named = architectures(values)
    return (any(part in named for part in ("dflash", "dspark", "treeflash")) or "dflash_config" in values
            or values.get("speculators_model_type") in SPECULATORS)


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Return the plan of a block-diffusion drafter; RigError if it cannot run on this target as it was trained."""
    config = drafter_config(folder, target.block_size)
    options = config.dflash_config
    taps = tuple(options["target_layer_ids"])
    check_equal(folder, "hidden size", config.hidden_size, target.config.hidden_size)
    check_equal(folder, "a vocabulary of", config.vocab_size, target.config.vocab_size)
    layers = options.get("num_target_layers")
    if layers:
        check_equal(folder, "a target of layers:", layers, target.config.num_hidden_layers)
    check_taps(folder, taps, target.config)
    if not 0 <= options["mask_token_id"] < target.config.vocab_size:
        raise RigError(f"The drafter in {display_name(folder)} has the mask token {options['mask_token_id']}; the "
                       f"target's embedding has rows 0 to {target.config.vocab_size - 1}.")
    # the angles are a formula, so a drafter serves texts as long as its target does
    config.max_position_embeddings = max(
        config.max_position_embeddings, target.config.max_position_embeddings) + config.block_size
    return DrafterPlan(taps, partial(_load, folder, config), sees_path=False, thinking=False,
                       note=options["note"], kind="dspark" if options["family"] == "DSpark" else "")


def _load(folder: Path, config: Qwen3Config, target: TorchTarget) -> DFlashDrafter:
    model, weights, family = DFlashModel(config), load_weights(folder), config.dflash_config["family"]
    if family == "TreeFlash":
        weights = {name.removeprefix("model."): value for name, value in weights.items()}
    matrices = {name: weights.pop(f"{name}.weight", None) for name in ("embed_tokens", "lm_head")}
    token_ids = draft_token_ids(folder, weights, config.draft_vocab_size, config.vocab_size)
    if token_ids is not None and MARKOV_BIAS in weights:  # what biases a token that is never proposed is never read
        weights[MARKOV_BIAS] = over_vocabulary(weights[MARKOV_BIAS].T, token_ids, config.vocab_size, 0.0).T.contiguous()
    if family == "DSpark":
        weights = {name: value for name, value in weights.items() if not name.startswith(CONFIDENCE_HEAD)}
    if config.dflash_config["turns_neighbours"]:
        weights = neighbours_to_halves(weights, config.head_dim)
    fill_model(model, weights, folder)
    embedding, head = target.embedding, target.logits
    for name, rows in (("embed_tokens", config.vocab_size), ("lm_head", config.draft_vocab_size)):
        value, shape = matrices[name], (rows, config.hidden_size)
        if value is not None or rows != config.vocab_size:
            check_equal(folder, f"{name} of shape", value if value is None else tuple(value.shape), shape)
    to_target = partial(move_model, device=target.device, dtype=target.model.dtype)
    if matrices["embed_tokens"] is not None:
        embedding = to_target(nn.Embedding.from_pretrained(matrices["embed_tokens"]))
    if matrices["lm_head"] is not None:
        linear = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False, device="meta")
        linear.weight = nn.Parameter(matrices["lm_head"], requires_grad=False)
        head = PackedHead(to_target(linear))
    return DFlashDrafter(to_target(model), embedding, head, token_ids)


def drafter_config(folder: Path, block_size: int | None = None) -> Qwen3Config:
    """The drafter's config with its family and all of its own options in ``dflash_config``, wherever the checkpoint
    keeps them. A given ``block_size`` counts instead of the checkpoint's."""
    values = _plain(folder, read_config(folder))
    named = architectures(values)
    family = next((family for part, family in ARCHITECTURES.items() if part in named), "DFlash")
    options = _options(folder, values, family, block_size)
    of_family = {*REQUIRED, *SCALES, *FAMILIES[family][0]}
    unplaced = without_place(values, Qwen3Config, SILENT | of_family) | {
        name: value for name, value in options.items() if name not in of_family | {"num_target_layers", "causal"}}
    note = ignored_note(folder, {
        name: value for name, value in unplaced.items()
        if NEUTRAL.get(name) != value and not (name in COMPANIONS and off(unplaced.get(COMPANIONS[name])))
        and not (name == "projector_type" and value == family.replace(" ", "").lower())})
    config = Qwen3Config(**{key: value for key, value in values.items() if key not in ("auto_map", "dflash_config")})
    kinds = set(config.layer_types or ["full_attention"])
    turned = (config.rope_parameters or {}).get("partial_rotary_factor", 1.0)
    refuse_unknown(folder, {  # fields of the model itself that the drafter's code does not follow
        "layer_types": ", ".join(sorted(kinds - {"full_attention", "sliding_attention"})),
        "sliding layers without a sliding_window": "sliding_attention" in kinds and not config.sliding_window,
        "quantization_config": "quantised weights" if values.get("quantization_config") else "",
        "partial_rotary_factor": "" if turned == 1.0 else turned,
        **unsteady_rope(config),
        "hidden_act": "" if config.hidden_act == "silu" else config.hidden_act})
    if values.get("is_causal") is not None:
        options["causal"] = values["is_causal"]
    elif options.get("causal_head"):
        options["causal"] = True
    _check_family(folder, config, options, family)
    config.draft_vocab_size = values.get("draft_vocab_size") or config.vocab_size
    config.block_size, config.dflash_config = options.pop("block_size"), {
        **options, "family": family, "note": note, "turns_neighbours": turns_neighbours(unplaced)}
    return config


def _plain(folder: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config.json as the drafters' own authors write one, if it is in the format of speculators.

    Its layer ids count the embedding as 0, so that id i is the output of layer i − 1.
    """
    if "speculators_model_type" not in values:
        return values
    layer, taps = values.get("transformer_layer_config") or {}, values.get("aux_hidden_state_layer_ids")
    check_type(folder, {"transformer_layer_config": layer}, dict, "an object")
    if taps is None:
        raise RigError(f"config.json in {display_name(folder)} names no aux_hidden_state_layer_ids, without which no "
                       "DFlash drafter runs.")
    check_type(folder, {"aux_hidden_state_layer_ids": taps}, list, "a list of layers")
    for tap in taps:
        check_type(folder, {"among aux_hidden_state_layer_ids": tap}, int, "a whole number")
    rest = {name: value for name, value in values.items() if name not in (
        "speculators_model_type", "speculators_config", "speculators_version", "transformer_layer_config",
        "aux_hidden_state_layer_ids", "sliding_window_non_causal", "target_hidden_size")}
    methods = (values.get("speculators_config") or {}).get("proposal_methods") or [{}]
    if methods[0].get("speculative_tokens") == values.get("block_size", 0) - 1:
        rest.setdefault("sample_from_anchor", False)  # one slot fewer than the block has: the root's proposes nothing
    options: dict[str, Any] = {"target_layer_ids": [tap - 1 for tap in taps]}
    if values.get("sliding_window_non_causal"):
        options["causal"] = False  # else sliding layers are causal, and full ones are not
    return {**layer, **rest, "dflash_config": options}


def _options(folder: Path, values: Mapping[str, Any], family: str, block_size: int | None) -> dict[str, Any]:
    """The drafter's own options from both places; RigError if a necessary one is missing or of the wrong kind."""
    inner = values.get("dflash_config") or {}
    check_type(folder, {"dflash_config": inner}, dict, "an object")
    family_options, needed = FAMILIES[family]
    outer = (*REQUIRED, *SCALES, *family_options, "num_target_layers")
    options: dict[str, Any] = {name: values[name] for name in outer if name in values} | inner
    options["block_size"] = block_size or options.get("block_size")
    for name in (*REQUIRED, *family_options[:needed]):
        if options.get(name) is None:
            way = "; name it behind the drafter, such as DRAFTER?block_size=7" if name == "block_size" else ""
            raise RigError(f"config.json in {display_name(folder)} names no {name}, without which no {family} drafter "
                           f"runs{way}.")
    check_type(folder, {"target_layer_ids": options["target_layer_ids"]}, list, "a list of layers")
    check_type(folder, {name: options[name] for name in ("mask_token_id", "block_size")}, int, "a whole number")
    options = {name: value for name, value in options.items() if name not in SCALES or value is not None}
    check_type(folder, {name: options[name] for name in SCALES if name in options}, (int, float), "a number")
    if options["block_size"] < 2:
        raise RigError(f"config.json in {display_name(folder)} has block_size {options['block_size']}; it has to be 2 "
                       "or more.")
    return options


def _check_family(folder: Path, config: Qwen3Config, options: dict[str, Any], family: str) -> None:
    """Complete the options of one family; RigError if they are of another kind, or do not fit the model's sizes."""
    if family == "DSpark":
        check_type(folder, {"markov_rank": options["markov_rank"]}, int, "a whole number")
        options.setdefault("sample_from_anchor", True)
        head = options.get("markov_head_type")
        known = head in MARKOV_HEADS or not options["markov_rank"]
        refuse_unknown(folder, {"markov_head_type": "" if known else head})
    if family == "TreeFlash":
        check_type(folder, {"treeflash_config": options["treeflash_config"]}, dict, "an object")
        options["ar_approximation"] = correction = options["treeflash_config"].get("ar_approximation")
        refuse_unknown(folder, {"ar_approximation": "" if correction == "swiglu" else correction})
    if family == "DFlash 2":
        for name in DFLASH2:
            check_count(folder, options, name)
        if config.hidden_size % options["conv_group_size"]:
            raise RigError(f"config.json in {display_name(folder)} has conv_group_size {options['conv_group_size']}; "
                           f"it has to divide the hidden size, {config.hidden_size}.")
        if options["selector_top_k"] > config.vocab_size:
            raise RigError(f"config.json in {display_name(folder)} has selector_top_k {options['selector_top_k']}; the "
                           f"vocabulary has {config.vocab_size} tokens.")
