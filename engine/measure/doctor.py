"""Diagnose a low τ: run each drafter with every common misconfiguration, and report those that score better.

The score is the mean accepted length of the drafter's greedy chains against the target's greedy text. Hidden states of
all layers are kept, so that any tap can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.decoding.builders import best_cells
from engine.drafters.abilities import BlockDrafter, BlockVariant, ReadText
from engine.drafters.fields import halves_to_neighbours, neighbours_to_halves
from engine.lab.findings import (
    FINE,
    SUSPICIOUS,
    WRONG,
    DoctorFinding,
    Marks,
    against_config,
    confidence_finding,
    marks,
    positions_finding,
    variant_finding,
)
from engine.lab.sweeping import Progress
from engine.models.target import TorchTarget
from engine.records import Floats, Integers, Lattice, PromptRequest, Sampling
from engine.serving.rig import Rig
from engine.trace import committed_ids, gather

TOKENS = 96  # of each answer
ANCHORS = 160  # of all answers together: enough to tell an eighth more from noise
ROUNDING = 0.05  # of a feature's size
MAX_ORDERS = 6  # of taps: every order of three; of more taps only the first orders
MAX_MASKS = 8  # of other special tokens that are tried as the mask token
POSITIONS = 8  # positions at which the drafter is called as the loop calls it
APART = 0.015  # in probability: rounding to bfloat16 gives 0.002, a wrong slot or context 0.04
DTYPE_LOSS = 0.05
CHECKS = 5  # how many checks run a drafter in another way than configured
BASES = (1e4, 5e5, 1e6, 1e7)  # rotary bases of published models

Ways = dict[str, tuple[Sequence[int], BlockVariant | None]]  # taps and a block, the drafter's own if it is None


@dataclass(frozen=True, eq=False)
class ReferenceAnswer:
    """Prompt and greedy answer: token_ids (all,) int32; states, each layer's output before the final norm, (all,
    hidden size); the answer begins at ``start``."""

    token_ids: Integers
    states: tuple[Tensor, ...]
    start: int

    def read(self, taps: Sequence[int], every: int) -> ReadText:
        """The text as a drafter with these taps reads it, with an anchor at every ``every``-th position."""
        return ReadText(self.token_ids, torch.cat([self.states[tap] for tap in taps], -1), self.start, every)


def diagnose(rig: Rig, prompts: Sequence[str], other: Rig | None = None,
             progress: Progress | None = None) -> list[DoctorFinding]:
    """Return all findings of a rig. ``other`` is the same rig in another dtype, for the dtype check."""
    progress = progress or Progress()
    progress.expect(len(prompts))
    answers = []
    for number, prompt in enumerate(prompts, start=1):
        progress.begin(f"The target answers prompt {number} of {len(prompts)}.")
        answers.append(answer_of(rig, prompt))
    return examine(rig, answers, other, progress)


def examine(rig: Rig, answers: Sequence[ReferenceAnswer], other: Rig | None = None,
            progress: Progress | None = None) -> list[DoctorFinding]:
    """Return all findings of a rig, on texts that the target already wrote."""
    drafters = {name: drafter for name, drafter in rig.drafters.items() if isinstance(drafter, BlockDrafter)}
    progress = progress or Progress()
    progress.expect(1 + (CHECKS + 1) * len(drafters))
    progress.begin("The target is examined.")
    findings = [_features(rig, answers[0])] if rig.target.taps else []
    findings += [_template(rig), _thinking(rig, answers)]
    for name, drafter in drafters.items():
        progress.begin(f"The drafter {name} as it is configured.")
        configured = score_chains(drafter, answers, rig.target.taps)
        findings += _try_variants(rig, name, drafter, answers, configured, progress)
        findings += [_base_finding(rig, name, drafter, findings[-1]), _draft(rig, name, drafter, answers[0]),
                     _vocabulary(rig, name, drafter), confidence_finding(name, configured),
                     positions_finding(name, configured)]
        findings += [_dtypes((rig, other), name, answers)] if other else []
    return findings


def answer_of(rig: Rig, prompt: str) -> ReferenceAnswer:
    """The target's own answer to a prompt."""
    trace = gather(rig.run(PromptRequest(prompt, method="autoregressive", budget=0, max_tokens=TOKENS)))
    prompt_ids = trace.header.request.prompt_ids
    return reread(rig.target, [
        *prompt_ids, *committed_ids(entry.round for entry in trace.entries)], len(prompt_ids))


@torch.inference_mode()
def reread(target: TorchTarget, token_ids: Sequence[int], start: int) -> ReferenceAnswer:
    """Run the target over a text and collect every layer's output."""
    states: dict[int, Tensor] = {}

    def keep(number: int) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            states[number] = (output if isinstance(output, Tensor) else output[0])[0]
        return hook

    layers: list[nn.Module] = list(target.model.get_decoder().layers)
    hooks = [layer.register_forward_hook(keep(number)) for number, layer in enumerate(layers)]
    try:
        target.model(input_ids=torch.tensor([token_ids], device=target.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return ReferenceAnswer(np.asarray(token_ids, np.int32), tuple(states[number] for number in range(len(layers))),
                           start)


def score_chains(drafter: BlockDrafter, answers: Sequence[ReferenceAnswer], taps: Sequence[int],
                variant: BlockVariant | None = None) -> Marks:
    """Score the drafter's greedy chains with these taps and this block layout, at about ``MAX_ANCHORS`` positions."""
    every = max(1, sum(len(answer.token_ids) - answer.start for answer in answers) // ANCHORS)
    chains, texts, confidences = [], [], []
    for answer in answers:
        read = answer.read(taps, every)
        for anchor, lattice in zip(read.anchors.tolist(), drafter.proposals(read, 1, variant), strict=True):
            following = np.full(lattice.depth, -1, np.int32)
            written = answer.token_ids[anchor + 1:anchor + 1 + lattice.depth]
            following[:len(written)] = written
            texts.append(following)
            chains.append(best_cells(lattice)[0])
            confidences.append(_confidence(lattice))
    return marks(np.stack(chains), np.stack(texts), np.stack(confidences))


def _confidence(lattice: Lattice) -> Floats:
    """The probability of each token of the most likely chain, (depth,) float32."""
    return np.exp(best_cells(lattice)[1])


def _finding(check: str, drafter: str, status: str, seen: str, advice: str) -> DoctorFinding:
    return DoctorFinding(check, drafter, status, seen, "" if status == FINE else advice)


@torch.inference_mode()
def _features(rig: Rig, answer: ReferenceAnswer) -> DoctorFinding:
    """Whether the features that the target hands to drafters are its layers' outputs."""
    try:
        features = rig.target.prefill(answer.token_ids.tolist(), 1, Sampling())[1].float()
    finally:
        rig.target.release()
    wanted = answer.read(rig.target.taps, 1).features.float()
    off = float((features - wanted).norm() / wanted.norm())
    return _finding("features", "", FINE if off <= ROUNDING else WRONG,
                    f"The tapped features of layers {', '.join(map(str, rig.target.taps))} are {off:.2%} off those "
                    "layers' outputs.", "A tap is a layer's output before the final norm; state 0 of transformers is "
                    "the embedding, so layer i is state i + 1.")


def _template(rig: Rig) -> DoctorFinding:
    """Whether prompts are laid out as in the target's training."""
    known = rig.texts.facts().has_template
    return _finding("chat template", "", FINE if known else SUSPICIOUS,
                    "Prompts are laid in the tokenizer's chat template." if known else
                    "The tokenizer has no chat template.",
                    "A drafter trained on conversations needs them: add the model's template to the tokenizer.")


def _thinking(rig: Rig, answers: Sequence[ReferenceAnswer]) -> DoctorFinding:
    """Check whether answers contain a thinking part, which few drafters were trained on."""
    texts = [rig.texts.decode(answer.token_ids[answer.start:].tolist()) for answer in answers]
    thinking = sum("<think>" in text and bool(text.split("<think>")[1].split("</think>")[0].strip()) for text in texts)
    return _finding("thinking", "", SUSPICIOUS if thinking else FINE,
                    f"{thinking} of {len(texts)} answers begin by thinking.", "Most published drafters were trained on "
                    "answers without thinking: switch it off (enable_thinking) and compare.")


def _try_variants(rig: Rig, name: str, drafter: BlockDrafter, answers: Sequence[ReferenceAnswer], configured: Marks,
                progress: Progress) -> list[DoctorFinding]:
    """Return one finding per variant: whether it scores better than the configured drafter."""
    taps, usual = rig.target.taps, BlockVariant.of(drafter)
    tries: tuple[tuple[str, Ways, str], ...] = (
        ("taps", _other_taps(rig), "Take the taps from the checkpoint's config, as outputs of those layers; here "
         "{best} fares better."),
        ("mask token", _other_masks(rig, drafter), "Lay the block with the mask token of the checkpoint's config; here "
         "{best} fares better."),
        ("slot 0", {"slot 0 is a mask": (taps, replace(usual, masked_root=True))},
         "This drafter wants a mask in slot 0 and not the root's embedding; check its own code."),
        ("slots", {"slots are read one off": (taps, replace(usual, first_slot=1 - usual.first_slot))},
         "This drafter's slots propose the tokens beside those that are read off them (draft_shift, "
         "sample_from_anchor); check its own code."),
        ("rope", _other_bases(rig, drafter),
         "Use the rotary base and style (rope_is_neox_style) of the checkpoint's config; here {best} fares better."))
    findings = []
    for check, ways, advice in tries:
        progress.begin(f"The drafter {name}: {check}.")
        others = {way: score_chains(drafter, answers, *taps_and_variant) for way, taps_and_variant in ways.items()}
        if check == "rope":
            way, other = _other_rope_layout(drafter)
            others[way] = score_chains(other, answers, taps)
        findings.append(variant_finding((check, name), configured, others, advice))
    options = drafter.model.config.dflash_config
    findings[0] = against_config(findings[0], tuple(taps), tuple(options["target_layer_ids"]))
    findings[1] = against_config(findings[1], drafter.mask_id, options["mask_token_id"])
    return findings


def _other_taps(rig: Rig) -> Ways:
    """The same taps in other orders, and their neighbours above and below."""
    taps, layers = rig.target.taps, len(rig.target.model.get_decoder().layers)
    orders = list(permutations(taps)) if len(taps) <= 3 else [
        (*taps[:first], taps[first + 1], taps[first], *taps[first + 2:]) for first in range(len(taps) - 1)]
    shifted = [tuple(tap + step for tap in taps) for step in (-1, 1)]
    ways = [way for way in [*orders[:MAX_ORDERS], *shifted] if all(0 <= tap < layers for tap in way)]
    return {f"layers {', '.join(map(str, way))}": (way, None) for way in ways if way != taps}


def _other_masks(rig: Rig, drafter: BlockDrafter) -> Ways:
    """The tokenizer's mask token and its other special tokens."""
    known, rows = rig.texts.facts(), rig.target.embedding.weight.shape[0]
    ids = dict.fromkeys((known.mask_id, *known.special_ids))
    others = [token for token in ids if token not in (None, drafter.mask_id) and token < rows]
    return {f"token {token}": (rig.target.taps, replace(BlockVariant.of(drafter), mask_id=token))
            for token in others[:MAX_MASKS]}


def _other_bases(rig: Rig, drafter: BlockDrafter) -> Ways:
    """Return variants with the target's RoPE base and with common ones."""
    def with_base(base: float) -> BlockVariant:
        config = deepcopy(drafter.model.config)
        config.rope_parameters = {**(config.rope_parameters or {}), "rope_theta": base}
        embedding = Qwen3RotaryEmbedding(config).to(drafter.device)

        def rotation(positions: Tensor) -> tuple[Tensor, Tensor]:
            cosines, sines = embedding(drafter.model.norm.weight, positions[None])
            return cosines[0], sines[0]
        return replace(BlockVariant.of(drafter), rotation=rotation)

    configured = _base(drafter.model.config)
    bases = [base for base in dict.fromkeys((_base(rig.target.config), *BASES)) if base and base != configured]
    return {f"base {base:g}": (rig.target.taps, with_base(base)) for base in bases}


def _other_rope_layout(drafter: BlockDrafter) -> tuple[str, BlockDrafter]:
    """Return a name and a copy of the drafter with the other RoPE layout (interleaved or half-split)."""
    neighbours = drafter.model.config.dflash_config.get("turns_neighbours")
    other, reorder = copy(drafter), halves_to_neighbours if neighbours else neighbours_to_halves
    other.model = deepcopy(drafter.model)
    other.model.load_state_dict(reorder(other.model.state_dict(), drafter.model.config.head_dim))
    return f"turning {'halves' if neighbours else 'neighbours'}", other


def _base(config: object) -> float:
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta", 0.0))


def _base_finding(rig: Rig, name: str, drafter: BlockDrafter, tried: DoctorFinding) -> DoctorFinding:
    """Whether the rotary base is the target's: another is suspicious, unless the drafter does best with it."""
    base, target = _base(drafter.model.config), _base(rig.target.config)
    return _finding("rope base", name, FINE if base == target or tried.status == FINE else SUSPICIOUS,
                    f"The drafter's rotary base is {base:g}, the target's {target:g}.",
                    "Compare with the checkpoint's config.json.")


@torch.inference_mode()
def _draft(rig: Rig, name: str, drafter: BlockDrafter, answer: ReferenceAnswer) -> DoctorFinding:
    """Whether the loop's drafter proposes what its model does with the root in slot 0."""
    read = answer.read(rig.target.taps, max(1, (len(answer.token_ids) - answer.start) // POSITIONS))
    live, done = [], 0
    drafter.begin(len(answer.token_ids))
    for anchor in read.anchors.tolist():
        drafter.observe(answer.token_ids[done:anchor], read.features[done:anchor])
        live.append(_confidence(drafter.draft(int(answer.token_ids[anchor]), 1)))
        done = anchor
    drafter.release()

    def apart(variant: BlockVariant) -> float:
        model = [_confidence(lattice) for lattice in drafter.proposals(read, 1, variant)]
        return float(np.abs(np.stack(model) - np.stack(live)).mean())
    usual = BlockVariant.of(drafter)
    gap, masked = apart(usual), apart(replace(usual, masked_root=True))
    seen = f"Its top probabilities in the loop are {gap:.3f} off those of its model after the root's embedding."
    if gap > APART >= masked:
        return DoctorFinding("slot 0", name, WRONG, f"{seen} With a mask token in slot 0 it is {masked:.3f}.",
                             "Put the committed root token into slot 0 of the block, not the mask token.")
    return _finding("draft", name, FINE if gap <= APART else WRONG, seen, "The drafter's loop and its model differ: "
                    "check the positions, the context that it keeps, and that it drops the block's own keys each "
                    "round.")


def _vocabulary(rig: Rig, name: str, drafter: BlockDrafter) -> DoctorFinding:
    """Whether drafter, tokenizer and target have one vocabulary."""
    rows, configured = rig.target.embedding.weight.shape[0], drafter.model.config.vocab_size
    known = rig.texts.facts().size
    fits = known <= rows == configured and 0 <= drafter.mask_id < rows
    return _finding("vocabulary", name, FINE if fits else WRONG,
                    f"The tokenizer knows {known} tokens, the target has {rows} rows, the drafter's config says "
                    f"{configured}; its mask token is {drafter.mask_id}.",
                    "Drafter, tokenizer and target are not of one family: fetch the three that belong together.")


def _dtypes(rigs: tuple[Rig, Rig], name: str, answers: Sequence[ReferenceAnswer]) -> DoctorFinding:
    """Compare acceptance in both dtypes on the same text."""
    figures: dict[str, float] = {}
    for rig in rigs:
        drafter = rig.drafters[name]
        assert isinstance(drafter, BlockDrafter)
        again = [reread(rig.target, answer.token_ids.tolist(), answer.start) for answer in answers]
        figures[rig.target.dtype] = score_chains(drafter, again, rig.target.taps).accepted
    lost = 1 - min(figures.values()) / max(*figures.values(), 1e-9)
    listed = ", ".join(f"{value:.2f} in {dtype}" for dtype, value in figures.items())
    return _finding("dtype", name, FINE if lost <= DTYPE_LOSS else SUSPICIOUS,
                    f"Accepted draft tokens per round: {listed}.",
                    "Rounding costs acceptance: run it in the better one.")
