"""The target: a causal language model of transformers behind the loop's ``Target`` protocol."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.draws import position_draws
from engine.errors import RequestError
from engine.records import Floats, Integers, PackedTree, Sampling, Verification
from engine.runtime.cache import TreeCache
from engine.runtime.sampling import chosen, drawn, processed, verification


class TorchTarget:
    """Transformers' own model code over a preallocated cache, an ancestor mask, and taps on a few layers.

    ``taps`` are layer numbers whose outputs, before the final norm, the drafters read; nothing else is kept.
    """

    def __init__(self, model: PreTrainedModel, taps: Sequence[int]) -> None:
        self.model = model.eval()
        self.taps = tuple(taps)
        self.config = model.config.get_text_config()
        self._tapped: dict[int, Tensor] = {}
        self._cache: TreeCache | None = None
        self._sampling = Sampling()
        self._draws = position_draws(0, 0)
        self._logits = torch.empty(0)
        for layer in self.taps:
            model.base_model.layers[layer].register_forward_hook(self._tap(layer))

    @property
    def context_limit(self) -> int:
        return int(self.config.max_position_embeddings)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def embedding(self) -> nn.Module:
        """The input embedding, which block-diffusion drafters share."""
        return self.model.get_input_embeddings()

    @property
    def head(self) -> nn.Module:
        """The output head, which block-diffusion drafters share."""
        return self.model.get_output_embeddings()

    @torch.inference_mode()
    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Tensor]:
        """See ``decode.Target``. Features are (prompt tokens, taps × hidden size) on the device."""
        size = len(prompt_ids)
        try:
            self._cache = TreeCache(self.config, size + rows, self.embedding.weight)
        except RuntimeError as error:  # torch's out-of-memory error is one too
            raise RequestError(
                f"A cache of {size + rows} positions does not fit into memory; lower max tokens or the node budget."
            ) from error
        self._sampling = sampling
        self._draws = position_draws(sampling.seed, self.context_limit + 1)
        tokens = torch.tensor([prompt_ids], device=self.device)
        positions = torch.arange(size, device=self.device)[None]
        logits = self._forward(tokens, positions, None, last=1)
        self._cache.length = size
        choice = chosen(logits, sampling, self._draws[[size]])
        return int(choice[0]), self._features(slice(0, size))

    @torch.inference_mode()
    def verify(self, packed: PackedTree) -> Verification:
        """See ``decode.Target``: one pass with the mask of paper 000, section 4.2."""
        rows = len(packed.tokens)
        tokens = torch.from_numpy(packed.tokens).to(self.device)[None].long()
        positions = torch.from_numpy(packed.positions).to(self.device)[None].long()
        mask = None if rows == 1 else self._mask(packed, self._open_cache.length)
        self._logits = self._forward(tokens, positions, mask, last=rows)
        choice = chosen(self._logits, self._sampling, self._draws[packed.positions + 1])
        return verification(self._logits, choice, self._sampling, packed)

    @torch.inference_mode()
    def commit(self, keep: Integers) -> Tensor:
        """See ``decode.Target``. Features are (kept rows, taps × hidden size)."""
        self._open_cache.keep(keep)
        return self._features(torch.from_numpy(keep.astype(np.int64)).to(self.device))

    @torch.inference_mode()
    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        """See ``acceptance.Residual``."""
        own = processed(self._logits[row:row + 1], self._sampling)[0].exp()
        left = own.clone()
        left[torch.from_numpy(tokens.astype(np.int64))] -= torch.from_numpy(masses).to(left.device)
        left.clamp_(min=0)
        weights = left if left.sum() > 0 else own
        return int(drawn(weights[None], torch.tensor([draw], device=weights.device))[0])

    def release(self) -> None:
        """Free the cache and what the last pass left."""
        self._cache = None
        self._tapped.clear()
        self._logits = torch.empty(0)

    @property
    def _open_cache(self) -> TreeCache:
        if self._cache is None:
            raise RequestError("The run has ended and its cache is freed; start a new one.")
        return self._cache

    def _tap(self, layer: int):  # type: ignore[no-untyped-def]
        def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            self._tapped[layer] = output if isinstance(output, Tensor) else output[0]
        return keep

    def _features(self, rows: slice | Tensor) -> Tensor:
        return torch.cat([self._tapped[layer][0, rows] for layer in self.taps], -1) if self.taps else torch.empty(0)

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None, last: int) -> Tensor:
        kinds = set(getattr(self.config, "layer_types", None) or ["full_attention"])
        output = self.model(
            input_ids=tokens, position_ids=positions, attention_mask=dict.fromkeys(kinds, mask),
            past_key_values=self._cache, use_cache=True, logits_to_keep=last)
        return output.logits[0].float()

    def _mask(self, packed: PackedTree, prefix: int) -> Tensor:
        """Additive mask (1, 1, rows, prefix + rows): 0 where a row sees, −inf elsewhere.

        Ancestors are set by climbing all rows at once, so the work grows with depth, not with rows.
        """
        rows = len(packed.parents)
        seen = np.zeros((rows, rows), np.bool_)
        index = np.arange(rows)
        climb, above = index, packed.parents
        seen[index, index] = True
        while not np.array_equal(climb, above):
            climb, above = above, packed.parents[above]
            seen[index, climb] = True
        mask = torch.zeros(rows, prefix + rows, dtype=self.model.dtype, device=self.device)
        mask[:, prefix:].masked_fill_(torch.from_numpy(~seen).to(self.device), -torch.inf)
        return mask[None, None]
