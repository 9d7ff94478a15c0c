"""The target: a causal language model from transformers as the loop's ``Target``."""

from collections.abc import Callable, Sequence
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
from engine.models.cache import LayeredCache, TreeCache
from engine.models.device import WaitingPolicy, gpus_of, hardware, in_inference_mode
from engine.models.packed_linear import LevelsRule, PackedHead
from engine.models.passes import (
    KNOWN,
    AnyCache,
    FusedPass,
    PassOutput,
    PassPart,
    ReferencePass,
    fastest_pass,
    is_steady,
    length_of_switch,
)
from engine.models.penalties import LogitsAdjustment
from engine.models.recurrent import TreeMixer, take_trees
from engine.models.rows import PassRows, tree_rows
from engine.models.sampling import choices, draw_tokens, must_be_numbers, processed_logprobs, verification
from engine.records import DraftTree, Floats, Integers, PackedTree, Sampling, Verification
from engine.requests.rig_names import FOUR_BITS

PREFIX, SIBLINGS, DEPTH = 6, 12, 3
UNLIMITED = 1 << 20  # positions, if a model has no limit of its own
TOLERANCES_NATS = {torch.float32: 0.005}
COARSE_NATS = 0.5  # more than rounding to 16 bits changes in a batch of rows

NO_DRAWS = position_draws(0, 0)
NO_TOKENS = np.zeros(0, np.int32)
NOTHING = PassOutput(torch.empty(0), torch.empty(0))


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
        take_trees(model)
        self.reference = ReferencePass(model, self.taps)
        self.fastest = fastest_pass(model, self.reference)
        self._in_four_bits = False
        self._waiting = WaitingPolicy() if self.device.type == "cpu" else None
        self._cache: AnyCache | None = None
        self._sampling = Sampling()
        self._draws = NO_DRAWS
        self._output = NOTHING
        self._adjustment: LogitsAdjustment | None = None
        self._drafted = NO_TOKENS  # of the last pass
        self._interrupt: Callable[[], None] | None = None

    @property
    def context_limit(self) -> int:
        return positions_of(self.config)

    def positions_for(self, prompt_tokens: int) -> int:
        """See ``protocols.Target``. With longrope, a text whose prompt is shorter than the original length ends at it,
        because keys rotated with short and long factors must not be mixed."""
        switch = length_of_switch(self.config)
        return self.context_limit if switch is None or prompt_tokens > switch else min(switch, self.context_limit)

    @property
    def dtype(self) -> str:
        """The name of its weights' dtype."""
        return FOUR_BITS if self._in_four_bits else str(self.model.dtype).removeprefix("torch.")

    def enable_int4(self, rule: LevelsRule | None = None) -> bool:
        """Multiply with 4-bit weights, found by the rule (see ``PackedLinear``), without unpacking them; return whether
        the weights are 4-bit. Needs a model in bfloat16, and has to be called before the first prompt."""
        with torch.inference_mode():
            self._in_four_bits = isinstance(self.fastest, FusedPass) and self.fastest.enable_int4(rule)
        return self._in_four_bits

    @cached_property
    def recurrent_layers(self) -> int:
        """How many of its layers keep a state instead of a row for every position."""
        return sum(isinstance(module, TreeMixer) for module in self.model.modules())

    @property
    def hardware(self) -> str:
        """The name of the hardware it runs on."""
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
        """The output head as a product in the layout that the processor reads fastest; target and drafters share it."""
        return self.fastest.head if isinstance(self.fastest, FusedPass) else PackedHead(self.head)

    @in_inference_mode
    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling, start: int = 0) -> tuple[int, Tensor]:
        """See ``protocols.Target``. Features are (prompt tokens, taps × hidden size) on the device. The first position
        is ``start``."""
        size, self._cache = len(prompt_ids), None  # a former text's cache leaves first
        try:
            self._cache = self._new_cache(size + rows)
        except RuntimeError as error:  # torch's out-of-memory error is one too
            raise RequestError(
                f"A cache of {size + rows} positions does not fit into memory; lower max tokens or the node budget."
            ) from error
        self._sampling = sampling
        self._adjustment = LogitsAdjustment(sampling, prompt_ids, self.config.vocab_size) if sampling.adjusts else None
        self._draws = position_draws(sampling.seed, size + rows + 1)
        prompt = torch.tensor(prompt_ids, device=self.device)
        positions = torch.arange(start, start + size, device=self.device)
        self._output = self.reference.prefill(
            PassPart(PassRows(prompt, positions), self._cache, self._interrupt))
        self._cache.length = size
        must_be_numbers(float(self._output.logits.max()))
        logits = self._output.logits if self._adjustment is None else self._adjustment.adjust(self._output.logits)
        choice, _ = choices(logits, sampling, torch.from_numpy(self._draws[[size]]).to(self.device))
        return int(choice[0]), self._output.tapped

    def verify(self, packed: PackedTree) -> Verification:
        """See ``protocols.Target``: one pass with the mask of paper 000, section 4.2."""
        return self.verify_batch([self], [packed])[0]

    @in_inference_mode
    def verify_batch(self, forks: Sequence[Self], packed: Sequence[PackedTree]) -> list[Verification]:
        """Where only the reference forward pass serves the model, each fork has a pass of its own."""
        if self._waiting:
            self._waiting.adapt()
        parts = [PassPart(fork._rows(tree), fork._open_cache, fork._interrupt)
                 for fork, tree in zip(forks, packed, strict=True)]
        outputs = self.fastest(parts)
        return [fork._recorded(part.rows, output, tree)
                for fork, part, output, tree in zip(forks, parts, outputs, packed, strict=True)]

    @in_inference_mode
    def look_ahead(self, block: Sequence[int], forward: FusedPass) -> tuple[int, Tensor]:
        """The choice after the first token of a block, and the logits (rows, vocabulary) of a causal pass over the
        block behind the committed rows, none of which is kept. A block is cut to the rows that the cache has left."""
        cache = self._open_cache
        assert isinstance(cache, TreeCache)
        tokens = torch.tensor(block[:cache.slots.shape[-2] - cache.length], device=self.device)
        rows = PassRows(tokens, torch.arange(cache.length, cache.length + len(tokens), device=self.device),
                        torch.ones(len(tokens), len(tokens), dtype=torch.bool, device=self.device).tril())
        logits = forward([PassPart(rows, cache, self._interrupt)])[0].logits
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
        """The record of a pass over a tree, whose output is kept for ``commit``."""
        self._output = output
        if self._adjustment is None:
            return verification(output.logits, self._sampling, rows)
        adjusted = self._adjustment.adjust(output.logits, tree)
        record = verification(output.logits, self._sampling, rows, adjusted)
        self._output, self._drafted = output._replace(logits=adjusted), tree.tokens
        return record

    @in_inference_mode
    def commit(self, keep: Integers) -> Tensor:
        """See ``protocols.Target``. Features are (kept rows, taps × hidden size)."""
        on_device = torch.from_numpy(keep).to(self.device)
        self._open_cache.keep(keep, on_device)
        if self._adjustment:
            self._adjustment.commit(self._drafted.take(keep))
        return self._output.tapped.index_select(0, on_device) if self.taps else self._output.tapped

    @in_inference_mode
    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        probabilities = processed_logprobs(self._output.logits[row:row + 1].float(), self._sampling)[0].exp()
        left = probabilities.clone()
        left[torch.from_numpy(tokens.astype(np.int64))] -= torch.from_numpy(masses).to(left.device)
        left.clamp_(min=0)
        weights = left if left.sum() > 0 else probabilities
        return int(draw_tokens(weights[None], torch.tensor([draw], device=weights.device))[0])

    def release(self) -> None:
        """Free the cache and the last pass's output."""
        self._cache = None
        self._output = NOTHING

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
    """How many positions a text of this model may have."""
    return int(getattr(config, "max_position_embeddings", None) or UNLIMITED)


def must_verify_trees(target: TorchTarget) -> None:
    """Check unknown architectures: a small tree pass must predict what plain passes predict. Raises RigError if not,
    for example because the model ignores position ids or the attention mask."""
    kind = target.config.model_type
    if kind in KNOWN and is_steady(target.config):
        return
    starts = [0, length_of_switch(target.config) or 0]  # where the angles of long texts begin
    try:
        apart = float(np.max([largest_difference_nats(target, start) for start in dict.fromkeys(starts)]))
    except RequestError as error:
        raise RigError(str(error)) from error
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError, AssertionError) as error:
        if "pixel_values" in str(error):
            raise RigError(f"A {kind} reads no text without a picture; choose a target that does.") from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")
        raise RigError(f"A {kind} cannot be verified as a tree ({reason}); choose a target with standard "
                       "attention.") from error
    if not apart <= TOLERANCES_NATS.get(target.model.dtype, COARSE_NATS):
        if getattr(target.config, "is_decoder", True) is False:
            raise RigError(f"A {kind} reads texts in both directions, since its config.json has no is_decoder = true; "
                           "choose a target that writes.")
        raise RigError(f"A {kind} predicts something else in a tree than in a plain pass ({apart:.2f} nats apart), so "
                       "its text would change; choose a target with standard attention.")


@torch.inference_mode()
def largest_difference_nats(target: TorchTarget, start: int = 0) -> float:
    """The largest difference, in nats, between a tree pass and plain passes: of the top token's log probability and of
    the entropy, at three nodes. Many siblings lie before the last one's path, so a node that sees them is far off. The
    text's first position is ``start``."""
    random = np.random.default_rng(0)
    least = min(int(target.config.vocab_size), 1000)
    prompt = random.integers(0, least, PREFIX).tolist()
    tokens = random.integers(0, least, 1 + SIBLINGS + DEPTH).astype(np.int32)
    parents = np.asarray([0] * (SIBLINGS + 1) + list(range(SIBLINGS, SIBLINGS + DEPTH)), np.int32)
    tree = DraftTree(tokens, parents, np.zeros(len(tokens), np.float32), np.ones(len(tokens), np.int32))
    try:
        target.prefill(prompt, len(tokens), Sampling(), start)
        packed = pack(tree, PREFIX)
        verification = target.verify(replace(packed, positions=packed.positions + np.int32(start)))
    finally:
        target.release()
    differences = []
    for node in (1, SIBLINGS, len(tree) - 1):
        path = torch.tensor([[*prompt, *tokens[path_to(parents, node)].tolist()]], device=target.device)
        positions = torch.arange(start, start + path.shape[1], device=target.device)[None]
        elsewhere = {"position_ids": positions} if start else {}  # from 0 on, the model counts by itself
        logits = target.model(input_ids=path, use_cache=False, **elsewhere).logits
        logprobs = logits[0, -1].float().log_softmax(-1)
        entropy = float(torch.special.entr(logprobs.exp()).sum())
        differences += [abs(float(logprobs.max()) - float(verification.logprobs[node])),
                        abs(entropy - float(verification.entropy[node]))]
    return float(np.max(differences))  # NaN if one of them is, where Python's max would leave it out
