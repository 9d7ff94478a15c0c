"""The lab's own scripts and styles. Replay files have none of them."""

from __future__ import annotations

from explorer.bundle import ASSETS, element

# In the order in which they load: plots and controls, the parts, and mount last, which puts them together.
SCRIPTS = ("plots", "forms", "live", "points", "curves", "verdict", "sweep", "shapes", "tools", "load", "race",
           "compare", "server", "tabs", "mount")
STYLES = ("lab.css", "compare.css")


def lab_head() -> str:
    """What the live page's head holds for the lab, besides the stage's own."""
    style = "\n".join((ASSETS / "lab" / name).read_text("utf8") for name in STYLES)
    scripts = "\n".join(element(ASSETS / "lab" / f"{name}.js") for name in SCRIPTS)
    return f"<style>{style}</style>\n{scripts}"
