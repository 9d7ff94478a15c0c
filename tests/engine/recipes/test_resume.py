"""A training run that is stopped and goes on ends where the one that was not stopped ends."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from engine.recipes.rates import optimizers, set_rates
from engine.recipes.target import Recipe, Run


def make_run(folder: Path) -> Run[nn.Sequential]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8))
    return Run(model, optimizers(model, Recipe()), folder)


def steps(run: Run[nn.Sequential], count: int) -> None:
    recipe = Recipe(tokens=6144 * 20)
    for _ in range(count):
        torch.manual_seed(run.step)
        run.model(torch.randn(4, 8)).pow(2).sum().backward()
        for optimizer in run.optimizers:
            set_rates(optimizer, recipe.rate_at(run.step))
            optimizer.step()
            optimizer.zero_grad()
        run.step += 1


def test_resume_equals_never_stopped(tmp_path: Path) -> None:
    whole, first = make_run(tmp_path / "whole"), make_run(tmp_path / "parts")
    steps(whole, 8)
    steps(first, 5)
    first.save()
    second = make_run(tmp_path / "parts")
    second.resume()
    assert second.step == 5
    steps(second, 3)
    for one, other in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_rates_warm_up_hold_and_fall_and_the_finish_does_so_again_from_lower() -> None:
    recipe = Recipe(tokens=6144 * 1000, finish_tokens=6144 * 300)
    rates = [recipe.rate_at(step) for step in range(recipe.steps)]
    first, finish = rates[:1000], rates[1000:]
    assert first[0] < 0.05 and max(first) == 1 and 0 < first[-1] < 0.01
    assert first[recipe.warmup_steps:500] == [1.0] * (500 - recipe.warmup_steps)
    assert max(finish) == recipe.finish_rate and finish[0] < 0.05 and 0 < finish[-1] < 0.01


def test_the_finish_leans_on_code_and_has_rows_of_the_whole_context() -> None:
    recipe = Recipe(tokens=6144 * 10, finish_tokens=6144 * 12)
    assert {recipe.shape_at(step).length for step in range(10)} == {256}
    assert {recipe.shape_at(step).length for step in range(10, 22)} == {256, 1024}
    assert recipe.shares_at(9)["math"] > recipe.shares_at(9)["code"] < recipe.shares_at(10)["code"]
