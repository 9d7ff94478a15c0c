"""What differs between kinds of servers, as tables of names: of a request's fields, of a report's, of the counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class ServerKind:
    """A kind of server.

    ``owner`` is the value of ``owned_by`` in its ``/v1/models``; ``asks`` are request fields besides the usual ones;
    ``version`` is the path of its version. ``reports`` are the places of a report in an
    event of the stream, each with the server's names for the fields of ``ServerReport``; ``counters`` are its names
    for those of ``Counts``. ``chunk_is_step`` says that every chunk of its stream was written by one step. ``more``
    tells a person how to make it report more, ``counting`` how to make it count.
    """

    title: str
    owner: str = ""
    asks: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    reports: Mapping[tuple[str, ...], Mapping[str, str]] = field(default_factory=dict)
    counters: Mapping[str, str] = field(default_factory=dict)
    chunk_is_step: bool = False
    more: str = ""
    counting: str = ""


KINDS: Mapping[str, ServerKind] = MappingProxyType({
    "vllm": ServerKind(
        "vLLM", "vllm", asks={"return_token_ids": True}, version="/version",
        reports={("metrics", "speculative_decoding"): {
            "accepted_per_step": "per_step_accepted", "drafted_per_step": "per_step_drafted",
            "width": "num_spec_tokens", "steps": "num_spec_steps",
            "total_accepted": "num_accepted_draft_tokens", "total_drafted": "num_draft_tokens"}},
        counters={
            "drafts": "vllm:spec_decode_num_drafts", "accepted": "vllm:spec_decode_num_accepted_tokens",
            "by_depth": "vllm:spec_decode_num_accepted_tokens_per_pos", "generated": "vllm:generation_tokens",
            "running": "vllm:num_requests_running"},
        chunk_is_step=True,
        more="Start vLLM 0.32 or later with --per-request-spec-decode-metrics detailed to see the steps themselves."),
    "sglang": ServerKind(
        "SGLang", "sglang", asks={"return_spec_tokens_details": True}, version="/server_info",
        reports={
            ("sglext", "spec_tokens_details"): {
                "steps": "spec_verify_ct", "total_accepted": "spec_num_correct_drafts",
                "total_drafted": "spec_num_proposed_drafts"},
            ("meta_info",): {  # in older versions
                "steps": "spec_verify_ct", "total_accepted": "spec_accept_token_num",
                "total_drafted": "spec_draft_token_num"}},
        counters={
            "length": "sglang:spec_accept_length", "generated": "sglang:generation_tokens",
            "running": "sglang:num_running_reqs"},
        more="SGLang does not report single steps."),
    "llama_cpp": ServerKind(
        "llama.cpp", "llamacpp", version="/props",
        reports={("timings",): {
            "total_accepted": "draft_n_accepted", "total_drafted": "draft_n", "written": "predicted_n"}},
        counters={
            "drafts": "llamacpp:spec_decode_num_drafts", "accepted": "llamacpp:spec_decode_num_accepted_tokens",
            "by_depth": "llamacpp:spec_decode_num_accepted_tokens_per_pos", "generated": "llamacpp:tokens_predicted",
            "running": "llamacpp:requests_processing"},
        more="llama.cpp sends every token by itself, so the page cannot see its rounds; a build with LLAMA_SPEC_DUMP "
             "writes them (adapters/README.md).",
        counting="llama.cpp counts if it was started with --metrics."),
})
UNKNOWN = ServerKind(
    "an OpenAI-compatible server", more="Attach vLLM, SGLang or llama.cpp to see what a server reports.")
