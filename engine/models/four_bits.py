"""Weights of 4 bits, as many files store them: each output's weights in groups of 32, and each group's on at most 16
evenly spaced levels (as in Q4_0, Q4_1 and Q4_K of GGUF files).

A pass over a few rows spends its time reading weights, and 4 bits are a quarter of bfloat16's bytes. The levels are
found in the weights themselves, whatever file they came from. Inputs and steps are in bfloat16, sums in float32; a row
gives the same bits whatever rows are computed with it, so the text is exactly plain decoding's. A file's finer weights
are made to do so too (``Product.give_equal_bits``). Figures: ``LOG.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 32  # inputs that share a step and a lowest level
HIGHEST = 15  # levels are numbered from 0
MIDDLE = 8  # the level that the kernel counts from
LANES = 16  # the number of outputs has to be a multiple of it
ROUNDING = 2.0**-7  # of a group's largest weight: how far bfloat16 moves a weight and its group's ends by rounding
PACKED_BYTES = 0.5 + 4 / GROUP  # of a weight: its level's number, and its part of the group's scales
CACHE_DTYPE = torch.float64  # of keys and values beside such weights: see ``TorchTarget.cache_dtype``
CLEAR = 0.25  # of a step: where rounding moves weights further, one could lie on either of two levels


class Levels(NamedTuple):
    """A weight (outputs, inputs) as middle + (number − 8) × step: numbers (outputs, groups, 32) float32, whole, from 0
    to 15; scales (outputs, groups, 2) bfloat16, each group's step and middle."""

    numbers: Tensor
    scales: Tensor

    def dense(self) -> Tensor:
        """The weight (outputs, inputs), rounded to bfloat16."""
        steps, middle = self.scales.float().split(1, -1)
        return torch.addcmul(middle, self.numbers - MIDDLE, steps).flatten(1).to(torch.bfloat16)


class FourBits:
    """The product with a weight of 4 bits."""

    def __init__(self, levels: Levels) -> None:
        self._packed = torch._convert_weight_to_int4pack_for_cpu(levels.numbers.flatten(1).to(torch.int32), 1)
        self._scales = levels.scales.transpose(0, 1).contiguous()

    def __call__(self, inputs: Tensor) -> Tensor:
        """The product with inputs (rows, inputs) bfloat16: (rows, outputs) bfloat16."""
        return torch._weight_int4pack_mm_for_cpu(inputs, self._packed, GROUP, self._scales)


def levels_of(weight: Tensor) -> Levels | None:
    """The levels of a weight (outputs, inputs) of any float dtype; None where it does not lie on levels, or where no
    kernel serves its shape or device."""
    outputs, inputs = weight.shape
    if weight.device.type != "cpu" or inputs % GROUP or outputs % LANES:
        return None
    groups = weight.detach().float().reshape(-1, GROUP)
    levels = _spanned(groups, HIGHEST)  # enough for a file whose groups all use the lowest and the highest level
    left = torch.nonzero(~levels.fits)[:, 0]
    for count in range(HIGHEST - 1, 0, -1):
        if not len(left):
            break
        again = _spanned(groups[left], count)
        levels.numbers[left], levels.scales[left] = again.numbers, again.scales
        left = left[~again.fits]
    if len(left):
        return None
    return Levels(levels.numbers.view(outputs, -1, GROUP), levels.scales.to(torch.bfloat16).view(outputs, -1, 2))


class _Spanned(NamedTuple):
    """Groups (n, 32) read as if each spanned a given number of steps: numbers and scales (n, 2) float32 as in
    ``Levels``; and ``fits`` (n,) bool, whether a group lies on these levels, within bfloat16's rounding and without
    ambiguity."""

    numbers: Tensor
    scales: Tensor
    fits: Tensor


def _spanned(groups: Tensor, count: int) -> _Spanned:
    lowest, highest = torch.aminmax(groups, dim=-1, keepdim=True)
    steps = (highest - lowest).div_(count)
    numbers = (groups - lowest).div_(steps).nan_to_num_(0).round_()  # equal weights have no step
    off = torch.addcmul(lowest, numbers, steps).sub_(groups).abs_().amax(-1, keepdim=True)
    slack = torch.maximum(lowest.abs(), highest.abs()).mul_(ROUNDING)
    fits = (off <= slack) & ((slack <= CLEAR * steps) | (steps == 0))
    return _Spanned(numbers, torch.cat([steps, torch.add(lowest, steps, alpha=MIDDLE)], -1), fits[:, 0])
