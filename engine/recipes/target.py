"""Trains the demo rig's target: a Qwen3 of eight layers for a few narrow domains.

    python -m engine.recipes.target --out assets/demo/target --tokens 8000000
    python -m engine.recipes.target --out assets/demo/target --go-on --tokens 0 --finish-tokens 1200000 \
        --finish-rate 0.12 --seed polish --work .training/polish

Seeded, resumable (run it again with the same arguments), with a progress bar. The second command goes on from the
exported weights at a rate that the drafters, which were trained on the first one's features, do not feel.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from engine.recipes.arithmetic import fast_products
from engine.recipes.batches import Batch, RowShape, make_batch
from engine.recipes.corpus.mixture import FINISH_SHARES, TARGET_SHARES, Shares
from engine.recipes.rates import optimizers, set_rates

CONTEXT = 1024
BEFORE = "before.json"  # the facts of an earlier run whose weights this one began with
SUMMED = ("tokens_seen", "blocks_seen", "training_seconds")  # facts that are added to those of the earlier run
SAVE_EVERY = 50  # steps
LONG_EVERY = 6  # one step of the finish in so many has rows of the whole context, so that every position is trained
Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Recipe:
    """All settings of a training run."""

    tokens: int = 8_000_000
    finish_tokens: int = 2_400_000
    tokens_per_step: int = 6144
    row_length: int = 256
    matrix_rate: float = 4e-3
    other_rate: float = 4e-3
    weight_decay: float = 0.05
    warmup_steps: int = 40
    cooldown_share: float = 0.5
    finish_rate: float = 0.6
    seed: str = "target"

    @property
    def main_steps(self) -> int:
        """Steps before the finish."""
        return self.tokens // self.tokens_per_step

    @property
    def steps(self) -> int:
        """All steps, the finish included."""
        return self.main_steps + self.finish_tokens // self.tokens_per_step

    def shape_at(self, step: int) -> RowShape:
        """Rows just longer than an item, and in the finish now and then rows of the whole context."""
        long = step >= self.main_steps and step % LONG_EVERY == 0
        length = CONTEXT if long else self.row_length
        return RowShape(self.tokens_per_step // length, length)

    def shares_at(self, step: int) -> Shares:
        """The domains of a step's items."""
        return TARGET_SHARES if step < self.main_steps else FINISH_SHARES

    def rate_at(self, step: int) -> float:
        """Share of the full rate: warm up, hold, and fall linearly to nothing; the finish again, from lower."""
        if step < self.main_steps:
            left = (self.main_steps - step) / (self.main_steps * self.cooldown_share)
            return min(1.0, (step + 1) / self.warmup_steps, left)
        into, whole = step - self.main_steps, self.steps - self.main_steps
        return self.finish_rate * min(1.0, (into + 1) / self.warmup_steps, (whole - into) / whole * 1.5)


def target_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3Config:
    """11 million parameters, tied embedding."""
    return Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=320, intermediate_size=1024, num_hidden_layers=8,
        num_attention_heads=6, num_key_value_heads=2, head_dim=64, max_position_embeddings=CONTEXT,
        rope_theta=10_000.0, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        attn_implementation="eager")  # at rows this short the fused kernel's backward pass takes twice as long


def weighted_loss(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean cross entropy, in nats, of predicting tokens[:, 1:]: () float32. logits (rows, length,
    vocabulary), tokens and weights (rows, length)."""
    losses = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten(),
                                         reduction="none")
    weights = weights[:, 1:].flatten()
    return (losses * weights).sum() / weights.sum().clamp_min(1.0)


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
        state = {"model": self.model.state_dict(), "optimizers": [each.state_dict() for each in self.optimizers],
                 "step": self.step, "seconds": self.seconds}
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

    def begin_finish(self, optimizers: list[torch.optim.Optimizer]) -> None:
        """Switch to the finish, with other data and new optimisers."""
        self.optimizers = optimizers

    def resume(self) -> None:
        """Load the checkpoint, if there is one. It holds only tensors and numbers, so nothing in it is executed."""
        if not self.file.exists():
            return
        state: dict[str, Any] = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.step, self.seconds = state["step"], state["seconds"]


def batch_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """A batch's tokens (rows, length) int64 and weights (rows, length) float32 on the device."""
    return torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.weights).to(device)


def train(run: Run[Qwen3ForCausalLM], recipe: Recipe, tokenizer: PreTrainedTokenizerBase,
          device: torch.device) -> float:
    """Train to the recipe's last step; the running loss in nats at the end."""
    compiled = torch.compile(run.model, dynamic=False)
    running = 0.0
    with tqdm(total=recipe.steps, initial=run.step, unit="step", mininterval=5) as bar:
        while run.step < recipe.steps:
            began = time.perf_counter()
            batch = make_batch(
                recipe.shares_at(run.step), tokenizer, recipe.shape_at(run.step), f"{recipe.seed}-{run.step}")
            tokens, weights = batch_tensors(batch, device)
            with fast_products(device):
                logits = compiled(input_ids=tokens, use_cache=False).logits  # type: ignore[no-untyped-call]
            loss = weighted_loss(logits, tokens, weights)
            running = loss.item() if running == 0 else 0.95 * running + 0.05 * loss.item()
            run.learn(loss, recipe.rate_at(run.step))
            run.seconds += time.perf_counter() - began
            bar.set_postfix(loss=f"{running:.3f}")
            bar.update()
    run.save()
    return running


def export(run: Run[Qwen3ForCausalLM], recipe: Recipe, out: Path, loss: float,
           before: dict[str, Any] | None = None) -> None:
    """The weights in bfloat16 safetensors shards, and what the model card needs to know; ``before`` is what it was told
    of the weights that the run began with."""
    model = run.model.to(torch.bfloat16)
    model.save_pretrained(out, max_shard_size="14MB")
    facts: dict[str, Any] = {
        "recipe": asdict(recipe), "parameters": sum(value.numel() for value in model.parameters()),
        "tokens_seen": run.step * recipe.tokens_per_step, "training_seconds": round(run.seconds),
        "final_loss_nats": round(loss, 4), "torch": torch.__version__, "shares": dict(TARGET_SHARES),
        "finish_shares": dict(FINISH_SHARES)}
    write_facts(out, facts, before)


def write_facts(out: Path, facts: dict[str, Any], before: dict[str, Any] | None) -> None:
    """What a run tells the model card; where it went on from another, what that one told, and the sums of both."""
    if before:
        facts |= {name: facts[name] + before[name] for name in SUMMED if name in before}
        (out / BEFORE).write_text(json.dumps(before, indent=1) + "\n")
    (out / "training.json").write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    """Train, or go on training, and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("assets/demo/target"))
    parser.add_argument("--work", type=Path, default=Path(".training/target"), help="where the checkpoint is kept")
    parser.add_argument("--go-on", action="store_true", help="begin with the weights in --out")
    parser.add_argument("--tokens", type=int, default=Recipe.tokens)
    parser.add_argument("--finish-tokens", type=int, default=Recipe.finish_tokens)
    parser.add_argument("--finish-rate", type=float, default=Recipe.finish_rate)
    parser.add_argument("--seed", default=Recipe.seed)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    choice = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(choice.out)
    recipe = Recipe(tokens=choice.tokens, finish_tokens=choice.finish_tokens, finish_rate=choice.finish_rate,
                    seed=choice.seed)
    config, before = target_config(tokenizer), None
    if choice.go_on:
        before = json.loads((choice.out / "training.json").read_text())
        model = Qwen3ForCausalLM.from_pretrained(choice.out, config=config, dtype=torch.float32)
    else:
        model = Qwen3ForCausalLM(config)
    model = model.to(choice.device)
    run = Run(model, optimizers(model, recipe), choice.work)
    run.resume()
    loss = train(run, recipe, tokenizer, torch.device(choice.device))
    export(run, recipe, choice.out, loss, before)


if __name__ == "__main__":
    main()
