"""Trains a block-diffusion drafter of the demo rig on the target's features.

    python -m recipes.drafter --drafter math
    python -m recipes.drafter --drafter code --go-on --work .training/own
    python -m recipes.drafter --drafter all --layout dflash2

The second command goes on from the exported drafter, with the target's own answers in place of the corpus'. The third
makes ``all2``: the same recipe, data and steps as ``all``, in the layout of DFlash 2.

Rows of packed conversations are read once by the frozen target. At random anchors inside the answers a block
[root, mask, …] is laid, and all blocks of a batch are denoised in one pass: a block sees the target's features before
its anchor, and itself. The loss of slot i counts exp(−(i − 1)/fall).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from engine.drafters.dflash.lattices import CandidateSelector
from engine.drafters.dflash.model import DFlashModel
from recipes.answers import OwnAnswers
from recipes.batches import Batch, Blocks, BlockShape, RowShape, block_mask, lay_blocks, make_batch
from recipes.corpus.mixture import DRAFTER_FINISH_SHARES, DRAFTER_OWN_SHARES, DRAFTER_SHARES, Shares
from recipes.training import Run, Schedule, fast_dtype, fast_products, optimizers, read_facts, train, write_facts

TAPS = (1, 4, 6)
BLOCK = BlockShape()
# After a million tokens of its own the code drafter had τ 4.6 where the math drafter had 6.8: its text is freer.
DRAFTER_TOKENS: Mapping[str, int] = MappingProxyType({"math": 4_000_000, "code": 10_000_000, "all": 5_000_000})
# The last part of a specialist's training mixes both domains equally. Without it the math drafter had 2.7 times the
# code drafter's τ on math, so routing and merging had little to decide.
FINISH_TOKENS: Mapping[str, int] = MappingProxyType({"math": 1_000_000, "code": 1_000_000, "all": 0})
OWN_TOKENS: Mapping[str, int] = MappingProxyType({"code": 1_600_000, "all": 3_000_000})  # of the target's own answers
# Config fields of each layout. Published DFlash 2 drafters have rank 256 for a hidden size of 5,120.
LAYOUTS: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "dflash": MappingProxyType({}),
    "dflash2": MappingProxyType({"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 64,
                                 "selector_top_k": 16})})
FIRST_SCALE = 0.3  # of the final norm: under the target's output head a random direction of full length costs 20 nats
MIN_MASS = 1e-3  # a smaller sum of weights is not divided by


@dataclass(frozen=True, kw_only=True)
class DrafterRecipe(Schedule):
    """All settings of a drafter's training run."""

    drafter: str
    finish_tokens: int = 0
    tokens_per_step: int = 3072
    row_length: int = 256
    anchors: int = 20
    matrix_rate: float = 4e-3
    other_rate: float = 4e-3
    weight_decay: float = 0.02
    warmup_steps: int = 20
    cooldown_share: float = 0.6
    finish_rate: float = 0.5
    answers: str = "corpus"  # or "target": its own, greedy
    layout: str = "dflash"

    @property
    def shape(self) -> RowShape:
        """Rows of a step, and tokens of a row."""
        return RowShape(self.tokens_per_step // self.row_length, self.row_length)

    def shares_at(self, step: int) -> Shares:
        """Return the domains of a step's items."""
        return DRAFTER_SHARES[self.drafter] if step < self.main_steps else self.finish_shares

    @property
    def finish_shares(self) -> Shares:
        """The domains of the finish; a drafter without others keeps its own."""
        last = DRAFTER_OWN_SHARES if self.answers == "target" else DRAFTER_FINISH_SHARES
        return last.get(self.drafter, DRAFTER_SHARES[self.drafter])


def guess_loss(logits: Tensor, labels: NDArray[np.int64], weights: NDArray[np.float32]) -> Tensor:
    """Return the weighted mean cross entropy in nats, () float32; logits (labels, vocabulary), labels and weights of
    any one shape."""
    loss: Tensor = CrossEntropies.apply(  # type: ignore[no-untyped-call]  # torch's
        logits, torch.from_numpy(labels).to(logits.device).flatten()[:, None], _shares(weights, logits.device))
    return loss


def transition_loss(selector: CandidateSelector, logits: Tensor, states: Tensor, blocks: Blocks) -> Tensor:
    """Return the weighted mean cross entropy in nats, () float32, of the selector's choice after the right predecessor,
    for logits (labels, vocabulary) and states (labels, hidden size) of all blocks' slots.

    A label that is not among the candidates takes the place of the last, as in speculators' training of DFlash 2.
    """
    labels = torch.from_numpy(blocks.labels).to(states.device)
    roots = torch.from_numpy(blocks.roots).to(states.device)
    predecessors = torch.cat([roots[..., None], labels[..., :-1]], -1).flatten()[:, None]
    labels = labels.flatten()[:, None]
    candidates = logits.detach().topk(selector.top_k, -1).indices
    missed = (candidates != labels).all(-1)
    candidates[missed, -1] = labels[missed, 0]
    scores = logits.gather(-1, candidates) + selector.edges(states, predecessors, candidates)[:, 0]
    losses = nn.functional.cross_entropy(
        scores.float(), (candidates == labels).int().argmax(-1), reduction="none")
    return (losses * _shares(blocks.weights, states.device)).sum()


def _shares(weights: NDArray[np.float32], device: torch.device) -> Tensor:
    """Return each weight's share of their sum, (labels,) float32."""
    flat = torch.from_numpy(weights).to(device).flatten()
    return flat / flat.sum().clamp_min(MIN_MASS)


class CrossEntropies(torch.autograd.Function):
    """Σ weight × cross entropy of logits (n, vocabulary) with labels (n, 1). Its derivative is made in the forward
    pass, in one tensor: torch's own takes four of that size, and a third of a step."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum, () float32."""
        whole = logits.float()
        norms = whole.logsumexp(-1)
        losses = norms - whole.gather(-1, labels)[:, 0]
        slope = whole.sub_(norms[:, None]).exp_() if whole is not logits else (whole - norms[:, None]).exp_()
        slope.scatter_add_(1, labels, slope.new_full(labels.shape, -1.0)).mul_(weights[:, None])
        ctx.save_for_backward(slope.to(logits.dtype))
        return (losses * weights).sum()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the logits, scaled by the incoming one; labels and weights have none."""
        (slope,) = ctx.saved_tensors
        return (slope * given[0], None, None)


class Trainee(nn.Module):
    """A drafter, the target's embedding, and the loss."""

    embedding: Tensor

    def __init__(self, drafter: DFlashModel, embedding: Tensor, mask_id: int) -> None:
        super().__init__()
        self.drafter, self.mask_id = drafter, mask_id
        self.register_buffer("embedding", embedding.clone())

    def forward(self, features: Tensor, blocks: Blocks) -> Tensor:
        """Return the weighted mean cross entropy over all blocks, in nats, () float32, with that of a selector beside
        it; features (rows, length, taps × hidden size)."""
        states, selector = self.denoise(features, blocks), self.drafter.candidate_selector
        logits = nn.functional.linear(states, self.embedding)
        loss = guess_loss(logits, blocks.labels, blocks.weights)
        return loss if selector is None else loss + transition_loss(selector, logits, states, blocks)

    def denoise(self, features: Tensor, blocks: Blocks) -> Tensor:
        """Return the normed hidden states of all masked slots, (rows × m × (slots − 1), hidden size)."""
        device = features.device
        roots, anchors = torch.from_numpy(blocks.roots).to(device), torch.from_numpy(blocks.anchors).to(device)
        (rows, length), count, slots = features.shape[:2], anchors.shape[1], blocks.slots
        tokens = torch.full((rows, count, slots), self.mask_id, device=device)
        tokens[:, :, 0] = roots
        positions = (anchors[:, :, None] + torch.arange(slots, device=device)).flatten(1)
        cosines, sines = self.drafter.rotary_emb(self.drafter.norm.weight, positions)
        everywhere = self.drafter.rotation(torch.arange(length, device=device))
        dtype = fast_dtype(device) if torch.is_autocast_enabled(device.type) else self.embedding.dtype
        context = self.drafter.context(features.to(dtype), everywhere)
        hidden = self.drafter(
            nn.functional.embedding(tokens.flatten(1), self.embedding), (cosines[:, None], sines[:, None]),
            context, block_mask(anchors, length, slots))
        masked: Tensor = self.drafter.norm(hidden.unflatten(1, (count, slots))[:, :, 1:].flatten(0, 2))
        return masked


def drafter_config(target: Qwen3Config, mask_id: int, layout: str = "dflash") -> Qwen3Config:
    """Configure three layers in a published layout: block size, taps and mask token are in the config."""
    config = Qwen3Config(
        vocab_size=target.vocab_size, hidden_size=target.hidden_size, intermediate_size=896, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=64, rope_theta=10_000.0,
        max_position_embeddings=target.max_position_embeddings, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=target.eos_token_id, pad_token_id=target.pad_token_id)
    config.architectures = ["DFlash2DraftModel" if LAYOUTS[layout] else "DFlashDraftModel"]
    config.block_size = BLOCK.slots
    config.num_target_layers = target.num_hidden_layers
    config.dflash_config = {"mask_token_id": mask_id, "target_layer_ids": list(TAPS), **LAYOUTS[layout]}
    return config


class Teacher:
    """The frozen target: features of whole rows, and the embedding and output head that the drafters share."""

    def __init__(self, model: Qwen3ForCausalLM) -> None:
        self.model = model.eval().requires_grad_(False)

    @torch.no_grad()
    def features(self, tokens: Tensor) -> Tensor:
        """Return the tapped features of tokens (rows, length): (rows, length, taps × hidden)."""
        states = self.model.model(input_ids=tokens, use_cache=False, output_hidden_states=True).hidden_states
        return torch.cat([states[layer + 1] for layer in TAPS], -1)  # state 0 is the embedding


def batches(recipe: DrafterRecipe, teacher: Teacher, tokenizer: PreTrainedTokenizerBase) -> Callable[[int], Batch]:
    """Return a function that makes the batch of a step."""
    if recipe.answers == "target":
        return OwnAnswers(teacher.model, tokenizer, recipe.finish_shares, recipe.shape, f"{recipe.drafter}-own").batch
    return lambda step: make_batch(recipe.shares_at(step), tokenizer, recipe.shape, f"{recipe.drafter}-{step}")


def losses(model: DFlashModel, recipe: DrafterRecipe, teacher: Teacher,
           tokenizer: PreTrainedTokenizerBase) -> Callable[[int], Tensor]:
    """Return a function that computes the loss of a step: fresh items, read by the target on the spot."""
    batch_of, device = batches(recipe, teacher, tokenizer), teacher.model.device
    trainee = Trainee(model, teacher.model.model.embed_tokens.weight.detach(), tokenizer.mask_token_id)

    def loss(step: int) -> Tensor:
        batch = batch_of(step)
        with fast_products(device):
            features = teacher.features(torch.from_numpy(batch.tokens).to(device))
            nats: Tensor = trainee(features, lay_blocks(batch, recipe.anchors, step, BLOCK))
        return nats
    return loss


def export_drafter(run: Run[DFlashModel], recipe: DrafterRecipe, out: Path, loss: float,
                   before: dict[str, Any] | None = None) -> None:
    """Write config.json and model.safetensors as public loaders read them, and the facts for the model card; ``before``
    as in ``target.export``."""
    out.mkdir(parents=True, exist_ok=True)
    run.model.config.save_pretrained(out)
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in run.model.state_dict().items()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    finish = {"finish_shares": dict(recipe.finish_shares)} if recipe.finish_tokens else {}
    write_facts(out, run, recipe, loss, before, blocks_seen=run.step * recipe.shape.rows * recipe.anchors,
                shares=dict(DRAFTER_SHARES[recipe.drafter]), **finish)


def main() -> None:
    """Train one drafter, or go on training it, and export it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", "--head", choices=list(DRAFTER_SHARES), required=True)
    parser.add_argument("--layout", choices=list(LAYOUTS), default="dflash",
                        help="dflash2: with convolutions and a candidate selector, written as DRAFTER2")
    parser.add_argument("--rig", type=Path, default=Path("assets/demo"))
    parser.add_argument("--work", type=Path, default=Path(".training"), help="where the checkpoint is kept")
    parser.add_argument("--tokens", type=int, help="tokens of conversations (default: DRAFTER_TOKENS)")
    parser.add_argument("--go-on", action="store_true",
                        help=f"begin with the drafter in --rig, on the target's answers ({', '.join(OWN_TOKENS)})")
    parser.add_argument("--finish-tokens", type=int, help="tokens of the run's last part, or of going on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if args.go_on and args.drafter not in OWN_TOKENS:
        parser.error(f"the drafter {args.drafter} does not go on; those that do are {', '.join(OWN_TOKENS)}")
    torch.manual_seed(0)
    name = args.drafter if args.layout == "dflash" else f"{args.drafter}2"
    out = args.rig / name
    tokenizer = AutoTokenizer.from_pretrained(args.rig / "target")
    target = Qwen3ForCausalLM.from_pretrained(args.rig / "target", dtype=torch.float32).to(args.device)
    usual = (OWN_TOKENS if args.go_on else FINISH_TOKENS)[args.drafter]
    finish = usual if args.finish_tokens is None else args.finish_tokens
    model, before = DFlashModel(drafter_config(target.config, tokenizer.mask_token_id, args.layout)), None
    if args.go_on:
        before = read_facts(out)
        recipe = DrafterRecipe(drafter=args.drafter, tokens=0, finish_tokens=finish, answers="target",
                               layout=args.layout)
        model.load_state_dict(load_file(out / "model.safetensors"))
    else:
        recipe = DrafterRecipe(drafter=args.drafter, tokens=args.tokens or DRAFTER_TOKENS[args.drafter],
                               finish_tokens=finish, layout=args.layout)
        nn.init.constant_(model.norm.weight, FIRST_SCALE)
    model = model.to(args.device)
    run = Run(model, optimizers(model, recipe), args.work / name)
    run.resume()
    loss = train(run, recipe, losses(model, recipe, Teacher(target), tokenizer), lambda: optimizers(model, recipe))
    export_drafter(run, recipe, out, loss, before)


if __name__ == "__main__":
    main()
