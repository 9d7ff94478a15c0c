"""The target: a causal language model from transformers as the loop's ``Target``."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.decoding.protocols import position_draws
from engine.decoding.tree import pack, path_to, root_only
from engine.errors import RequestError, RigError
from engine.models.cache import NO_TEXT, LayeredCache, ReusableText, TreeCache
from engine.models.device import WaitingPolicy, gpus_of, hardware, in_inference_mode
from engine.models.packed_linear import LevelsRule, PackedHead
from engine.models.passes import (
    FUSED_ARCHITECTURES,
    AnyCache,
    FusedPass,
    PassOutput,
    ReferencePass,
    concat_texts,
    fastest_pass,
    has_static_rope,
    longrope_switch_length,
)
from engine.models.penalties import LogitsAdjustment
from engine.models.recurrent import TreeMixer, wrap_recurrent_layers
from engine.models.rows import PassPart, PassRows, tree_rows
from engine.models.sampling import check_finite, choices, draw_tokens, most_likely, processed_logprobs, verification
from engine.records import Alternatives, DraftTree, Floats, Integers, PackedTree, Sampling, Verification
from engine.requests.rig_names import INT4

PROBE_PREFIX, PROBE_SIBLINGS, PROBE_DEPTH = 6, 12, 3  # tokens of ``largest_difference_nats``
PREFILL_ROWS = 256  # of one pass over a prompt; fewer are slower, because torch reorders bfloat16 weights in each pass
INT4_PREFILL_ROWS = 128  # passes of any size are as fast
UNLIMITED = 1 << 20  # positions, if a model has no limit
TOLERANCES_NATS = {torch.float32: 0.005}
COARSE_NATS = 0.5  # more than rounding to 16 bits changes in a batch of rows

NO_DRAWS = position_draws(0, 0)
NO_TOKENS = NO_TEXT.token_ids
NO_OUTPUT = PassOutput(torch.empty(0), torch.empty(0))


class TorchTarget:
    """A model from transformers with a preallocated KV cache, an ancestor mask, and taps on a few layers.

    ``taps`` are the numbers of the layers whose outputs, before the final norm, the drafters read.
    """

    def __init__(self, model: PreTrainedModel, taps: Sequence[int]) -> None:
        self.model = model.eval()
        self.taps = tuple(taps)
        self.config = model.config.get_text_config()
        self.device: torch.device = model.device  # looked up once: transformers searches its modules each time
        if self.device.type == "cuda":
            # cuDNN's attention makes a plan for every new length, and here the length is new in each round
            torch.backends.cuda.enable_cudnn_sdp(False)
        wrap_recurrent_layers(model)
        self.reference = ReferencePass(model, self.taps)
        self.fastest = fastest_pass(model, self.reference)
        self._in_four_bits = False
        self._waiting = WaitingPolicy() if self.device.type == "cpu" else None
        self._cache: AnyCache | None = None
        self._sampling = Sampling()
        self._draws = NO_DRAWS
        self._output = NO_OUTPUT
        self._adjustment: LogitsAdjustment | None = None
        self._drafted = NO_TOKENS  # of the last pass
        self._reusable_text: ReusableText | None = None  # the next prompt may reuse a prefix of it
        self._keep_text = False  # whether later prompts may reuse the next text
        self._reusable_ids: list[Integers] = []  # of the text in progress, for later prompts
        self._reusable_features: list[Tensor] = []
        self.cached_tokens = 0  # of the prompt, taken from an earlier text
        self.forced = 0  # last tokens of the next prompt that begin the answer: penalties count them as written
        self._interrupt: Callable[[], None] | None = None

    @property
    def context_limit(self) -> int:
        return positions_of(self.config)

    def positions_for(self, prompt_tokens: int) -> int:
        """See ``protocols.Target``. With longrope, a prompt shorter than the original length limits the text to it,
        because keys rotated with short and with long factors must not be mixed."""
        switch = longrope_switch_length(self.config)
        return self.context_limit if switch is None or prompt_tokens > switch else min(switch, self.context_limit)

    @property
    def dtype(self) -> str:
        return INT4 if self._in_four_bits else str(self.model.dtype).removeprefix("torch.")

    def enable_int4(self, rule: LevelsRule | None = None) -> bool:
        """Multiply with 4-bit weights, if the rule finds them (see ``PackedLinear``); return whether it does. Call it
        on a bfloat16 model before the first prompt."""
        with torch.inference_mode():
            self._in_four_bits = isinstance(self.fastest, FusedPass) and self.fastest.enable_int4(rule)
        return self._in_four_bits

    @cached_property
    def recurrent_layers(self) -> int:
        """How many layers keep one state instead of a cache row per token."""
        return sum(isinstance(module, TreeMixer) for module in self.model.modules())

    @property
    def hardware(self) -> str:
        return hardware(self.device, gpus_of(self.model))

    @property
    def embedding(self) -> nn.Embedding:
        """The input embedding, which block-diffusion drafters share."""
        embedding: nn.Embedding = self.model.get_input_embeddings()
        return embedding

    @property
    def head(self) -> nn.Linear:
        """The output head, which block-diffusion drafters share."""
        head: nn.Linear = self.model.get_output_embeddings()
        return head

    @cached_property
    def logits(self) -> PackedHead:
        """The output head in the processor's fastest layout; target and drafters share it."""
        return self.fastest.head if isinstance(self.fastest, FusedPass) else PackedHead(self.head)

    @in_inference_mode
    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling, start: int = 0) -> tuple[int, Tensor]:
        """See ``protocols.Target``. Features are (prompt tokens, taps × hidden size) on the device. The first position
        is ``start``."""
        size, reusable, keep = len(prompt_ids), self._reusable_text, self._keep_text
        self.release()  # a former text's cache leaves first
        try:
            self._cache = self._new_cache(size + rows)
        except RuntimeError as error:  # torch's out-of-memory error is one too
            raise RequestError(
                f"A cache of {size + rows} positions does not fit into memory; lower max tokens or the node budget."
            ) from error
        self._sampling = sampling
        self._adjustment = LogitsAdjustment(
            sampling, prompt_ids, self.config.vocab_size, self.forced) if sampling.adjusts else None
        self._draws = position_draws(sampling.seed, size + rows + 1)
        features = []
        self.cached_tokens = 0
        if reusable and (count := self.reusable_tokens(reusable, prompt_ids)):
            self._cache.load_prefix(reusable.slots, count)
            self.cached_tokens = count
            features.append(reusable.features[:count])
        features += self._read(prompt_ids, start)
        check_finite(float(self._output.logits.max()))
        logits = self._output.logits if self._adjustment is None else self._adjustment.adjust(self._output.logits)
        choice, _ = choices(logits, sampling, torch.from_numpy(self._draws[[size]]).to(self.device))
        tapped = concat_texts(features)
        if keep:
            self._reusable_ids, self._reusable_features = [np.asarray(prompt_ids, np.int32)], [tapped]
        return int(choice[0]), tapped

    def _read(self, prompt_ids: Sequence[int], start: int) -> Iterator[Tensor]:
        """Read what is not in the cache yet, in passes of ``_prefill_rows`` rows, and yield the features of each."""
        cache, forward = self._open_cache, self.fastest if self._in_four_bits else self.reference
        prompt = torch.tensor(prompt_ids[cache.length:], device=self.device)
        for tokens in prompt.split(self._prefill_rows or len(prompt)):
            count, first = len(tokens), start + cache.length
            # without a mask transformers' code makes its own, which recurrent layers need in the first pass
            visible = None if forward is self.reference and not cache.length else torch.ones(
                count, count, dtype=torch.bool, device=self.device).tril()
            rows = PassRows(tokens, torch.arange(first, first + count, device=self.device), visible)
            self._output = forward.prefill(PassPart(rows, cache, self._interrupt))
            cache.length += count
            yield self._output.tapped

    @cached_property
    def _prefill_rows(self) -> int | None:
        """Rows of a pass over a prompt; None if one pass must read the whole prompt, because layers keep a state or
        angles depend on the length."""
        if self.recurrent_layers or longrope_switch_length(self.config) or not has_static_rope(self.config):
            return None
        return INT4_PREFILL_ROWS if self._in_four_bits else PREFILL_ROWS

    def reuse_prefix(self, text: ReusableText = NO_TEXT, keep: bool = True) -> None:
        """Let the next prompt reuse the prefix that it shares with an earlier text; ``keep`` makes it reusable, too."""
        self._reusable_text, self._keep_text = text, keep and self._prefill_rows is not None

    def reusable_tokens(self, text: ReusableText, prompt_ids: Sequence[int]) -> int:
        """Return how many tokens of an earlier text a prompt can reuse, with the same bits as reading all of it. The
        last token is always read, for its logits."""
        limit = min(len(text.token_ids), len(prompt_ids) - 1)
        different = np.flatnonzero(text.token_ids[:limit] != np.asarray(prompt_ids[:limit]))
        equal = int(different[0]) if len(different) else limit
        return equal if self._in_four_bits else equal // PREFILL_ROWS * PREFILL_ROWS

    @in_inference_mode
    def reusable_text(self) -> ReusableText | None:
        """Return the prefix that a later text can reuse, as views, or None. In int4, whose bits do not depend on the
        pass, it includes the answer; otherwise only the prompt's full passes."""
        if self._cache is None or not self._reusable_ids:
            return None
        token_ids = np.concatenate(self._reusable_ids)
        count = len(token_ids) if self._in_four_bits else len(token_ids) // PREFILL_ROWS * PREFILL_ROWS
        features = concat_texts(self._reusable_features)[:count] if self.taps else self._reusable_features[0]
        return ReusableText(token_ids[:count], self._cache.first_slots(count), features) if count else None

    @in_inference_mode
    def verify_batch(self, forks: Sequence[Self], packed: Sequence[PackedTree]) -> list[Verification]:
        """See ``protocols.Target``. The reference pass takes one text at a time, so each fork then has its own pass."""
        if self._waiting:
            self._waiting.adapt()
        parts = [PassPart(fork._rows(tree), fork._open_cache, fork._interrupt)
                 for fork, tree in zip(forks, packed, strict=True)]
        outputs = self.fastest(parts)
        return [fork._recorded(part.rows, output, tree)
                for fork, part, output, tree in zip(forks, parts, outputs, packed, strict=True)]

    @in_inference_mode
    def look_ahead(self, block: Sequence[int], forward: FusedPass) -> tuple[int, Tensor]:
        """Run a causal pass over a block behind the committed rows, and keep nothing. Returns the choice after the
        block's first token, and the logits (rows, vocabulary)."""
        cache = self._open_cache
        assert isinstance(cache, TreeCache)
        tokens = torch.tensor(block[:cache.slots.shape[-2] - cache.length], device=self.device)
        rows = PassRows(tokens, torch.arange(cache.length, cache.length + len(tokens), device=self.device),
                        torch.ones(len(tokens), len(tokens), dtype=torch.bool, device=self.device).tril())
        logits = forward([PassPart(rows, cache, self._interrupt)])[0].logits
        # a NaN left in a free slot would reach the next pass, because a mask only multiplies by 0
        cache.slots[..., cache.length:cache.length + len(tokens), :] = 0
        first = logits[:1]
        if self._adjustment:
            first = self._adjustment.adjust(first, pack(root_only(block[0]), cache.length))
        draw = torch.from_numpy(self._draws[[cache.length + 1]]).to(self.device)
        return int(choices(first, self._sampling, draw)[0][0]), logits

    def fork(self, interrupt: Callable[[], None] | None = None) -> Self:
        """See ``protocols.Target``: the same weights and passes, with its own cache. ``interrupt`` is called before
        each layer, in its forks too; it raises to abort the pass."""
        other = copy(self)
        other.release()
        other._interrupt = interrupt or self._interrupt
        return other

    def _rows(self, packed: PackedTree) -> PassRows:
        draws = self._draws.take(packed.positions + 1) if self._sampling.temperature else NO_DRAWS
        return tree_rows(packed, draws, self.device, levels=self.recurrent_layers > 0)

    def _recorded(self, rows: PassRows, output: PassOutput, tree: PackedTree) -> Verification:
        """Return the record of a pass over a tree, and keep its output for ``commit``."""
        self._output, self._drafted = output, tree.tokens
        if self._adjustment is None:
            return verification(output.logits, self._sampling, rows)
        adjusted = self._adjustment.adjust(output.logits, tree)
        self._output = output._replace(logits=adjusted)
        return verification(output.logits, self._sampling, rows, adjusted)

    @in_inference_mode
    def commit(self, keep: Integers) -> Tensor:
        """See ``protocols.Target``. Features are (kept rows, taps × hidden size)."""
        self._committed_rows = on_device = torch.from_numpy(keep).to(self.device)
        self._open_cache.keep(keep, on_device)
        tokens = self._drafted.take(keep)
        if self._adjustment:
            self._adjustment.commit(tokens)
        features = self._output.tapped.index_select(0, on_device) if self.taps else self._output.tapped
        if self._in_four_bits and self._reusable_ids:
            self._reusable_ids.append(tokens)
            self._reusable_features.append(features)
        return features

    @in_inference_mode
    def alternatives(self, count: int) -> Alternatives:
        """Return the ``count`` most likely tokens after each row that the last ``commit`` kept."""
        return most_likely(self._output.logits.index_select(0, self._committed_rows), count)

    @in_inference_mode
    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        probabilities = processed_logprobs(self._output.logits[row:row + 1].float(), self._sampling)[0].exp()
        remaining = probabilities.clone()
        remaining[torch.from_numpy(tokens.astype(np.int64))] -= torch.from_numpy(masses).to(remaining.device)
        remaining.clamp_(min=0)
        weights = remaining if remaining.sum() > 0 else probabilities
        return int(draw_tokens(weights[None], torch.tensor([draw], device=weights.device))[0])

    def release(self) -> None:
        self._cache, self._reusable_text, self._keep_text = None, None, False
        self._output, self._reusable_ids, self._reusable_features = NO_OUTPUT, [], []

    def _new_cache(self, capacity: int) -> AnyCache:
        if self.fastest is self.reference:
            return LayeredCache(capacity, self.model.config)
        return TreeCache(self.config, capacity, self.embedding.weight)

    @property
    def _open_cache(self) -> AnyCache:
        if self._cache is None:
            raise RequestError("The run has ended and its cache is freed; start a new one.")
        return self._cache


def positions_of(config: Any) -> int:
    """Return how many positions a text of this model may have."""
    return int(getattr(config, "max_position_embeddings", None) or UNLIMITED)


def check_tree_verification(target: TorchTarget) -> None:
    """Raise RigError if a model of an unknown architecture predicts something else in a small tree pass than in plain
    passes, for example because it ignores position ids or the attention mask."""
    kind = target.config.model_type
    if kind in FUSED_ARCHITECTURES and has_static_rope(target.config):
        return
    starts = [0, longrope_switch_length(target.config) or 0]  # where the angles of long texts begin
    try:
        difference = float(np.max([largest_difference_nats(target, start) for start in dict.fromkeys(starts)]))
    except RequestError as error:
        raise RigError(str(error)) from error
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError, AssertionError) as error:
        if "pixel_values" in str(error):
            raise RigError(f"A {kind} reads no text without a picture; choose a target that does.") from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")
        raise RigError(f"A {kind} cannot be verified as a tree ({reason}); choose a target with standard "
                       "attention.") from error
    if not difference <= TOLERANCES_NATS.get(target.model.dtype, COARSE_NATS):
        if getattr(target.config, "is_decoder", True) is False:
            raise RigError(f"A {kind} reads texts in both directions, since its config.json has no is_decoder = true; "
                           "choose a target that writes.")
        raise RigError(f"A {kind} predicts something else in a tree than in a plain pass ({difference:.2f} nats "
                       "apart), so its text would change; choose a target with standard attention.")


@torch.inference_mode()
def largest_difference_nats(target: TorchTarget, start: int = 0) -> float:
    """Return the largest difference, in nats, between a tree pass and plain passes, of the top token's log probability
    and of the entropy at three nodes. The last path comes after many siblings, so that a mask which shows them gives a
    large difference. The text's first position is ``start``."""
    random = np.random.default_rng(0)
    token_limit = min(int(target.config.vocab_size), 1000)
    prompt = random.integers(0, token_limit, PROBE_PREFIX).tolist()
    tokens = random.integers(0, token_limit, 1 + PROBE_SIBLINGS + PROBE_DEPTH).astype(np.int32)
    parents = np.asarray(
        [0] * (PROBE_SIBLINGS + 1) + list(range(PROBE_SIBLINGS, PROBE_SIBLINGS + PROBE_DEPTH)), np.int32)
    tree = DraftTree(tokens, parents, np.zeros(len(tokens), np.float32), np.ones(len(tokens), np.int32))
    try:
        target.prefill(prompt, len(tokens), Sampling(), start)
        packed = pack(tree, PROBE_PREFIX)
        shifted = replace(packed, positions=packed.positions + np.int32(start))
        (verification,) = target.verify_batch([target], [shifted])
    finally:
        target.release()
    differences = []
    for node in (1, PROBE_SIBLINGS, len(tree) - 1):
        path = torch.tensor([[*prompt, *tokens[path_to(parents, node)].tolist()]], device=target.device)
        positions = torch.arange(start, start + path.shape[1], device=target.device)[None]
        position_kwargs = {"position_ids": positions} if start else {}  # from 0 on, the model counts by itself
        logits = target.model(input_ids=path, use_cache=False, **position_kwargs).logits
        logprobs = logits[0, -1].float().log_softmax(-1)
        entropy = float(torch.special.entr(logprobs.exp()).sum())
        differences += [abs(float(logprobs.max()) - float(verification.logprobs[node])),
                        abs(entropy - float(verification.entropy[node]))]
    return float(np.max(differences))  # unlike Python's max, NaN if one of them is
