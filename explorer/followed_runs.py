"""The stage follows a growing run from the moment that a browser opens the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from explorer.follow import Follow
from explorer.view import packed

MOST_BROWSERS = 32  # may follow at the same time


def show_followed(page: gr.Blocks, stage: gr.HTML, follow: Follow | None) -> None:
    """Let every browser that opens the page follow; None follows nothing."""
    if follow is None:
        return

    def views() -> Iterator[Any]:
        for view in follow.views():
            yield gr.skip() if view is None else packed(view)

    page.load(views, None, stage, show_progress="hidden", api_visibility="private", concurrency_id="follow",
              concurrency_limit=MOST_BROWSERS)
