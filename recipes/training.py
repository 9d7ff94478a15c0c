"""What every training run here has: its schedule, optimisers, arithmetic, checkpoint, and the facts for the card."""

from __future__ import annotations

import json
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

FACTS = "training.json"
BEFORE = "before.json"  # the facts of an earlier run whose weights this one began with
SUMMED = ("tokens_seen", "blocks_seen", "training_seconds")  # facts that are added to those of the earlier run
SAVE_EVERY = 50  # steps
Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Schedule:
    """How long a run is and how fast it learns: ``tokens``, then a finish of ``finish_tokens`` with other data."""

    tokens: int
    finish_tokens: int
    tokens_per_step: int
    matrix_rate: float
    other_rate: float
    weight_decay: float
    warmup_steps: int
    cooldown_share: float
    finish_rate: float

    @property
    def main_steps(self) -> int:
        """Steps before the finish."""
        return self.tokens // self.tokens_per_step

    @property
    def steps(self) -> int:
        """All steps, the finish included."""
        return self.main_steps + self.finish_tokens // self.tokens_per_step

    def rate_at(self, step: int) -> float:
        """Return the share of the full rate: warm up, hold, and fall linearly to 0. The finish repeats this from
        ``finish_rate``."""
        if step < self.main_steps:
            left = (self.main_steps - step) / (self.main_steps * self.cooldown_share)
            return min(1.0, (step + 1) / self.warmup_steps, left)
        into, whole = step - self.main_steps, self.steps - self.main_steps
        return self.finish_rate * min(1.0, (into + 1) / self.warmup_steps, (whole - into) / whole * 1.5)


def optimizers(model: nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the layers, AdamW for tables of tokens (embedding, codebooks), norms and
    kernels."""
    matrices, others = list[nn.Parameter](), list[nn.Parameter]()
    for name, value in model.named_parameters():
        table = "embed" in name or "codebook" in name
        (matrices if value.ndim == 2 and not table else others).append(value)
    return [
        torch.optim.Muon(matrices, lr=schedule.matrix_rate, weight_decay=schedule.weight_decay,
                         adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=schedule.other_rate, betas=(0.9, 0.98), weight_decay=0.0)]


def set_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set every group's rate to a share of its initial rate."""
    for group in optimizer.param_groups:
        group.setdefault("full_lr", group["lr"])
        group["lr"] = group["full_lr"] * share


@cache
def fast_dtype(device: str | torch.device = "cpu") -> torch.dtype:
    """Return the dtype that a training machine multiplies large matrices fastest in: bfloat16 on a GPU, measured on a
    CPU.

    Instructions do not tell: on processors with bfloat16 dot products but no tiles, 86 GFLOP/s a core against 150 of
    float32 were measured once, and 202 against 80 another time. Figures: ``LOG.md``."""
    if torch.device(device).type != "cpu":
        return torch.bfloat16
    return min((torch.float32, torch.bfloat16), key=product_seconds)


def product_seconds(dtype: torch.dtype) -> float:
    """Return the seconds of one product in the dtype on this CPU, the least of five."""
    rows, columns = torch.ones(128, 512, dtype=dtype), torch.ones(512, 1024, dtype=dtype)
    return min(timeit.repeat(lambda: rows @ columns, number=1, repeat=5))


def fast_products(device: str | torch.device = "cpu") -> torch.autocast:
    """Compute matrix products inside in that dtype."""
    dtype = fast_dtype(device)
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=dtype == torch.bfloat16)


@dataclass
class Run(Generic[Model]):
    """A training run in progress, and where it is kept."""

    model: Model
    optimizers: list[torch.optim.Optimizer]
    folder: Path
    step: int = 0
    seconds: float = 0.0

    @property
    def file(self) -> Path:
        """The file of the run's checkpoint."""
        return self.folder / "training.pt"

    def save(self) -> None:
        """Write the checkpoint such that a run killed meanwhile still finds the previous one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "step": self.step, "seconds": self.seconds,
                 "optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}
        partial = self.file.with_suffix(".part")
        torch.save(state, partial)
        partial.replace(self.file)

    def learn(self, loss: Tensor, rate_share: float) -> None:
        """Take a step with all optimisers at a share of their rates; now and then, write the checkpoint."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            set_rates(optimizer, rate_share)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        if self.step % SAVE_EVERY == 0:
            self.save()

    def resume(self) -> None:
        """Load the checkpoint, if there is one. It holds only tensors and numbers, so nothing in it is executed."""
        if not self.file.exists():
            return
        state: dict[str, Any] = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.step, self.seconds = state["step"], state["seconds"]


def train(run: Run[Model], schedule: Schedule, loss_of: Callable[[int], Tensor],
          for_the_finish: Callable[[], list[torch.optim.Optimizer]] | None = None) -> float:
    """Train to the schedule's last step by the loss of each step in nats, () float32; the running loss at the end.
    ``for_the_finish`` makes new optimisers for the finish."""
    running = 0.0
    with tqdm(total=schedule.steps, initial=run.step, unit="step", mininterval=5, desc=run.folder.name) as bar:
        while run.step < schedule.steps:
            began = time.perf_counter()
            if run.step == schedule.main_steps and for_the_finish:
                run.optimizers = for_the_finish()
            loss = loss_of(run.step)
            running = loss.item() if running == 0 else 0.95 * running + 0.05 * loss.item()
            run.learn(loss, schedule.rate_at(run.step))
            run.seconds += time.perf_counter() - began
            bar.set_postfix(loss=f"{running:.3f}")
            bar.update()
    run.save()
    return running


def write_facts(out: Path, run: Run[Any], recipe: Schedule, loss: float, before: dict[str, Any] | None,
                **more: Any) -> None:
    """Write what a run tells the model card; ``before``: the facts of the run whose weights this one began with, which
    are kept beside it."""
    facts = {"recipe": asdict(recipe), "parameters": sum(value.numel() for value in run.model.parameters()),
             "tokens_seen": run.step * recipe.tokens_per_step, "training_seconds": round(run.seconds),
             "final_loss_nats": round(loss, 4), **more}
    if before:
        facts |= {name: facts[name] + before[name] for name in SUMMED if name in before}
        (out / BEFORE).write_text(json.dumps(before, indent=1) + "\n")
    (out / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the facts that a training run has written about itself."""
    record: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf8"))
    return record
