"""Finds out why τ is low: runs each drafter in the ways that are easily got wrong, and sees whether one does better.

Research notes, traps 1 to 6, 20 and 24. The measure is how much of each most likely chain the target's greedy text
accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import permutations

import numpy as np
import torch
from torch import Tensor
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.decoding.builders.chain import best_cells
from engine.drafters.abilities import BlockDrafter
from engine.drafters.dflash.positions import Manner, proposals, usual
from engine.lab.control import Steps
from engine.lab.findings import (
    FINE,
    SUSPICIOUS,
    WRONG,
    DoctorFinding,
    Marks,
    against_config,
    confidence_finding,
    positions_finding,
    ways_finding,
)
from engine.measure.specimens import Specimen, chain_marks, marks_by_way, reread_specimen, specimen
from engine.measure.target_findings import target_findings
from engine.records import Floats, Lattice
from engine.serving.live import LiveRig
from engine.serving.rigs import Rig

MOST_ORDERS = 6  # of taps: every order of three; of more taps only the first orders
PLACES = 8  # positions at which the drafter is called as the loop calls it
APART = 0.015  # in probability: rounding to bfloat16 gives 0.002, a wrong slot or context 0.04
DTYPE_LOSS = 0.05
CHECKS = 5  # how many checks run a drafter in another way than configured
BASES = (1e4, 5e5, 1e6, 1e7)  # rotary bases of published models

Ways = dict[str, tuple[Sequence[int], Manner | None]]


def diagnose(rig: Rig, prompts: Sequence[str], other: Rig | None = None,
             steps: Steps | None = None) -> list[DoctorFinding]:
    """All findings of a rig. ``other`` is the same rig in another dtype, for the dtype check; ``steps`` is told the
    progress."""
    live, steps = LiveRig(rig), steps or Steps()
    steps.expect(len(prompts))
    specimens = []
    for number, prompt in enumerate(prompts, start=1):
        steps.begin(f"The target answers prompt {number} of {len(prompts)}.")
        specimens.append(specimen(live, prompt))
    return examine(rig, specimens, other, steps)


def examine(rig: Rig, specimens: Sequence[Specimen], other: Rig | None = None,
            steps: Steps | None = None) -> list[DoctorFinding]:
    """All findings of a rig, over texts that the target has already written."""
    drafters = {name: drafter for name, drafter in rig.drafters.items() if isinstance(drafter, BlockDrafter)}
    steps = steps or Steps()
    steps.expect(1 + (CHECKS + 1) * len(drafters))
    steps.begin("The target is examined.")
    found = [*target_findings(rig, specimens)]
    for name, drafter in drafters.items():
        found += _drafter_findings(rig, (name, drafter), specimens, steps)
        found += _dtype_finding(rig, other, name, specimens)
    return found


def _drafter_findings(rig: Rig, named: tuple[str, BlockDrafter], specimens: Sequence[Specimen],
                      steps: Steps) -> list[DoctorFinding]:
    name, drafter = named
    steps.begin(f"The drafter {name} as it is configured.")
    own = chain_marks(drafter, specimens, rig.target.taps)
    tries: tuple[tuple[str, Ways, str], ...] = (
        ("taps", _other_taps(rig), "Take the taps from the checkpoint's config, as outputs of those layers; here "
         "{best} fares better."),
        ("mask token", _other_masks(rig, drafter), "Lay the block with the mask token of the checkpoint's config; here "
         "{best} fares better."),
        ("slot 0", {"slot 0 is a mask": (rig.target.taps, _masked_root(drafter))},
         "This drafter wants a mask in slot 0 and not the root's embedding; check its own code."),
        ("slots", {"a slot proposes the next token": (rig.target.taps, _shifted(drafter))},
         "This drafter's slots propose the token after them (draft_shift); read slots 0 to block − 2."),
        ("rope", _other_bases(rig, drafter),
         "Use the rotary base of the checkpoint's config; here {best} fares better."))
    found = []
    for check, ways, advice in tries:
        steps.begin(f"The drafter {name}: {check}.")
        found.append(ways_finding((check, name), own, marks_by_way(drafter, specimens, ways), advice))
    said = drafter.model.config.dflash_config
    found[0] = against_config(found[0], tuple(rig.target.taps), tuple(said["target_layer_ids"]))
    found[1] = against_config(found[1], drafter.mask_id, said["mask_token_id"])
    return [*found, _base_finding(rig, name, drafter, found[-1]), _draft_finding(rig, name, drafter, specimens),
            _vocabulary_finding(rig, name, drafter), confidence_finding(name, own), positions_finding(name, own)]


def _other_taps(rig: Rig) -> Ways:
    """The same taps in other orders, and their neighbours above and below."""
    taps, layers = rig.target.taps, len(rig.target.model.base_model.layers)
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
    return Manner(usual(drafter).lay, drafter.model.rotation, first_slot=0)


def _other_bases(rig: Rig, drafter: BlockDrafter) -> Ways:
    """The target's rotary base and the usual ones."""
    own = _base(drafter.model.config)
    bases = [base for base in dict.fromkeys((_base(rig.target.config), *BASES)) if base and base != own]
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
    own, target = _base(drafter.model.config), _base(rig.target.config)
    seen = f"The drafter's rotary base is {own:g}, the target's {target:g}."
    if own == target or tried.status == FINE:
        return DoctorFinding("rope base", name, FINE, seen)
    return DoctorFinding("rope base", name, SUSPICIOUS, seen, "Compare with the checkpoint's config.json.")


@torch.inference_mode()
def _draft_finding(rig: Rig, name: str, drafter: BlockDrafter, specimens: Sequence[Specimen]) -> DoctorFinding:
    """The finding on the draft: whether the loop's drafter proposes what its model does with the root in slot 0."""
    each, every = specimens[0], max(1, (len(specimens[0].token_ids) - specimens[0].start) // PLACES)
    read = each.read(rig.target.taps, every)
    live, done = [], 0
    drafter.begin(len(each.token_ids))
    for anchor in read.anchors.tolist():
        drafter.observe(each.token_ids[done:anchor], read.features[done:anchor])
        live.append(_sureness(drafter.draft(int(each.token_ids[anchor]), 1)))
        done = anchor
    drafter.release()

    def apart(manner: Manner) -> float:
        model = [_sureness(lattice) for lattice in proposals(drafter, read, 1, manner)]
        return float(np.abs(np.stack(model) - np.stack(live)).mean())
    own, masked = apart(usual(drafter)), apart(_masked_root(drafter))
    seen = f"Its top probabilities in the loop are {own:.3f} off those of its model after the root's embedding."
    if own <= APART:
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
    rows, known, own = rig.target.embedding.weight.shape[0], len(rig.tokenizer), drafter.model.config.vocab_size
    seen = (f"The tokenizer knows {known} tokens, the target has {rows} rows, the drafter's config says {own}; its "
            f"mask token is {drafter.mask_id}.")
    if known > rows or own != rows or not 0 <= drafter.mask_id < rows:
        return DoctorFinding("vocabulary", name, WRONG, seen, "Drafter, tokenizer and target are not of one family: "
                             "fetch the three that belong together.")
    return DoctorFinding("vocabulary", name, FINE, seen)


def _dtype_finding(rig: Rig, other: Rig | None, name: str, specimens: Sequence[Specimen]) -> list[DoctorFinding]:
    """The finding on the dtype: the drafter in both dtypes on the same text; none without another rig."""
    if other is None:
        return []
    marks: Mapping[str, Marks] = {}
    for each in (rig, other):
        drafter = each.drafters[name]
        again = [reread_specimen(each.target, text.token_ids.tolist(), text.start) for text in specimens]
        assert isinstance(drafter, BlockDrafter)
        marks = {**marks, each.target.dtype: chain_marks(drafter, again, each.target.taps)}
    figures = {dtype: found.accepted for dtype, found in marks.items()}
    said = ", ".join(f"{value:.2f} in {dtype}" for dtype, value in figures.items())
    seen = f"Accepted draft tokens per round: {said}."
    lost = 1 - min(figures.values()) / max(*figures.values(), 1e-9)
    if lost <= DTYPE_LOSS:
        return [DoctorFinding("dtype", name, FINE, seen)]
    return [DoctorFinding("dtype", name, SUSPICIOUS, seen, "Rounding costs acceptance: run it in the better one.")]
