"""Pages in one file, with style, code and data inside: a run that replays from disk, and the first second's page."""

from __future__ import annotations

import json
from html import escape

from explorer.bundle import OPENING, STAGE, script, style
from explorer.view import View, packed


def replay_page(view: View) -> str:
    """A page in one file that replays the run from disk, without a network."""
    title = view["header"]["title"] or view["header"]["prompt"][:60]
    return _document(f"{title} · Canopy", view, f"{script(STAGE)}\n<script>Canopy.openReplay();</script>")


def opening_page(view: View | None, rig: str) -> str:
    """What is served until the page itself is built: the run that the page will open with, if any, and a field for a
    prompt. ``rig`` is the name of the rig that will answer; where it is empty, none is shown."""
    name = json.dumps(rig).replace("<", "\\u003c")
    return _document("Canopy", view, f"<style>{style('stage/opening.css')}</style>\n{script(OPENING)}\n"
                     f"<script>Canopy.openFirst({name});</script>")


def _document(title: str, view: View | None, code: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title, quote=False)}</title>\n<style>{style('page.css')}</style></head>\n"
        '<body class="canopy-replay"><main class="canopy-page"><div id="canopy-header"></div>'
        '<div id="canopy-stage"></div></main>\n'
        f'<script type="application/json" id="canopy-data">{packed(view)}</script>\n{code}</body></html>\n')
