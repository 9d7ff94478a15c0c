"""Requests from a page in a browser to every endpoint that a running Canopy describes (routes, functions of its API and
of its page, deletion included), in every way in which a page can send them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright import sync_api

ATTEMPT = re.compile(r"[?&]attempt=(\d+)")
AT_ONCE = 24
REFUSED = 403

TRY = """async (attempts) => {
  const open = (make) => { const made = make(); document.body.append(made); return made; };
  const frame = (name) => open(() => Object.assign(document.createElement("iframe"), { name, hidden: true }));
  const ways = {
    text: (url, body, signal) => fetch(url, { method: "POST", mode: "no-cors", body, signal,
      credentials: "include", headers: { "Content-Type": "text/plain" } }),
    json: (url, body, signal) => fetch(url, { method: "POST", body, signal, credentials: "include",
      headers: { "Content-Type": "application/json" } }),
    beacon: async (url, body) => { navigator.sendBeacon(url, body); },
    form: async (url, body, signal, number) => {
      frame(`form${number}`);
      const form = open(() => Object.assign(document.createElement("form"),
        { action: url, method: "post", enctype: "text/plain", target: `form${number}` }));
      form.append(Object.assign(document.createElement("input"), { name: body.slice(0, -1) + ',"x":"', value: '"}' }));
      form.submit();
    },
    get: (url, body, signal) => fetch(url, { signal, credentials: "include" }),
    blind: (url, body, signal) => fetch(url, { mode: "no-cors", signal, credentials: "include" }),
    script: async (url) => { open(() => Object.assign(document.createElement("script"), { src: url })); },
    frame: async (url, body, signal, number) => { frame(`get${number}`).src = url; },
    head: (url, body, signal) => fetch(url, { method: "HEAD", signal, credentials: "include" }),
  };
  const read = [];
  await Promise.all(attempts.map(async ({ number, way, url, body }) => {
    const answer = await ways[way](url, body, AbortSignal.timeout(20000), number).catch(() => null);
    if (answer && answer.type !== "opaque" && answer.ok) read.push(number);
  }));
  await new Promise((done) => setTimeout(done, 700));
  for (const made of document.querySelectorAll("iframe, form, script")) made.remove();
  return read;
}"""
WAYS = {"POST": ("text", "json", "beacon", "form"), "GET": ("get", "blind", "script", "frame"), "HEAD": ("head",)}


@dataclass(frozen=True)
class Endpoint:
    """Describe one endpoint of a server."""

    method: str
    path: str
    body: Any = field(default=None, hash=False)


@dataclass
class Attempts:
    """Record which requests the server refused and accepted, and which answers the page could read. Requests that
    the browser blocked are not listed."""

    refused: list[str] = field(default_factory=list)
    let_in: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)


def endpoints_of(read: Callable[[str], Any]) -> list[Endpoint]:
    """Return the described routes, the named API functions and the page's functions; ``read`` returns the JSON at a
    path."""
    routes = [Endpoint(method.upper(), re.sub(r"\{[^}]*\}", "x1", path), {})
              for path, methods in read("openapi.json")["paths"].items() for method in methods]
    named = [Endpoint("POST", f"/gradio_api/call/{'v2/' if second else ''}{name.strip('/')}", {"data": []})
             for name in read("gradio_api/info?all_endpoints=true")["named_endpoints"]
             for second in (False, True)]
    config = read("config")
    called = [Endpoint("POST", "/gradio_api/component_server", {
        "data": {}, "component_id": part["id"], "session_hash": "evil", "fn_name": name})
        for part in config["components"] for name in part["props"].get("server_fns") or ()]
    joined = [Endpoint("POST", f"/gradio_api/{path}", {"data": [], "fn_index": call["id"], "session_hash": "evil"})
              for call in config["dependencies"] if call["backend_fn"] for path in ("queue/join", "run/predict")]
    return [*routes, *named, *called, *joined]


def ask_for_all(page: sync_api.Page, address: str, endpoints: list[Endpoint]) -> Attempts:
    """Send requests from the open page to every endpoint in every way."""
    tried = [(endpoint, way) for endpoint in endpoints for way in WAYS.get(endpoint.method, ())]
    attempts, statuses = Attempts(), {}

    def note(answer: sync_api.Response) -> None:
        if (number := ATTEMPT.search(answer.url)) and answer.request.redirected_from is None:
            statuses[int(number[1])] = answer.status

    page.on("response", note)
    for first in range(0, len(tried), AT_ONCE):
        asked = [{"number": number, "way": way, "url": f"{address.rstrip('/')}{endpoint.path}?attempt={number}",
                  "body": json.dumps(endpoint.body)}
                 for number, (endpoint, way) in enumerate(tried[first:first + AT_ONCE], first)]
        attempts.read += [_named(tried[number]) for number in page.evaluate(TRY, asked)]
    known = -1
    while known < len(statuses):  # a busy machine may answer late
        known = len(statuses)
        page.wait_for_timeout(1500)
    page.remove_listener("response", note)
    attempts.refused = [_named(tried[number]) for number, status in sorted(statuses.items()) if status == REFUSED]
    attempts.let_in = [_named(tried[number]) for number, status in sorted(statuses.items()) if status != REFUSED]
    return attempts


def _named(tried: tuple[Endpoint, str]) -> str:
    endpoint, way = tried
    name = (endpoint.body or {}).get("fn_name", (endpoint.body or {}).get("fn_index", ""))
    return f"{way}: {endpoint.method} {endpoint.path} {name}".rstrip()
