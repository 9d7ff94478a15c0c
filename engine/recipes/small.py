"""Trains the demo rig's small language model: two layers that draft token by token for the target.

    python -m engine.recipes.small --out assets/demo/small

The target's tokenizer, chat template and corpus, a twelfth of its parameters. One command, seeded, resumable (run it
again with the same arguments), with a progress bar.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from engine.recipes.rates import optimizers
from engine.recipes.target import CONTEXT, Recipe, Run, export, train


@dataclass(frozen=True)
class SmallRecipe(Recipe):
    """The target's schedule over fewer tokens, in smaller steps: a small model learns more from many of them."""

    tokens: int = 2_400_000
    finish_tokens: int = 600_000
    tokens_per_step: int = 3072
    matrix_rate: float = 8e-3
    other_rate: float = 6e-3
    weight_decay: float = 0.02
    seed: str = "small"


def small_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3Config:
    """0.9 million parameters, tied embedding."""
    return Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=160, intermediate_size=512, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=32, max_position_embeddings=CONTEXT,
        rope_theta=10_000.0, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        attn_implementation="eager")  # as the target: at rows this short the fused backward pass is slower


def main() -> None:
    """Train, or go on training, and export the model beside the tokenizer it shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("assets/demo/small"))
    parser.add_argument("--tokenizer", type=Path, default=Path("assets/demo/target"), help="the target's folder")
    parser.add_argument("--work", type=Path, default=Path(".training/small"), help="where the checkpoint is kept")
    parser.add_argument("--tokens", type=int, default=SmallRecipe.tokens)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    choice = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(choice.tokenizer)
    recipe = SmallRecipe(tokens=choice.tokens)
    model = Qwen3ForCausalLM(small_config(tokenizer)).to(choice.device)
    run = Run(model, optimizers(model, recipe), choice.work)
    run.resume()
    loss = train(run, recipe, tokenizer, torch.device(choice.device))
    export(run, recipe, choice.out, loss)


if __name__ == "__main__":
    main()
