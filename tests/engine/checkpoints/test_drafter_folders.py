"""Every published layout of a drafter for a Qwen3 target, small and random, drafts or is refused by its name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.records import Request
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.drafters import dflash_reference
from tests.engine.drafters.dflash_reference import rotated_neighbours
from tests.engine.drafters.test_autoregressive import read
from tests.engine.helpers import run, text
from tests.engine.published import (
    SHORT_DRAFTER,
    SIZES,
    Published,
    dflash_config,
    dflash_shapes,
    refused,
    write_config,
    write_short,
    write_weights,
)

Shapes = dict[str, tuple[int, ...]]
HIDDEN, VOCABULARY, RANK = SIZES["hidden_size"], 1536, 6
SHORT = Published("Qwen3-8B", (1, 3), 3, 8, 2)
SELECTOR: dict[str, Any] = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": RANK, "selector_top_k": 16}
MARKOV = {"markov_rank": RANK, "markov_head_type": "vanilla", "num_anchors": 512, "enable_confidence_head": True,
          "confidence_head_with_markov": True}
TABLES: Shapes = {"embed_tokens.weight": (VOCABULARY, HIDDEN), "lm_head.weight": (VOCABULARY, HIDDEN)}
MARKOV_HEAD: Shapes = {"markov_head.markov_w1.weight": (VOCABULARY, RANK),
                       "markov_head.markov_w2.weight": (VOCABULARY, RANK)}
CONFIDENCE: Shapes = {"confidence_head.proj.weight": (1, HIDDEN + RANK), "confidence_head.proj.bias": (1,)}
INNER = SIZES["intermediate_size"]
CORRECTION: Shapes = {"ar_approximation.ug.weight": (2 * INNER, 2 * HIDDEN), "ar_approximation.ug.bias": (2 * INNER,),
                      "ar_approximation.d.weight": (HIDDEN, INNER), "ar_approximation.norm.weight": (HIDDEN,)}
DFLASH2: Shapes = {
    "candidate_selector.predecessor_codebook": (VOCABULARY, RANK),
    "candidate_selector.successor_codebook": (VOCABULARY, RANK),
    "candidate_selector.hidden_projection.weight": (RANK, HIDDEN),
    **{f"layers.{layer}.{part}_conv.{name}": shape for layer in range(2) for part in ("attention", "mlp")
       for name, shape in {"base_kernel": (2, 2, HIDDEN), "kernel_projection.weight": (8, HIDDEN)}.items()}}


def config(inside: Mapping[str, Any] = MappingProxyType({}), **changes: Any) -> dict[str, Any]:
    """Return a drafter's config.json; ``inside`` adds options to its dflash_config."""
    values = dflash_config(SHORT, **{**SHORT_DRAFTER, **changes})
    return {**values, "dflash_config": {**values["dflash_config"], **inside}}


def dspark(**changes: Any) -> dict[str, Any]:
    """Return DeepSpec's config.json: all options at the top, a block of 7 whose root proposes too."""
    values = config(**{"architectures": ["Qwen3DSparkModel"], "block_size": 7, "mask_token_id": 3,
                       "target_layer_ids": [1, 3], **MARKOV, **changes})
    return {name: value for name, value in values.items() if name not in ("dflash_config", "auto_map")}


def speculators(kind: str, architecture: str, **changes: Any) -> dict[str, Any]:
    """Return the config.json of speculators 0.9: the model's fields are nested, layers count from the embedding."""
    return {"architectures": [architecture], "speculators_model_type": kind, "transformer_layer_config": {
                name: value for name, value in config().items() if name not in (
                    "architectures", "auto_map", "block_size", "dflash_config", "num_target_layers")},
            "aux_hidden_state_layer_ids": [2, 4], "mask_token_id": 3, "block_size": 8, "draft_vocab_size": VOCABULARY,
            "sliding_window_non_causal": False, "speculators_config": {"algorithm": kind}, "model_type": "speculator",
            "speculators_version": "0.9.0", "sample_from_anchor": False, **changes}


def treeflash(correction: str) -> dict[str, Any]:
    """Return TreeFlash's config.json: DFlash's with one more object."""
    return config(architectures=["TreeFlashDraftModel"],
                  treeflash_config={"candidate_tokens": 16, "ar_approximation": correction})


# Config, extra tensors, and the shape of the proposed lattice at 12 tokens.
DRAFTING: Mapping[str, tuple[dict[str, Any], Shapes, tuple[int, int, int]]] = {
    "DFlash": (config(), {}, (7, 1, 12)),
    "DFlash of Gemma 4": (config(final_logit_softcapping=30.0), {}, (7, 1, 12)),
    "DFlash 2 of Qwen3.8": (config(SELECTOR, architectures=["DFlash2DraftModel"], is_causal=False), DFLASH2,
                            (7, 16, 12)),
    "DFlash 2 of Muse Glimmer": (
        config({**SELECTOR, "output_multiplier": 0.196, "final_logit_softcapping": 20.0, "input_embedding_scale": 1.0},
               architectures=["DFlash2DraftModel"], is_causal=False), DFLASH2, (7, 16, 12)),
    "DFlash 2, options at the top": (config(architectures=["DFlash2DraftModel"], **SELECTOR), DFLASH2, (7, 16, 12)),
    "JetSpec": (config({"causal_head": True}), {}, (7, 1, 12)),
    "TreeFlash": (treeflash("swiglu"), CORRECTION, (7, 17, 12)),
    "DSpark": (dspark(), {**TABLES, **MARKOV_HEAD, **CONFIDENCE}, (7, 17, 12)),
    "dflash_qwen3_8b_block7": (dspark(markov_rank=0, enable_confidence_head=False), TABLES, (7, 1, 12)),
    "speculators dflash": (speculators("dflash", "DFlashSpeculator"), {}, (7, 1, 12)),
    "speculators dflash2": (speculators("dflash2", "DFlash2DraftModel", **SELECTOR), DFLASH2, (7, 16, 12)),
    "speculators dspark": (speculators("dspark", "DSparkSpeculator", sample_from_anchor=True, **MARKOV),
                           {**MARKOV_HEAD, **CONFIDENCE}, (8, 17, 12))}
# A layout, fields that do not change its drafts, and the names in the rig's note.
IGNORED: Mapping[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "speculators of 2026": ("speculators dflash", {"max_anchors": 3072}, ("max_anchors",)),
    "SpecForge": ("DSpark", {"attention_mode": "gqa", "projector_type": "dspark", "confidence_head_alpha": 1.0},
                  ("attention_mode", "confidence_head_alpha")),
    "a copied hybrid target": ("DSpark", {
        "linear_num_key_heads": 16, "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "attn_output_gate": True,
        "mrope_section": [11, 11, 10], "mrope_interleaved": True}, ("attn_output_gate", "linear_num_key_heads",
                                                                    "mrope_interleaved", "mrope_section")),
    "a copied mixture of experts": ("DFlash", {"num_experts": 128, "moe_intermediate_size": 768, "norm_topk_prob": True,
                                               "router_aux_loss_coef": 0.001}, ("num_experts", "norm_topk_prob")),
    "a copied reader of pictures": ("DFlash", {"image_token_id": 7, "vision_start_token_id": 8}, ("image_token_id",)),
    "parts that are switched off": ("DFlash", {
        "attn_output_gate": False, "use_swa": False, "swa_window_size": 2048, "mtp_loss": False, "selector_rank": 0,
        "attention_sink_bias": False, "conv_group_size": 4, "output_multiplier": 1.0, "final_logit_softcapping": None,
        "projector_type": "none"}, ())}
REFUSED: Mapping[str, tuple[dict[str, Any], Shapes]] = {  # by a part of the refusal's message
    "ar_approximation = linear": (treeflash("linear"), {}), "xPress": (config(architectures=["Qwen3XPressModel"]), {}),
    "LiLiCorr": (config(architectures=["LiLiCorrDraftModel"]), {}),
    "projector_type = lilicorr": (config({"projector_type": "lilicorr"}), {}),
    "emb_dim = 32, projector_type = domino": (config({"projector_type": "domino", "emb_dim": 32}), {}),
    "attention_sink_bias = True, attention_value_scale = 0.612": (  # MiMo
        config({"attention_sink_bias": True, "attention_value_scale": 0.612}), {}),
    "Laguna": (config(architectures=["DFlashLagunaForCausalLM"], gating="per-head"), {}),
    "Muse Glimmer": (config(architectures=["MuseGlimmerAssistantModel"]), {}),
    "Gemma 4": (dspark(architectures=["Gemma4DSparkModel"]), {}),
    "markov_head_type = rnn": (dspark(markov_head_type="rnn"), {}),
    "selector_rank None": (config({**SELECTOR, "selector_rank": None}, architectures=["DFlash2DraftModel"]), {}),
    "hidden_size = 5": (config({**SELECTOR, "conv_group_size": 5}, architectures=["DFlash2DraftModel"]), {}),
    "selector_top_k beyond its vocabulary = 2000": (
        config({**SELECTOR, "selector_top_k": 2000}, architectures=["DFlash2DraftModel"]), {}),
    "partial_rotary_factor = 0.25": (dspark(partial_rotary_factor=0.25), {}),
    "use_rope = false": (config(use_rope=False), {}),
    "attention_mode = mla": (config({"attention_mode": "mla"}), {}),
    "projector_type = dspark": (config({"projector_type": "dspark"}), {}),
    "P-EAGLE": (speculators("peagle", "PEagleSpeculator"), {}),
    "512 tokens of 1536: its tensor d2t": (speculators("dflash", "DFlashSpeculator", draft_vocab_size=512), {}),
    "embed_norm.weight has shape (32,)": (config(), {"embed_norm.weight": (HIDDEN,)})}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_short(tmp_path_factory.mktemp("made") / "target", "Qwen3-8B")


Written = Callable[[dict[str, Any], Shapes], str]


@pytest.fixture
def written(target: Path, tmp_path: Path) -> Written:
    """Provide a function that writes a drafter with extra tensors and returns its rig's name."""
    def write(values: dict[str, Any], shapes: Shapes) -> str:
        folder = write_config(tmp_path / "head", values)
        backbone = {f"{'model.' if 'TreeFlash' in str(values) else ''}{name}": shape
                    for name, shape in dflash_shapes(SHORT).items()}
        write_weights(folder, {**backbone, **shapes})
        return f"{target}::{folder}"
    return write


@pytest.mark.parametrize("name", DRAFTING)
def test_a_published_layout_drafts_and_leaves_the_text_unchanged(name: str, written: Written) -> None:
    values, shapes, size = DRAFTING[name]
    rig = load_rig(written(values, shapes), "float32")
    drafter = rig.drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter) and rig.target.taps == (1, 3)
    texts = []
    for method, budget in (("autoregressive", 0), ("dflash", 12), ("ddtree", 12)):
        request = Request(tuple(range(40, 52)), method=method, budget=budget, max_tokens=10)
        rounds = run(request, rig.target, [drafter][:budget])
        texts.append(text(rounds))
    assert texts[0] == texts[1] == texts[2] and rounds[0].drafts[0].tokens.shape == size


def proposals_of(name: str) -> tuple[Any, Rig]:
    """Return the lattice that a rig's drafter proposes after a prompt, and the rig."""
    rig = load_rig(name, "float32")
    request = Request(tuple(range(40, 52)), method="ddtree", budget=12, max_tokens=4)
    return run(request, rig.target, [rig.drafters["drafter"]])[0].drafts[0], rig


@pytest.mark.parametrize("case", IGNORED)
def test_fields_that_change_nothing_are_ignored_with_a_note(case: str, written: Written) -> None:
    name, fields, noted = IGNORED[case]
    values, shapes, _ = DRAFTING[name]
    plain, _ = proposals_of(written(values, shapes))
    same, rig = proposals_of(written({**values, **fields}, shapes))
    np.testing.assert_array_equal(plain.tokens, same.tokens)
    np.testing.assert_array_equal(plain.logprobs, same.logprobs)
    notes = " ".join(rig.notes)
    assert all(field in notes for field in noted) and ("Ignored" in notes) == bool(noted)


@pytest.mark.parametrize(("fields", "slots"), [
    ({"speculators_config": {"proposal_methods": [{"speculative_tokens": 7}]}}, 7),
    ({"speculators_config": {"proposal_methods": [{"speculative_tokens": 8}]}}, 8), ({}, 8),
    ({"speculators_config": {"proposal_methods": [{"speculative_tokens": 8}]}, "sample_from_anchor": False}, 7)])
def test_the_config_declares_the_first_slot_that_proposes(
        fields: dict[str, Any], slots: int, written: Written) -> None:
    values = {name: value for name, value in DRAFTING["speculators dspark"][0].items() if name != "sample_from_anchor"}
    lattice, _ = proposals_of(written({**values, **fields}, DRAFTING["speculators dspark"][1]))
    assert lattice.depth == slots


def test_a_reduced_vocabulary_gives_the_full_one_renormalised(
        written: Written, tmp_path: Path) -> None:
    values = speculators("dspark", "DSparkSpeculator", sample_from_anchor=True, **MARKOV)
    name = written(values, {**MARKOV_HEAD, **TABLES})
    whole, _ = proposals_of(name)
    file = tmp_path / "head" / "model.safetensors"
    weights, ids = load_file(file), torch.from_numpy(np.unique([*whole.tokens[0, 0], *range(5, 1500, 9)])).long()
    for table in ("lm_head.weight", "markov_head.markov_w2.weight"):
        weights[table] = weights[table][ids]
    weights |= {"d2t": ids - torch.arange(len(ids)), "t2d": torch.zeros(VOCABULARY, dtype=torch.bool)}
    write_config(tmp_path / "head", {**values, "draft_vocab_size": len(ids)})
    save_file(weights, file)
    pruned, _ = proposals_of(name)
    np.testing.assert_array_equal(pruned.tokens[0, 0], whole.tokens[0, 0])
    # a token's probability is that of the full vocabulary, renormalised over the part
    more = pruned.logprobs[0, 0] - whole.logprobs[0, 0]
    np.testing.assert_allclose(more, more[0], atol=1e-5)
    assert more[0] > 0.1 and set(pruned.tokens[np.isfinite(pruned.logprobs)]) <= set(ids.tolist())
    before, after = (dict(zip(lattice.tokens[0, 0], lattice.follow[0, 0], strict=True)) for lattice in (whole, pruned))
    for token in before.keys() & after.keys():  # the second slot after the same token
        row, same = whole.tokens[1, before[token]], pruned.tokens[1, after[token]]
        assert [one for one in row if one in ids] == [one for one in same if one in row]


def test_a_block_size_may_be_given_in_the_rigs_name(written: Written) -> None:
    name = written({name: value for name, value in dspark().items() if name != "block_size"}, {**TABLES, **MARKOV_HEAD})
    assert "?block_size=7" in refused(name) and "'seven'" in refused(f"{name}?block_size=seven")
    for size in (7, 5):
        assert proposals_of(f"{name}?block_size={size}")[0].depth == size


@pytest.mark.parametrize(("fields", "rule"), [
    ({"rope_is_neox_style": False}, rotated_neighbours), ({"rope_interleave": True}, rotated_neighbours),
    ({"rope_is_neox_style": True, "rope_interleave": False}, dflash_reference.rotated_halves)])
def test_neighbouring_pairs_rotate_if_the_config_asks_for_it(
        fields: dict[str, Any], rule: Any, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_reference, "rotated_halves", rule)
    rig = load_rig(written(config(**fields), {}), "float32")
    features = torch.randn(9, 2 * HIDDEN, generator=torch.Generator().manual_seed(2))
    lattice = read(rig.drafters["drafter"], range(9), [4, 5], features, 20)
    with torch.no_grad():
        block = rig.target.embedding(torch.tensor([7] + [SHORT.mask_id] * (SHORT.block - 1)))
        speeds = dflash_reference.plain_speeds(1e6, SIZES["head_dim"])
        hidden = dflash_reference.reference(load_file(tmp_path / "head" / "model.safetensors"), features, block, speeds,
                                            1e-6, [(0, False)] * SHORT.layers)
        law = rig.target.head(hidden[1:]).log_softmax(-1)
    np.testing.assert_allclose(lattice.logprobs[:, 0], law.topk(20).values.numpy(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("named", REFUSED)
def test_unsupported_layouts_are_refused_by_name(named: str, written: Written) -> None:
    assert named in refused(written(*REFUSED[named]))


def test_other_models_are_not_loaded_as_language_models(written: Written) -> None:
    values = {name: value for name, value in config().items() if name not in (
        "dflash_config", "auto_map", "block_size", "num_target_layers")}
    whole = {f"model.{key}": shape for key, shape in {
        **dflash_shapes(SHORT), "embed_tokens.weight": TABLES["embed_tokens.weight"]}.items() if "fc" not in key}
    for architecture, sentence in (("Qwen3RewardModel", "Qwen3RewardModel, which is no causal"),
                                   ("Qwen3ForCausalLM", "fc.weight (and")):
        assert sentence in refused(written({**values, "architectures": [architecture]},
                                       {**whole, "lm_head.weight": TABLES["lm_head.weight"]}))
