"""The page as it is served: how it looks, Gradio's own app, and the gate in front of every route."""

import gc
from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.types import Scope

from explorer.bundle import ASSETS, LAB, STAGE, script, style
from explorer.opening import Listening
from explorer.run_queue import WAITING_ROOM
from explorer.security.bodies import Calls
from explorer.security.gate import Gate, hosts_of

MOST_SESSIONS = 512  # that Gradio remembers, each with the values of all components


def launch_options() -> dict[str, Any]:
    """The options of ``launch`` with which the page looks and behaves as built."""
    icon = ASSETS / "stage" / "icon.svg"
    return {
        "head": f"<style>{style('page.css')}{style('lab/lab.css')}</style>\n{script(STAGE, LAB)}",
        "theme": gr.themes.Base(
            font=["system-ui", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"],
            font_mono=["DejaVu Sans Mono", "Cascadia Mono", "Menlo", "Consolas", "monospace"]),
        "ssr_mode": False, "footer_links": [], "run_history": False, "show_error": True,
        "favicon_path": icon,
    }


def guarded(page: gr.Blocks, listening: Listening) -> FastAPI:
    """The page as an ASGI app that can be reached only through the gate."""
    def admits(scope: Scope) -> bool:
        return listening.auth is None or is_logged_in(inner, scope)

    gate = Middleware(Gate, hosts_of(listening.host, listening.allowed), Calls(page).check, admits)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, middleware=[gate])
    page.queue(max_size=WAITING_ROOM, api_open=False)
    page.state_session_capacity = MOST_SESSIONS
    mounted: FastAPI = gr.mount_gradio_app(app, page, "/", server_name=listening.host, server_port=listening.port,
                                           auth=listening.auth, **launch_options())
    inner = next(route.app for route in mounted.routes if isinstance(route, Mount))
    # What is there by now, the recordings above all, stays: the garbage collector need not look through it again and
    # again, which for a recording of 30,000 rounds would hold up every request for a second.
    gc.freeze()
    return mounted


def is_logged_in(gradio_app: Any, scope: Scope) -> bool:
    """Whether a request brings a cookie that Gradio gave at a login (gradio 6.31, ``get_current_user``)."""
    cookies = HTTPConnection(scope).cookies
    names = (f"access-token-{gradio_app.cookie_id}", f"access-token-unsecure-{gradio_app.cookie_id}")
    return any(cookies.get(name) in gradio_app.tokens for name in names)
