"""Diagnoses a low τ: runs each drafter with every common misconfiguration, and reports those that score better.

The score is the mean accepted length of the drafter's greedy chains against the target's greedy text. Hidden states of
all layers are kept, so that any tap can be tried. Thinking changes the text itself, so it is compared by τ.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from itertools import permutations
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.decoding.builders import best_cells
from engine.drafters.dflash.drafter import BlockVariant, DFlashDrafter, TextFeatures
from engine.drafters.fields import interleaved_to_neox, neox_to_interleaved
from engine.errors import RequestError
from engine.lab.findings import (
    FINE,
    MIN_GAIN,
    SUSPICIOUS,
    SUSPICIOUS_GAIN,
    WRONG,
    ChainScores,
    DoctorFinding,
    confidence_finding,
    positions_finding,
    score,
    variant_finding,
)
from engine.lab.sweeping import Progress
from engine.models.target import TorchTarget
from engine.records import Floats, Integers, Lattice, PromptRequest, Sampling
from engine.serving.rig import Rig
from engine.trace import committed_ids, tau, trace_from_lines

ANSWER_TOKENS = 96
TARGET_ANCHORS = 160  # over all answers: enough to tell a gain of an eighth from noise
FEATURE_NOISE = 0.05  # relative: smaller differences of features are rounding
MAX_ORDERS = 6  # orders of taps that are tried: all of three taps
MAX_MASKS = 8  # other special tokens that are tried as the mask token
POSITIONS = 8  # positions at which the drafter is called as the loop calls it
MAX_DIFFERENCE = 0.015  # in probability: rounding to bfloat16 gives 0.002, a wrong slot or context 0.04
DTYPE_LOSS = 0.05
BASES = (1e4, 5e5, 1e6, 1e7)  # rotary bases of published models
TRAINED = {True: "it was trained on answers that think", False: "it was trained on answers without thinking",
           None: "nothing says how it was trained"}


@dataclass(frozen=True, eq=False)
class Variant:
    """A drafter to try, the taps that it reads, and the layout of its block (None: its own)."""

    drafter: DFlashDrafter
    taps: Sequence[int]
    block: BlockVariant | None = None


Variants = dict[str, Variant]


@dataclass(frozen=True, eq=False)
class ReferenceAnswer:
    """A prompt and its greedy answer, which begins at ``start``: token_ids (all,) int32, and each layer's output before
    the final norm, (all, hidden size)."""

    token_ids: Integers
    states: tuple[Tensor, ...]
    start: int

    def read(self, taps: Sequence[int], stride: int) -> TextFeatures:
        """Return the text as a drafter with these taps reads it, with an anchor at every ``every``-th position."""
        return TextFeatures(self.token_ids, torch.cat([self.states[tap] for tap in taps], -1), self.start, stride)


def diagnose(rig: Rig, prompts: Sequence[str], other: Rig | None = None,
             progress: Progress | None = None) -> list[DoctorFinding]:
    """Return all findings of a rig. ``other`` is the same rig in another dtype, for the dtype check."""
    progress = progress or Progress()
    progress.expect(len(prompts))
    answers = []
    for number, prompt in enumerate(prompts, start=1):
        progress.begin(f"The target answers prompt {number} of {len(prompts)}.")
        answers.append(answer_of(rig, prompt))
    return [*examine(rig, answers, other, progress), *compare_thinking(rig, prompts, progress)]


def examine(rig: Rig, answers: Sequence[ReferenceAnswer], other: Rig | None = None,
            progress: Progress | None = None) -> list[DoctorFinding]:
    """Return all findings of a rig, on texts that the target already wrote."""
    drafters = {name: drafter for name, drafter in rig.drafters.items() if isinstance(drafter, DFlashDrafter)}
    progress = progress or Progress()
    progress.expect(1 + (len(VARIANT_CHECKS) + 1) * len(drafters))
    progress.begin("The target is examined.")
    findings = [_check_features(rig, answers[0])] if rig.target.taps else []
    templated = rig.tokenizer.facts().has_template
    findings.append(_finding(
        "chat template", "", templated, "Prompts use the tokenizer's chat template." if templated else
        "The tokenizer has no chat template.",
        "A drafter trained on conversations needs them: add the model's template to the tokenizer."))
    texts = [rig.tokenizer.decode(answer.token_ids[answer.start:].tolist()) for answer in answers]
    thinking = sum("<think>" in text and bool(text.split("<think>")[1].split("</think>")[0].strip()) for text in texts)
    findings.append(_finding(
        "thinking", "", not thinking, f"{thinking} of {len(texts)} answers begin by thinking.",
        "Most published drafters were trained on answers without thinking: switch it off if the template can."))
    for name, drafter in drafters.items():
        progress.begin(f"The drafter {name} as configured.")
        configured = score_chains(Variant(drafter, rig.target.taps), answers)
        findings += _try_variants(rig, name, drafter, answers, configured, progress)
        findings += [_check_loop_matches_model(rig, name, drafter, answers[0]), confidence_finding(name, configured),
                     positions_finding(name, configured)]
        findings += [_compare_dtypes((rig, other), name, answers)] if other else []
    return findings


def compare_thinking(rig: Rig, prompts: Sequence[str], progress: Progress) -> list[DoctorFinding]:
    """Compare τ with thinking on and off, a finding for each drafter; none if the template has no such switch."""
    try:
        default = "off" if rig.prompt_ids(prompts[0]) == rig.prompt_ids(prompts[0], (), "off") else "on"
    except RequestError:
        return []
    findings = []
    progress.expect(len(rig.card.drafters))
    for name in rig.card.drafters:
        progress.begin(f"The drafter {name} with and without thinking.")
        taus = {thinking: tau([round_ for prompt in prompts for round_ in trace_from_lines(rig.run(PromptRequest(
            prompt, drafters=(name,), budget=16, max_tokens=ANSWER_TOKENS, thinking=thinking))).rounds])
            for thinking in ("on", "off")}
        better = max(taus, key=taus.__getitem__)
        gain = taus[better] - taus[default]
        findings.append(_finding(
            "thinking", name, gain < max(MIN_GAIN, (SUSPICIOUS_GAIN - 1) * taus[default]),
            f"τ is {taus['on']:.2f} with thinking and {taus['off']:.2f} without; "
            f"{TRAINED[rig.card.thinking.get(name)]}.",
            f"The default is thinking {default}; ask with thinking {better}, or choose another drafter."))
    return findings


def answer_of(rig: Rig, prompt: str) -> ReferenceAnswer:
    """Return the target's own answer to a prompt."""
    request = PromptRequest(prompt, method="autoregressive", budget=0, max_tokens=ANSWER_TOKENS)
    trace = trace_from_lines(rig.run(request))
    prompt_ids = trace.header.request.prompt_ids
    return layer_states(rig.target, [*prompt_ids, *committed_ids(trace.rounds)], len(prompt_ids))


@torch.inference_mode()
def layer_states(target: TorchTarget, token_ids: Sequence[int], start: int) -> ReferenceAnswer:
    """Run the target over a text and collect every layer's output."""
    states: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states.append((output if isinstance(output, Tensor) else output[0])[0])

    hooks = [layer.register_forward_hook(keep) for layer in target.model.get_decoder().layers]
    try:
        target.model(input_ids=torch.tensor([token_ids], device=target.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return ReferenceAnswer(np.asarray(token_ids, np.int32), tuple(states), start)


def score_chains(variant: Variant, answers: Sequence[ReferenceAnswer]) -> ChainScores:
    """Score the variant's greedy chains at about ``TARGET_ANCHORS`` positions."""
    every = max(1, sum(len(answer.token_ids) - answer.start for answer in answers) // TARGET_ANCHORS)
    chains, texts, confidences = [], [], []
    for answer in answers:
        read = answer.read(variant.taps, every)
        proposals = variant.drafter.proposals(read, 1, variant.block)
        for anchor, lattice in zip(read.anchors.tolist(), proposals, strict=True):
            following = np.full(lattice.depth, -1, np.int32)
            written = answer.token_ids[anchor + 1:anchor + 1 + lattice.depth]
            following[:len(written)] = written
            texts.append(following)
            chains.append(best_cells(lattice)[0])
            confidences.append(_confidence(lattice))
    return score(np.stack(chains), np.stack(texts), np.stack(confidences))


def _confidence(lattice: Lattice) -> Floats:
    return np.exp(best_cells(lattice)[1])


def _finding(check: str, drafter: str, fine: bool, seen: str, advice: str, status: str = SUSPICIOUS) -> DoctorFinding:
    return DoctorFinding(check, drafter, FINE, seen) if fine else DoctorFinding(check, drafter, status, seen, advice)


@torch.inference_mode()
def _check_features(rig: Rig, answer: ReferenceAnswer) -> DoctorFinding:
    try:
        features = rig.target.prefill(answer.token_ids.tolist(), 1, Sampling())[1].float()
    finally:
        rig.target.release()
    expected = answer.read(rig.target.taps, 1).features.float()
    relative_error = float((features - expected).norm() / expected.norm())
    layers = ", ".join(map(str, rig.target.taps))
    return _finding("features", "", relative_error <= FEATURE_NOISE,
                    f"The tapped features differ by {relative_error:.2%} from the outputs of layers {layers}.",
                    "A tap is a layer's output before the final norm; state 0 of transformers is "
                    "the embedding, so layer i is state i + 1.", WRONG)


def _try_variants(rig: Rig, name: str, drafter: DFlashDrafter, answers: Sequence[ReferenceAnswer],
                  configured: ChainScores, progress: Progress) -> list[DoctorFinding]:
    findings = []
    for check, (variants_of, advice) in VARIANT_CHECKS.items():
        progress.begin(f"The drafter {name}: {check}.")
        scores = {label: score_chains(variant, answers) for label, variant in variants_of(rig, drafter).items()}
        findings.append(variant_finding((check, name), configured, scores, advice))
    return findings


def _tap_variants(rig: Rig, drafter: DFlashDrafter) -> Variants:
    """Return the same taps in other orders, and their neighbours above and below."""
    taps, layers = rig.target.taps, len(rig.target.model.get_decoder().layers)
    orders = list(permutations(taps)) if len(taps) <= 3 else [
        (*taps[:first], taps[first + 1], taps[first], *taps[first + 2:]) for first in range(len(taps) - 1)]
    shifted = [tuple(tap + step for tap in taps) for step in (-1, 1)]
    return {f"layers {', '.join(map(str, other))}": Variant(drafter, other)
            for other in [*orders[:MAX_ORDERS], *shifted] if other != taps and all(0 <= tap < layers for tap in other)}


def _mask_variants(rig: Rig, drafter: DFlashDrafter) -> Variants:
    facts, rows = rig.tokenizer.facts(), rig.target.embedding.weight.shape[0]
    others = [token for token in dict.fromkeys((facts.mask_id, *facts.special_ids))
              if token not in (None, drafter.mask_id) and token < rows]
    return {f"token {token}": Variant(drafter, rig.target.taps, replace(drafter.variant, mask_id=token))
            for token in others[:MAX_MASKS]}


def _root_variants(rig: Rig, drafter: DFlashDrafter) -> Variants:
    return {"slot 0 is a mask": Variant(drafter, rig.target.taps, replace(drafter.variant, masked_root=True))}


def _slot_variants(rig: Rig, drafter: DFlashDrafter) -> Variants:
    block = replace(drafter.variant, first_slot=1 - drafter.variant.first_slot)
    return {"slots are shifted by one": Variant(drafter, rig.target.taps, block)}


def _rope_variants(rig: Rig, drafter: DFlashDrafter) -> Variants:
    """Return other rotary bases, and the other style: rotating neighbouring numbers of a head, or its halves."""
    taps, config = rig.target.taps, drafter.model.config
    base, target_base = (float((each.rope_parameters or {}).get("rope_theta", 0.0)) for each in (
        config, rig.target.config))
    variants = {f"base {other:g}": Variant(drafter, taps, _with_base(drafter, other))
                for other in dict.fromkeys((target_base, *BASES)) if other and other != base}
    interleaved = config.dflash_config.get("uses_interleaved_rope")
    reorder = neox_to_interleaved if interleaved else interleaved_to_neox
    other_style = copy(drafter)
    other_style.model = deepcopy(drafter.model)
    other_style.model.load_state_dict(reorder(other_style.model.state_dict(), config.head_dim))
    return {**variants, f"rotating {'halves' if interleaved else 'neighbours'}": Variant(other_style, taps)}


# By check: the variants to score, and the advice if one of them scores better.
VARIANT_CHECKS: Mapping[str, tuple[Callable[[Rig, DFlashDrafter], Variants], str]] = MappingProxyType({
    "taps": (_tap_variants, "Use the taps of the checkpoint's config, as outputs of those layers; {best} scores "
             "better."),
    "mask token": (_mask_variants, "Use the mask token of the checkpoint's config; {best} scores better."),
    "slot 0": (_root_variants, "This drafter needs a mask in slot 0, not the root's embedding; check its own code."),
    "slots": (_slot_variants, "This drafter's slots are shifted by one (draft_shift, sample_from_anchor); check its "
              "own code."),
    "rope": (_rope_variants, "Use the rotary base and style (rope_is_neox_style) of the checkpoint's config; {best} "
             "scores better.")})


def _with_base(drafter: DFlashDrafter, base: float) -> BlockVariant:
    config = deepcopy(drafter.model.config)
    config.rope_parameters = {**(config.rope_parameters or {}), "rope_theta": base}
    embedding = Qwen3RotaryEmbedding(config).to(drafter.device)

    def rotation(positions: Tensor) -> tuple[Tensor, Tensor]:
        cosines, sines = embedding(drafter.model.norm.weight, positions[None])
        return cosines[0], sines[0]
    return replace(drafter.variant, rotation=rotation)


@torch.inference_mode()
def _check_loop_matches_model(rig: Rig, name: str, drafter: DFlashDrafter, answer: ReferenceAnswer) -> DoctorFinding:
    """Check that the loop's drafter proposes what its model does with the root in slot 0."""
    read = answer.read(rig.target.taps, max(1, (len(answer.token_ids) - answer.start) // POSITIONS))
    loop_confidences, observed = [], 0
    drafter.begin(len(answer.token_ids))
    for anchor in read.anchors.tolist():
        drafter.observe(answer.token_ids[observed:anchor], read.features[observed:anchor])
        loop_confidences.append(_confidence(drafter.draft(int(answer.token_ids[anchor]), 1)))
        observed = anchor
    drafter.release()

    def difference(variant: BlockVariant) -> float:
        model_confidences = [_confidence(lattice) for lattice in drafter.proposals(read, 1, variant)]
        return float(np.abs(np.stack(model_confidences) - np.stack(loop_confidences)).mean())

    with_root, with_mask = (difference(replace(drafter.variant, masked_root=masked)) for masked in (False, True))
    seen = f"In the loop its top probabilities differ by {with_root:.3f} from its model's with the root in slot 0."
    if with_root > MAX_DIFFERENCE >= with_mask:
        return DoctorFinding("slot 0", name, WRONG, f"{seen} With a mask token in slot 0 it is {with_mask:.3f}.",
                             "Put the committed root token into slot 0 of the block, not the mask token.")
    return _finding("draft", name, with_root <= MAX_DIFFERENCE, seen, "The drafter's loop and its model differ: check "
                    "the positions, the context that it keeps, and that it drops the block's own keys each round.",
                    WRONG)


def _compare_dtypes(rigs: tuple[Rig, Rig], name: str, answers: Sequence[ReferenceAnswer]) -> DoctorFinding:
    figures: dict[str, float] = {}
    for rig in rigs:
        drafter = rig.drafters[name]
        assert isinstance(drafter, DFlashDrafter)
        again = [layer_states(rig.target, answer.token_ids.tolist(), answer.start) for answer in answers]
        figures[rig.target.dtype] = score_chains(Variant(drafter, rig.target.taps), again).accepted
    lost = 1 - min(figures.values()) / max(*figures.values(), 1e-9)
    listed = ", ".join(f"{value:.2f} in {dtype}" for dtype, value in figures.items())
    return _finding("dtype", name, lost <= DTYPE_LOSS, f"Accepted draft tokens per round: {listed}.",
                    "Rounding costs acceptance: use the better dtype.")
