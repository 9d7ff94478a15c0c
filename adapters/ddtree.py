"""Records the published DDTree loop (github.com/liranringel/ddtree, ``ddtree_generate``).

Add one line to its loop, after ``follow_verified_tree``::

    accepted_indices, next_token = follow_verified_tree(child_maps, posterior)
    record_round(recorder, locals())

The loop looks for the end of its text after a round, and cuts its output when it is over; the recorded text ends at the
loop's ``stop_token_ids`` and ``max_new_tokens`` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.recorder import Recorder

RANKS = 64  # drafter's tokens recorded at each depth, so that other trees of up to this many nodes can be replayed


def record_round(recorder: Recorder, names: Mapping[str, Any]) -> None:
    """Record a round from the loop's local variables. ``draft_logits`` (1, depth, vocabulary) become log probabilities
    over the whole vocabulary before the cut; ``parents`` begin with -1, for the root."""
    if "max_new_tokens" in names:
        recorder.until(names.get("stop_token_ids"), names["max_new_tokens"])
    logits = names["draft_logits"][0].float()
    logprobs, tokens = (logits - logits.logsumexp(-1, keepdim=True)).topk(min(RANKS, logits.shape[-1]), dim=-1)
    recorder.round(
        tokens=names["verify_input_ids"][0], parents=names["parents"], keep=names["accepted_indices"],
        bonus=names["next_token"], choice=names["posterior"][0], start=names["start"],
        drafts=[{"tokens": tokens, "logprobs": logprobs}])
