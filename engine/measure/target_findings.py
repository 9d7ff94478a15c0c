"""The doctor's checks of the target: the features that it hands to drafters, its chat template, thinking."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.lab.findings import FINE, SUSPICIOUS, WRONG, DoctorFinding
from engine.measure.specimens import Specimen
from engine.records import Sampling
from engine.serving.rigs import Rig

ROUNDING = 0.05  # of a feature's size


def target_findings(rig: Rig, specimens: Sequence[Specimen]) -> list[DoctorFinding]:
    """The findings on the target: whether its features are its layers' outputs, and its prompts as in its training."""
    tapped = [_features_finding(rig, specimens[0])] if rig.target.taps else []
    return [*tapped, _template_finding(rig), _thinking_finding(rig, specimens)]


@torch.inference_mode()
def _features_finding(rig: Rig, each: Specimen) -> DoctorFinding:
    """The finding on the features that the target hands to drafters, compared with its layers' outputs."""
    try:
        features = rig.target.prefill(each.token_ids.tolist(), 1, Sampling())[1].float()
    finally:
        rig.target.release()
    wanted = each.read(rig.target.taps, 1).features.float()
    off = float((features - wanted).norm() / wanted.norm())
    layers = ", ".join(map(str, rig.target.taps))
    seen = f"The tapped features of layers {layers} are {off:.2%} off those layers' outputs."
    if off <= ROUNDING:
        return DoctorFinding("features", "", FINE, seen)
    return DoctorFinding("features", "", WRONG, seen, "A tap is a layer's output before the final norm; state 0 of "
                         "transformers is the embedding, so layer i is state i + 1.")


def _template_finding(rig: Rig) -> DoctorFinding:
    if rig.tokenizer.chat_template:
        return DoctorFinding("chat template", "", FINE, "Prompts are laid in the tokenizer's chat template.")
    return DoctorFinding("chat template", "", SUSPICIOUS, "The tokenizer has no chat template.",
                         "A drafter trained on conversations needs them: add the model's template to the tokenizer.")


def _thinking_finding(rig: Rig, specimens: Sequence[Specimen]) -> DoctorFinding:
    texts = [rig.tokenizer.decode(each.token_ids[each.start:].tolist()) for each in specimens]
    thinking = sum("<think>" in text and bool(text.split("<think>")[1].split("</think>")[0].strip()) for text in texts)
    seen = f"{thinking} of {len(texts)} answers begin by thinking."
    if not thinking:
        return DoctorFinding("thinking", "", FINE, seen)
    return DoctorFinding("thinking", "", SUSPICIOUS, seen, "Most published drafters were trained on answers without "
                         "thinking: switch it off (enable_thinking) and compare.")
