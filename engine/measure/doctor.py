"""Finds out why τ is low: runs each drafter in the ways that are easily got wrong, and sees whether one does better.

Research notes, traps 1 to 6, 20 and 24. The measure is how much of each most likely chain the target's greedy text
accepts; the texts carry the outputs of all the target's layers, so that a drafter can be run on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.decoding.builders.chain import best_cells
from engine.drafters.abilities import BlockDrafter, ReadText
from engine.drafters.dflash.positions import Manner, proposals, usual
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
    ways_finding,
)
from engine.lab.sweeping import Progress
from engine.models.target import TorchTarget
from engine.records import Floats, Integers, Lattice, PromptRequest, Sampling
from engine.serving.rig import Rig
from engine.trace import committed_ids, gather

TOKENS = 96  # of each answer
ANCHORS = 160  # of all answers together: enough to tell an eighth more from noise
ROUNDING = 0.05  # of a feature's size
MOST_ORDERS = 6  # of taps: every order of three; of more taps only the first orders
PLACES = 8  # positions at which the drafter is called as the loop calls it
APART = 0.015  # in probability: rounding to bfloat16 gives 0.002, a wrong slot or context 0.04
DTYPE_LOSS = 0.05
CHECKS = 5  # how many checks run a drafter in another way than configured
BASES = (1e4, 5e5, 1e6, 1e7)  # rotary bases of published models

Ways = dict[str, tuple[Sequence[int], Manner | None]]



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
    """All findings of a rig. ``other`` is the same rig in another dtype, for the dtype check; ``progress`` is told the
    progress."""
    progress = progress or Progress()
    progress.expect(len(prompts))
    answers = []
    for number, prompt in enumerate(prompts, start=1):
        progress.begin(f"The target answers prompt {number} of {len(prompts)}.")
        answers.append(answer_of(rig, prompt))
    return examine(rig, answers, other, progress)


def examine(rig: Rig, answers: Sequence[ReferenceAnswer], other: Rig | None = None,
            progress: Progress | None = None) -> list[DoctorFinding]:
    """All findings of a rig, over texts that the target has already written."""
    drafters = {name: drafter for name, drafter in rig.drafters.items() if isinstance(drafter, BlockDrafter)}
    progress = progress or Progress()
    progress.expect(1 + (CHECKS + 1) * len(drafters))
    progress.begin("The target is examined.")
    findings = [*target_findings(rig, answers)]
    for name, drafter in drafters.items():
        findings += _drafter_findings(rig, (name, drafter), answers, progress)
        findings += _dtype_finding(rig, other, name, answers)
    return findings


def answer_of(rig: Rig, prompt: str) -> ReferenceAnswer:
    """The target's own answer to a prompt as a answer."""
    trace = gather(rig.run(PromptRequest(prompt, method="autoregressive", budget=0, max_tokens=TOKENS)))
    prompt_ids = trace.header.request.prompt_ids
    return reread(rig.target, [
        *prompt_ids, *committed_ids(entry.round for entry in trace.entries)], len(prompt_ids))


@torch.inference_mode()
def reread(target: TorchTarget, token_ids: Sequence[int], start: int) -> ReferenceAnswer:
    """Any text as a answer of this target: the target reads it again with every layer tapped."""
    states: dict[int, Tensor] = {}
    layers: list[nn.Module] = list(target.model.get_decoder().layers)
    hooks = [layer.register_forward_hook(_keep(states, number)) for number, layer in enumerate(layers)]
    try:
        target.model(input_ids=torch.tensor([token_ids], device=target.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    outputs = tuple(states[number] for number in range(len(layers)))
    return ReferenceAnswer(np.asarray(token_ids, np.int32), outputs, start)


def _keep(states: dict[int, Tensor], number: int) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states[number] = (output if isinstance(output, Tensor) else output[0])[0]
    return hook


def stride(answers: Sequence[ReferenceAnswer]) -> int:
    """The distance between anchors at which the answers together have about ``ANCHORS``."""
    return max(1, sum(len(answer.token_ids) - answer.start for answer in answers) // ANCHORS)


def chain_marks(drafter: BlockDrafter, answers: Sequence[ReferenceAnswer], taps: Sequence[int],
          manner: Manner | None = None) -> Marks:
    """The marks of the drafter's chains with these taps, run in this manner (by default its own)."""
    every = stride(answers)
    chains, texts, beliefs = [], [], []
    for answer in answers:
        read = answer.read(taps, every)
        for anchor, lattice in zip(read.anchors.tolist(), proposals(drafter, read, 1, manner), strict=True):
            following = np.full(lattice.depth, -1, np.int32)
            written = answer.token_ids[anchor + 1:anchor + 1 + lattice.depth]
            following[:len(written)] = written
            tokens, logprobs = best_cells(lattice)
            chains.append(tokens)
            beliefs.append(np.exp(logprobs))
            texts.append(following)
    return marks(np.stack(chains), np.stack(texts), np.stack(beliefs))


def marks_by_way(drafter: BlockDrafter, answers: Sequence[ReferenceAnswer], ways: Mapping[str, tuple[
        Sequence[int], Manner | None]]) -> dict[str, Marks]:
    """The ``chain_marks`` of each way, which is taps and a manner, by its name."""
    return {name: chain_marks(drafter, answers, taps, manner) for name, (taps, manner) in ways.items()}


def target_findings(rig: Rig, answers: Sequence[ReferenceAnswer]) -> list[DoctorFinding]:
    """The findings on the target: whether its features are its layers' outputs, and its prompts as in its training."""
    tapped = [_features_finding(rig, answers[0])] if rig.target.taps else []
    return [*tapped, _template_finding(rig), _thinking_finding(rig, answers)]


@torch.inference_mode()
def _features_finding(rig: Rig, answer: ReferenceAnswer) -> DoctorFinding:
    """The finding on the features that the target hands to drafters, compared with its layers' outputs."""
    try:
        features = rig.target.prefill(answer.token_ids.tolist(), 1, Sampling())[1].float()
    finally:
        rig.target.release()
    wanted = answer.read(rig.target.taps, 1).features.float()
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


def _thinking_finding(rig: Rig, answers: Sequence[ReferenceAnswer]) -> DoctorFinding:
    texts = [rig.tokenizer.decode(answer.token_ids[answer.start:].tolist()) for answer in answers]
    thinking = sum("<think>" in text and bool(text.split("<think>")[1].split("</think>")[0].strip()) for text in texts)
    seen = f"{thinking} of {len(texts)} answers begin by thinking."
    if not thinking:
        return DoctorFinding("thinking", "", FINE, seen)
    return DoctorFinding("thinking", "", SUSPICIOUS, seen, "Most published drafters were trained on answers without "
                         "thinking: switch it off (enable_thinking) and compare.")


def _drafter_findings(rig: Rig, named: tuple[str, BlockDrafter], answers: Sequence[ReferenceAnswer],
                      progress: Progress) -> list[DoctorFinding]:
    name, drafter = named
    progress.begin(f"The drafter {name} as it is configured.")
    whole = chain_marks(drafter, answers, rig.target.taps)
    tries: tuple[tuple[str, Ways, str], ...] = (
        ("taps", _other_taps(rig), "Take the taps from the checkpoint's config, as outputs of those layers; here "
         "{best} fares better."),
        ("mask token", _other_masks(rig, drafter), "Lay the block with the mask token of the checkpoint's config; here "
         "{best} fares better."),
        ("slot 0", {"slot 0 is a mask": (rig.target.taps, _masked_root(drafter))},
         "This drafter wants a mask in slot 0 and not the root's embedding; check its own code."),
        ("slots", {"slots are read one off": (rig.target.taps, _shifted(drafter))},
         "This drafter's slots propose the tokens beside those that are read off them (draft_shift, "
         "sample_from_anchor); check its own code."),
        ("rope", _other_bases(rig, drafter),
         "Use the rotary base of the checkpoint's config; here {best} fares better."))
    findings = []
    for check, ways, advice in tries:
        progress.begin(f"The drafter {name}: {check}.")
        findings.append(ways_finding((check, name), whole, marks_by_way(drafter, answers, ways), advice))
    options = drafter.model.config.dflash_config
    findings[0] = against_config(findings[0], tuple(rig.target.taps), tuple(options["target_layer_ids"]))
    findings[1] = against_config(findings[1], drafter.mask_id, options["mask_token_id"])
    return [*findings, _base_finding(rig, name, drafter, findings[-1]), _draft_finding(rig, name, drafter, answers),
            _vocabulary_finding(rig, name, drafter), confidence_finding(name, whole), positions_finding(name, whole)]


def _other_taps(rig: Rig) -> Ways:
    """The same taps in other orders, and their neighbours above and below."""
    taps, layers = rig.target.taps, len(rig.target.model.get_decoder().layers)
    orders = list(permutations(taps)) if len(taps) <= 3 else [
        (*taps[:place], taps[place + 1], taps[place], *taps[place + 2:]) for place in range(len(taps) - 1)]
    shifted = [tuple(tap + step for tap in taps) for step in (-1, 1)]
    ways = [way for way in [*orders[:MOST_ORDERS], *shifted] if all(0 <= tap < layers for tap in way)]
    return {f"layers {', '.join(map(str, way))}": (way, None) for way in ways if way != taps}


def _other_masks(rig: Rig, drafter: BlockDrafter) -> Ways:
    """The tokenizer's mask token and its other special tokens."""
    tokenizer, rows = rig.tokenizer, rig.target.embedding.weight.shape[0]
    ids = [tokenizer.mask_token_id, *tokenizer.all_special_ids, *tokenizer.added_tokens_decoder]
    kept = [token for token in dict.fromkeys(ids) if token is not None and token != drafter.mask_id and token < rows]
    return {f"token {token}": (rig.target.taps, _masked_with(drafter, token)) for token in kept[:8]}


def _masked_with(drafter: BlockDrafter, mask_id: int) -> Manner:
    def lay(roots: Tensor) -> Tensor:
        tokens = torch.full((len(roots), drafter.block), mask_id, device=roots.device)
        tokens[:, 0] = roots
        return tokens
    return Manner(lay, drafter.model.rotation)


def _masked_root(drafter: BlockDrafter) -> Manner:
    return Manner(lambda roots: torch.full((len(roots), drafter.block), drafter.mask_id, device=roots.device),
                  drafter.model.rotation)


def _shifted(drafter: BlockDrafter) -> Manner:
    return Manner(usual(drafter).lay, drafter.model.rotation, first_slot=1 - drafter.model.first_slot)


def _other_bases(rig: Rig, drafter: BlockDrafter) -> Ways:
    """The target's rotary base and the usual ones."""
    configured = _base(drafter.model.config)
    bases = [base for base in dict.fromkeys((_base(rig.target.config), *BASES)) if base and base != configured]
    return {f"base {base:g}": (rig.target.taps, _turned_by(drafter, base)) for base in bases}


def _base(config: object) -> float:
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta", 0.0))


def _turned_by(drafter: BlockDrafter, base: float) -> Manner:
    config = deepcopy(drafter.model.config)
    config.rope_parameters = {**(config.rope_parameters or {}), "rope_theta": base}
    embedding = Qwen3RotaryEmbedding(config).to(drafter.device)

    def rotation(positions: Tensor) -> tuple[Tensor, Tensor]:
        cosines, sines = embedding(drafter.model.norm.weight, positions[None])
        return cosines[0], sines[0]
    return Manner(usual(drafter).lay, rotation)


def _base_finding(rig: Rig, name: str, drafter: BlockDrafter, tried: DoctorFinding) -> DoctorFinding:
    """The finding on the rotary base: one unlike the target's is suspicious, unless the drafter does best with it."""
    base, target = _base(drafter.model.config), _base(rig.target.config)
    seen = f"The drafter's rotary base is {base:g}, the target's {target:g}."
    if base == target or tried.status == FINE:
        return DoctorFinding("rope base", name, FINE, seen)
    return DoctorFinding("rope base", name, SUSPICIOUS, seen, "Compare with the checkpoint's config.json.")


@torch.inference_mode()
def _draft_finding(rig: Rig, name: str, drafter: BlockDrafter, answers: Sequence[ReferenceAnswer]) -> DoctorFinding:
    """The finding on the draft: whether the loop's drafter proposes what its model does with the root in slot 0."""
    answer, every = answers[0], max(1, (len(answers[0].token_ids) - answers[0].start) // PLACES)
    read = answer.read(rig.target.taps, every)
    live, done = [], 0
    drafter.begin(len(answer.token_ids))
    for anchor in read.anchors.tolist():
        drafter.observe(answer.token_ids[done:anchor], read.features[done:anchor])
        live.append(_sureness(drafter.draft(int(answer.token_ids[anchor]), 1)))
        done = anchor
    drafter.release()

    def apart(manner: Manner) -> float:
        model = [_sureness(lattice) for lattice in proposals(drafter, read, 1, manner)]
        return float(np.abs(np.stack(model) - np.stack(live)).mean())
    gap, masked = apart(usual(drafter)), apart(_masked_root(drafter))
    seen = f"Its top probabilities in the loop are {gap:.3f} off those of its model after the root's embedding."
    if gap <= APART:
        return DoctorFinding("draft", name, FINE, seen)
    if masked <= APART:
        return DoctorFinding("slot 0", name, WRONG, f"{seen} With a mask token in slot 0 it is {masked:.3f}.",
                             "Put the committed root token into slot 0 of the block, not the mask token.")
    return DoctorFinding("draft", name, WRONG, seen, "The drafter's loop and its model differ: check the positions, "
                         "the context that it keeps, and that it drops the block's own keys each round.")


def _sureness(lattice: Lattice) -> Floats:
    """The probability of each token of the most likely chain, (depth,) float32."""
    return np.exp(best_cells(lattice)[1])


def _vocabulary_finding(rig: Rig, name: str, drafter: BlockDrafter) -> DoctorFinding:
    rows, known, configured = rig.target.embedding.weight.shape[0], len(rig.tokenizer), drafter.model.config.vocab_size
    seen = (f"The tokenizer knows {known} tokens, the target has {rows} rows, the drafter's config says {configured}; "
            f"its mask token is {drafter.mask_id}.")
    if known > rows or configured != rows or not 0 <= drafter.mask_id < rows:
        return DoctorFinding("vocabulary", name, WRONG, seen, "Drafter, tokenizer and target are not of one family: "
                             "fetch the three that belong together.")
    return DoctorFinding("vocabulary", name, FINE, seen)


def _dtype_finding(rig: Rig, other: Rig | None, name: str, answers: Sequence[ReferenceAnswer]) -> list[DoctorFinding]:
    """The finding on the dtype: the drafter in both dtypes on the same text; none without another rig."""
    if other is None:
        return []
    by_dtype: dict[str, Marks] = {}
    for one in (rig, other):
        drafter = one.drafters[name]
        again = [reread(one.target, text.token_ids.tolist(), text.start) for text in answers]
        assert isinstance(drafter, BlockDrafter)
        by_dtype[one.target.dtype] = chain_marks(drafter, again, one.target.taps)
    figures = {dtype: mark.accepted for dtype, mark in by_dtype.items()}
    listed = ", ".join(f"{value:.2f} in {dtype}" for dtype, value in figures.items())
    seen = f"Accepted draft tokens per round: {listed}."
    lost = 1 - min(figures.values()) / max(*figures.values(), 1e-9)
    if lost <= DTYPE_LOSS:
        return [DoctorFinding("dtype", name, FINE, seen)]
    return [DoctorFinding("dtype", name, SUSPICIOUS, seen, "Rounding costs acceptance: run it in the better one.")]
