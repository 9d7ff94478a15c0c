"""The page as it is served: Gradio's own app, and the gate in front of every route."""

from __future__ import annotations

import gc
from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.types import Scope

from explorer.listening import Listening
from explorer.page import launch_options
from explorer.run_queue import WAITING_ROOM
from explorer.security.bodies import Bodies
from explorer.security.calls import Calls
from explorer.security.gate import Gate, Guard
from explorer.security.hosts import hosts_of

MOST_SESSIONS = 512  # that Gradio remembers, each with the values of all components


def guarded(page: gr.Blocks, listening: Listening) -> FastAPI:
    """The page as an ASGI app that can be reached only through the gate."""
    guard = Guard(hosts_of(listening.host, listening.allowed), Bodies(Calls(page).check))
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, middleware=[Middleware(Gate, guard)])
    page.queue(max_size=WAITING_ROOM, api_open=False)
    page.state_session_capacity = MOST_SESSIONS
    options: dict[str, Any] = {**launch_options(), "auth": listening.auth}
    mounted: FastAPI = gr.mount_gradio_app(
        app, page, "/", server_name=listening.host, server_port=listening.port, **options)
    # What is there by now, the recordings above all, stays: the garbage collector need not look through it again and
    # again, which for a recording of 30,000 rounds would hold up every request for a second.
    gc.freeze()
    if listening.auth:
        inner = next(route.app for route in mounted.routes if isinstance(route, Mount))
        guard.admits = lambda scope: is_logged_in(inner, scope)
    return mounted


def is_logged_in(gradio_app: Any, scope: Scope) -> bool:
    """Whether a request brings a cookie that Gradio gave at a login (gradio 6.31, ``get_current_user``)."""
    cookies = HTTPConnection(scope).cookies
    names = (f"access-token-{gradio_app.cookie_id}", f"access-token-unsecure-{gradio_app.cookie_id}")
    return any(cookies.get(name) in gradio_app.tokens for name in names)
