"""Trains the demo rig's language models: its target, a Qwen3 of eight layers for a few narrow domains, and a small one
of two layers, which drafts token by token for it.

    python -m recipes.target --out assets/demo/target --tokens 8000000
    python -m recipes.target --out assets/demo/target --go-on --tokens 0 --finish-tokens 1200000 \
        --finish-rate 0.12 --seed polish --work .training/polish
    python -m recipes.target --small --out assets/demo/small --work .training/small

Seeded, resumable (run it again with the same arguments), with a progress bar. The second command goes on from the
exported weights at a rate that the drafters, which were trained on the first one's features, do not feel.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from recipes.batches import RowShape, make_batch
from recipes.corpus.mixture import FINISH_SHARES, TARGET_SHARES, Shares
from recipes.training import Run, Schedule, fast_products, optimizers, read_facts, train, write_facts

CONTEXT = 1024
SHARED: Mapping[str, Any] = MappingProxyType({
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT, "rope_theta": 10_000.0,
    "tie_word_embeddings": True,
    "attn_implementation": "eager"})  # at rows this short the fused kernel's backward pass takes twice as long
LONG_EVERY = 6  # every sixth finishing step uses full-context rows, so that all positions are trained


@dataclass(frozen=True, kw_only=True)
class Recipe(Schedule):
    """All settings of a run of a language model."""

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

    def shape_at(self, step: int) -> RowShape:
        """Return rows just longer than an item; in the finish sometimes rows of the whole context."""
        long = step >= self.main_steps and step % LONG_EVERY == 0
        length = CONTEXT if long else self.row_length
        return RowShape(self.tokens_per_step // length, length)

    def shares_at(self, step: int) -> Shares:
        """Return the domains of a step's items."""
        return TARGET_SHARES if step < self.main_steps else FINISH_SHARES


SMALL = Recipe(tokens=2_400_000, finish_tokens=600_000, tokens_per_step=3072, matrix_rate=8e-3, other_rate=6e-3,
               weight_decay=0.02, seed="small")  # smaller steps: a small model learns more from many of them


def target_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3Config:
    """Return a config of 11 million parameters, tied embedding."""
    return Qwen3Config(**SHARED, **tokens_of(tokenizer), hidden_size=320, intermediate_size=1024, num_hidden_layers=8,
                       head_dim=64)


def small_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3Config:
    """Return a config of 0.9 million parameters, tied embedding."""
    return Qwen3Config(**SHARED, **tokens_of(tokenizer), hidden_size=160, intermediate_size=512, num_hidden_layers=2,
                       head_dim=32)


def tokens_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return what a config says of the tokenizer."""
    return {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None,
            "pad_token_id": tokenizer.pad_token_id}


def weighted_loss(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean cross entropy, in nats, of predicting tokens[:, 1:]: () float32. logits (rows, length,
    vocabulary), tokens and weights (rows, length)."""
    losses = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten(),
                                         reduction="none")
    weights = weights[:, 1:].flatten()
    return (losses * weights).sum() / weights.sum().clamp_min(1.0)


def losses(run: Run[Qwen3ForCausalLM], recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> Callable[[int], Tensor]:
    """Return the loss of each step, on fresh items."""
    compiled, device = torch.compile(run.model, dynamic=False), run.model.device

    def loss(step: int) -> Tensor:
        batch = make_batch(recipe.shares_at(step), tokenizer, recipe.shape_at(step), f"{recipe.seed}-{step}")
        tokens, weights = torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.weights).to(device)
        with fast_products(device):
            logits = compiled(input_ids=tokens, use_cache=False).logits  # type: ignore[no-untyped-call]
        return weighted_loss(logits, tokens, weights)
    return loss


def export(run: Run[Qwen3ForCausalLM], recipe: Recipe, out: Path, loss: float,
           before: dict[str, Any] | None = None) -> None:
    """Write the weights as bfloat16 safetensors, and the facts for the model card; ``before``: the facts of the
    weights that the run began with."""
    run.model.to(torch.bfloat16).save_pretrained(out, max_shard_size="14MB")
    write_facts(out, run, recipe, loss, before, torch=torch.__version__, shares=dict(TARGET_SHARES),
                finish_shares=dict(FINISH_SHARES))


def main() -> None:
    """Train, or go on training, and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("assets/demo/target"))
    parser.add_argument("--work", type=Path, default=Path(".training/target"), help="where the checkpoint is kept")
    parser.add_argument("--small", action="store_true", help="the small model, which has the target's tokenizer")
    parser.add_argument("--go-on", action="store_true", help="begin with the weights in --out")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--finish-tokens", type=int)
    parser.add_argument("--finish-rate", type=float)
    parser.add_argument("--seed")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(args.out.parent / "target" if args.small else args.out)
    given = {name: getattr(args, name) for name in ("tokens", "finish_tokens", "finish_rate", "seed")}
    recipe = replace(SMALL if args.small else Recipe(), **{
        name: value for name, value in given.items() if value is not None})
    config, before = (small_config if args.small else target_config)(tokenizer), None
    if args.go_on:
        before = read_facts(args.out)
        model = Qwen3ForCausalLM.from_pretrained(args.out, config=config, dtype=torch.float32)
    else:
        model = Qwen3ForCausalLM(config)
    model = model.to(args.device)
    run = Run(model, optimizers(model, recipe), args.work)
    run.resume()
    export(run, recipe, args.out, train(run, recipe, losses(run, recipe, tokenizer)), before)


if __name__ == "__main__":
    main()
