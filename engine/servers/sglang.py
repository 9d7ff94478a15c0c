"""SGLang: ``return_spec_tokens_details`` asks for sums, reported under ``sglext``, in older versions ``meta_info``."""

from collections.abc import Mapping
from typing import Any

from engine.servers.kind import ServerKind, ServerReport, count, rate, section

STEPS = ("spec_verify_ct",)
ACCEPTED = ("spec_num_correct_drafts", "spec_accept_token_num")  # the older name last
DRAFTED = ("spec_num_proposed_drafts", "spec_draft_token_num")


def _report(event: Mapping[str, Any]) -> ServerReport | None:
    """The report of a request's sums; no version reports single steps."""
    sections = (("sglext", "spec_tokens_details"), ("meta_info",))
    given = next((part for names in sections for holder in (event, _choice(event))
                  if (part := section(holder, *names)) and any(name in part for name in (*STEPS, *ACCEPTED))), None)
    if given is None:
        return None
    steps, kept, tried = (_first(given, names) for names in (STEPS, ACCEPTED, DRAFTED))
    length = f"mean acceptance length {rate(given, 'spec_accept_length')}, " if "spec_accept_length" in given else ""
    return ServerReport(f"SGLang's own figures: {length}{_shown(kept)} of {_shown(tried)} drafted tokens accepted in "
                        f"{_shown(steps)} verifications.", steps=steps, kept=kept, tried=tried)


def _choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = event.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count(given, name) for name in names if name in given), None)


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)


sglang = ServerKind(
    title="SGLang", owner="sglang", asks={"return_spec_tokens_details": True}, version=("/server_info", "version"),
    report=_report, counters={
        "length": "sglang:spec_accept_length", "generated": "sglang:generation_tokens",
        "running": "sglang:num_running_reqs"},
    more="SGLang does not report single steps.")
