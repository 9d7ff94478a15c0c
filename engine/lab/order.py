"""The order in which a sweep measures, so that a machine that slows down or warms up favours no setting."""

from __future__ import annotations

from random import Random

from engine.lab.settings import Cell, SweepPlan

Block = tuple[int, int]  # prompt, repeat


def cells(plan: SweepPlan) -> list[Cell]:
    """Every cell once, in randomised blocks: a block is one prompt and repeat, and holds every setting, shuffled.

    Compared runs, the baseline's included, lie close together in time, and drift within a block affects all settings
    alike. All prompts come once before any comes again, so that a sweep that is stopped early has covered as many
    prompts as possible.
    """
    random = Random(plan.seed)
    found = []
    for repeat in range(plan.repeats):
        for prompt in random.sample(range(len(plan.prompts)), len(plan.prompts)):
            found += [Cell(prompt, setting, repeat) for setting in random.sample(plan.settings, len(plan.settings))]
    return found


def block(cell: Cell) -> Block:
    """The block that a cell belongs to: its cells are compared with each other, so one device measures them."""
    return cell.prompt, cell.repeat
