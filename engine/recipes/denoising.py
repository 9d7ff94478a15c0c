"""Trains block-diffusion drafters for any target: lessons, the loss, and the loop over them.

At random anchors inside the answers a block [root, mask, …] is laid, and all blocks of a batch are denoised in one
pass. A block sees the target's features before its anchor, and itself. The loss of slot i counts exp(−(i − 1)/fall).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from tqdm import tqdm

from engine.drafters.dflash.model import DFlashModel
from engine.recipes.arithmetic import fast_dtype, fast_products
from engine.recipes.blocks import Blocks, block_mask
from engine.recipes.guessing import guess_loss
from engine.recipes.target import Model, Run


@dataclass(frozen=True, eq=False)
class DenoisingStep:
    """One step's material: features (rows, length, taps × hidden size), and blocks."""

    features: Tensor
    blocks: Blocks


class Schedule(Protocol):
    """When a run ends, where its finish begins, and how fast it learns."""

    @property
    def main_steps(self) -> int:
        """Steps before the finish."""

    @property
    def steps(self) -> int:
        """Steps in all."""

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, as a share of the full rate."""


class Trainee(nn.Module):
    """A drafter, the target's embedding, and the loss."""

    embedding: Tensor

    def __init__(self, drafter: DFlashModel, embedding: Tensor, mask_id: int) -> None:
        super().__init__()
        self.drafter, self.mask_id = drafter, mask_id
        self.register_buffer("embedding", embedding.clone())

    def forward(self, lesson: DenoisingStep) -> Tensor:
        """The weighted mean cross entropy over all blocks of a lesson, in nats, () float32."""
        blocks = lesson.blocks
        return guess_loss(self.denoised(lesson.features, blocks), self.embedding, blocks.labels, blocks.weights)

    def denoised(self, features: Tensor, blocks: Blocks) -> Tensor:
        """Hidden states of all masked slots, (rows × m × (slots − 1), hidden size)."""
        place = features.device
        roots, anchors = torch.from_numpy(blocks.roots).to(place), torch.from_numpy(blocks.anchors).to(place)
        (rows, length), count, slots = features.shape[:2], anchors.shape[1], blocks.slots
        tokens = torch.full((rows, count, slots), self.mask_id, device=place)
        tokens[:, :, 0] = roots
        positions = (anchors[:, :, None] + torch.arange(slots, device=place)).flatten(1)
        cosines, sines = self.drafter.rotary_emb(self.drafter.norm.weight, positions)
        everywhere = self.drafter.rotation(torch.arange(length, device=place))
        dtype = fast_dtype(place) if torch.is_autocast_enabled(place.type) else self.embedding.dtype
        context = self.drafter.context(features.to(dtype), everywhere)
        hidden = self.drafter(
            nn.functional.embedding(tokens.flatten(1), self.embedding), (cosines[:, None], sines[:, None]),
            context, block_mask(anchors, length, slots))
        masked: Tensor = hidden.unflatten(1, (count, slots))[:, :, 1:].flatten(0, 2)
        return masked


@dataclass(frozen=True)
class Course:
    """A run's losses by step, its schedule, and new optimisers for the finish."""

    name: str
    schedule: Schedule
    loss: Callable[[int], Tensor]
    optimizers: Callable[[], list[torch.optim.Optimizer]]
    device: str = "cpu"


def train_drafter(run: Run[Model], course: Course) -> float:
    """Train to the schedule's last step; the running loss in nats at the end."""
    running, schedule = 0.0, course.schedule
    with tqdm(total=schedule.steps, initial=run.step, unit="step", mininterval=5, desc=course.name) as bar:
        while run.step < schedule.steps:
            began = time.perf_counter()
            if run.step == schedule.main_steps:
                run.begin_finish(course.optimizers())
            with fast_products(course.device):
                loss = course.loss(run.step)
            running = loss.item() if running == 0 else 0.95 * running + 0.05 * loss.item()
            run.learn(loss, schedule.rate_at(run.step))
            run.seconds += time.perf_counter() - began
            bar.set_postfix(loss=f"{running:.3f}")
            bar.update()
    run.save()
    return running
