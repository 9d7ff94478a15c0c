"""One sentence for each reason why a request to a server can fail."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine.errors import ServerError
from engine.requests.rig_names import SERVER_KEY
from engine.servers.report import whole

LONGEST_SAID = 200  # characters of what a server says itself


def unanswered(address: str, error: Exception) -> ServerError:
    """The sentence for a network error."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ServerError(f"Nobody answers at {address}; start the server, or name another address.")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return ServerError(f"{address} broke its answer off, or does not speak HTTP; what came until then is kept.")
    return ServerError(f"{address} cannot be asked ({type(error).__name__}); look at the address again.")


def refusal(address: str, path: str, response: httpx.Response, said: bytes) -> ServerError:
    """The sentence for an answer whose status is not 200."""
    status = response.status_code
    if response.is_redirect:
        return ServerError(f"{address} sends on to {_host(response) or 'another path'}, which is not followed; name "
                           "that address itself where it is the server.")
    known = {
        401: f"wants a key (401); put it into the environment as {SERVER_KEY} and start the page again",
        403: f"forbids it (403); look at the key in {SERVER_KEY}",
        404: f"has no {path} (404); is it an OpenAI-compatible server, and is its address whole?",
        429: "has more to do than it takes (429); try again later"}
    words = known.get(status, f"refuses (status {status})" if status < 500 else f"failed (status {status})")
    own = _said(said)
    return ServerError(f"{address} {words}.{f' It says: {own!r}.' if own and status not in known else ''}"
                       .replace("?.", "?"))


def _host(response: httpx.Response) -> str:
    """The host that a redirect names, without a password; empty where it names none."""
    try:
        return urlsplit(str(response.headers.get("location", ""))).netloc.rpartition("@")[2][:80]
    except ValueError:
        return ""


def _said(data: bytes) -> str:
    """The server's own words, on one line."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    text = whole(" ".join(found.split())) if isinstance(found, str) else ""
    return text if len(text) <= LONGEST_SAID else f"{text[:LONGEST_SAID]}…"
