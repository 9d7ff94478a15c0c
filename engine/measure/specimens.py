"""Texts of a target with the outputs of all its layers, on which the doctor runs a drafter in different manners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from engine.decoding.builders.chain import best_cells
from engine.drafters.abilities import BlockDrafter
from engine.drafters.dflash.positions import Manner, proposals
from engine.drafters.known_text import ReadText
from engine.lab.findings import Marks, marks
from engine.models.target import TorchTarget
from engine.records import Ask, Integers
from engine.serving.live import LiveRig
from engine.trace import committed_ids, gather

TOKENS = 96  # of each specimen's answer
ANCHORS = 160  # of all specimens together: enough to tell an eighth more from noise


@dataclass(frozen=True, eq=False)
class Specimen:
    """Prompt and greedy answer: token_ids (all,) int32; states, each layer's output before the final norm, (all,
    hidden size); the answer begins at ``start``."""

    token_ids: Integers
    states: tuple[Tensor, ...]
    start: int

    def read(self, taps: Sequence[int], every: int) -> ReadText:
        """The text as a drafter with these taps reads it, with an anchor at every ``every``-th position."""
        return ReadText(self.token_ids, torch.cat([self.states[tap] for tap in taps], -1), self.start, every)


def specimen(live: LiveRig, prompt: str) -> Specimen:
    """The target's own answer to a prompt as a specimen."""
    trace = gather(live.run(Ask(prompt, method="autoregressive", budget=0, max_tokens=TOKENS)))
    prompt_ids = trace.header.request.prompt_ids
    return reread_specimen(live.loaded.target, [
        *prompt_ids, *committed_ids(entry.round for entry in trace.entries)], len(prompt_ids))


@torch.inference_mode()
def reread_specimen(target: TorchTarget, token_ids: Sequence[int], start: int) -> Specimen:
    """Any text as a specimen of this target: the target reads it again with every layer tapped."""
    states: dict[int, Tensor] = {}
    layers: list[nn.Module] = list(target.model.base_model.layers)
    hooks = [layer.register_forward_hook(_keep(states, number)) for number, layer in enumerate(layers)]
    try:
        target.model(input_ids=torch.tensor([token_ids], device=target.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return Specimen(np.asarray(token_ids, np.int32), tuple(states[number] for number in range(len(layers))), start)


def _keep(states: dict[int, Tensor], number: int) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states[number] = (output if isinstance(output, Tensor) else output[0])[0]
    return hook


def stride(specimens: Sequence[Specimen]) -> int:
    """The distance between anchors at which the specimens together have about ``ANCHORS``."""
    return max(1, sum(len(each.token_ids) - each.start for each in specimens) // ANCHORS)


def chain_marks(drafter: BlockDrafter, specimens: Sequence[Specimen], taps: Sequence[int],
          manner: Manner | None = None) -> Marks:
    """The marks of the drafter's chains with these taps, run in this manner (by default its own)."""
    every = stride(specimens)
    chains, texts, beliefs = [], [], []
    for each in specimens:
        read = each.read(taps, every)
        for anchor, lattice in zip(read.anchors.tolist(), proposals(drafter, read, 1, manner), strict=True):
            following = np.full(lattice.depth, -1, np.int32)
            said = each.token_ids[anchor + 1:anchor + 1 + lattice.depth]
            following[:len(said)] = said
            tokens, logprobs = best_cells(lattice)
            chains.append(tokens)
            beliefs.append(np.exp(logprobs))
            texts.append(following)
    return marks(np.stack(chains), np.stack(texts), np.stack(beliefs))


def marks_by_way(drafter: BlockDrafter, specimens: Sequence[Specimen], ways: Mapping[str, tuple[
        Sequence[int], Manner | None]]) -> dict[str, Marks]:
    """The ``chain_marks`` of each way, which is taps and a manner, by its name."""
    return {name: chain_marks(drafter, specimens, taps, manner) for name, (taps, manner) in ways.items()}
