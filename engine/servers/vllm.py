"""vLLM: from 0.32 on it reports on each request with ``--per-request-spec-decode-metrics detailed``."""

from collections.abc import Mapping
from typing import Any

from engine.errors import ServerError
from engine.servers.kind import MAX_DRAFTED, ServerKind, ServerReport, count, counts, rate, section


def _report(event: Mapping[str, Any]) -> ServerReport | None:
    """The report in the last event, the one with the usage: ``metrics.speculative_decoding``."""
    given = section(event, "metrics", "speculative_decoding")
    if given is None:
        return None
    accepted, drafted = counts(given, "per_step_accepted"), counts(given, "per_step_drafted")
    if len(accepted) != len(drafted) or any(kept > tried for kept, tried in zip(accepted, drafted, strict=True)):
        raise ServerError(f"The vLLM server reports {len(accepted)} steps that accepted and {len(drafted)} that "
                          "drafted, or more accepted than drafted; they have to fit each other.")
    steps, tried, kept = (count(given, name) for name in (
        "num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"))
    words = (f"vLLM's own figures: mean acceptance length {rate(given, 'mean_acceptance_length')} over {steps} steps, "
             f"{kept} of {tried} drafted tokens accepted.")
    return ServerReport(words, accepted, drafted, count(given, "num_spec_tokens", MAX_DRAFTED) or 0, steps, kept,
                        tried)


vllm = ServerKind(
    title="vLLM", owner="vllm", asks={"return_token_ids": True}, version=("/version", "version"), report=_report,
    counters={
        "drafts": "vllm:spec_decode_num_drafts", "accepted": "vllm:spec_decode_num_accepted_tokens",
        "by_depth": "vllm:spec_decode_num_accepted_tokens_per_pos", "generated": "vllm:generation_tokens",
        "running": "vllm:num_requests_running"},
    a_chunk_is_a_step=True,
    more="Start vLLM 0.32 or later with --per-request-spec-decode-metrics detailed to see the steps themselves.")
