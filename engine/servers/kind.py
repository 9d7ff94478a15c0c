"""What differs between kinds of servers: how one is recognised, its extra request fields, where its figures are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.servers.counters import CounterNames
from engine.servers.report import ServerReport


@dataclass(frozen=True)
class ServerKind:
    """A kind of server.

    ``owner`` is the value of ``owned_by`` in its ``/v1/models``; ``asks`` are request fields besides the usual ones;
    ``version`` is the path of its version, and the field in that answer. ``report`` reads an event of the stream, and
    returns None where it holds no figures on speculation. ``a_chunk_is_a_step`` says that every chunk of its stream was
    written by one step. ``more`` tells a person how to make it report more, ``counting`` how to make it count.
    """

    title: str
    owner: str
    asks: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[str, str] = ("", "")
    report: Callable[[Mapping[str, Any]], ServerReport | None] = lambda event: None
    counters: CounterNames = CounterNames()
    a_chunk_is_a_step: bool = False
    more: str = ""
    counting: str = ""


UNKNOWN = ServerKind(
    "an OpenAI-compatible server", "", more="Attach vLLM, SGLang or llama.cpp to see what a server reports.")
