"""llama.cpp's ``llama-server``, which reports a request's sums under ``timings``."""

from collections.abc import Mapping
from typing import Any

from engine.servers.kind import ServerKind, ServerReport, count, section


def _report(event: Mapping[str, Any]) -> ServerReport | None:
    """The report in ``draft_n`` and ``draft_n_accepted``, which llama.cpp sends if anything was drafted."""
    given = section(event, "timings")
    if given is None or "draft_n" not in given:
        return None
    tried, kept, written = (count(given, name) or 0 for name in ("draft_n", "draft_n_accepted", "predicted_n"))
    passes = f", so its {written} tokens took about {written - kept} passes" if written > kept else ""
    return ServerReport(f"llama.cpp's own figures: {kept} of {tried} drafted tokens accepted{passes}.",
                        kept=kept, tried=tried)


llama_cpp = ServerKind(
    title="llama.cpp", owner="llamacpp", version=("/props", "build_info"), report=_report, counters={
        "drafts": "llamacpp:spec_decode_num_drafts", "accepted": "llamacpp:spec_decode_num_accepted_tokens",
        "by_depth": "llamacpp:spec_decode_num_accepted_tokens_per_pos", "generated": "llamacpp:tokens_predicted",
        "running": "llamacpp:requests_processing"},
    more="llama.cpp sends every token by itself, so its rounds cannot be told apart; a build with LLAMA_SPEC_DUMP "
         "writes them (adapters/README.md).",
    counting="llama.cpp counts where it was started with --metrics.")
