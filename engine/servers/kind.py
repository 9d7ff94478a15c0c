"""What is particular to a kind of server: how it is told apart, what it is asked besides, where its figures stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.servers.counters import CounterNames
from engine.servers.report import ServerReport


@dataclass(frozen=True)
class ServerKind:
    """A kind of server.

    ``owner`` is what its ``/v1/models`` says under ``owned_by``; ``asks`` are fields that a request carries besides the
    usual ones; ``version`` is the path, and the name in its answer, of its version. ``report`` reads an event of the
    stream, None where that holds no figures of speculation. ``more`` tells a person how it would report more.
    """

    title: str
    owner: str
    asks: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[str, str] = ("", "")
    report: Callable[[Mapping[str, Any]], ServerReport | None] = lambda event: None
    counters: CounterNames = CounterNames()
    more: str = ""


UNKNOWN = ServerKind(
    "an OpenAI-compatible server", "", more="Attach vLLM, SGLang or llama.cpp to see what a server reports.")
