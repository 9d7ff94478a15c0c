"""The browser's half of the page as text: it travels inside the page, so that nothing is fetched from anywhere."""

from __future__ import annotations

from pathlib import Path

from explorer.panels import PANELS

ASSETS = Path(__file__).resolve().parent.parent / "assets"

# In the order in which they load: the stage, then the panels (panels.py), then what surrounds them.
SURROUNDINGS = (
    "player", "waiting", "legend", "frames", "text", "timeline", "metrics", "plainly", "duel", "story", "notices",
    "lost", "model", "comparing", "theme", "menus", "picture", "save", "followed", "lessons", "conversation", "rigs",
    "bar", "address", "keys", "controls", "tour_steps", "tour", "mount",
)
STYLES = ("stage.css", "stage/layout.css", "stage/parts.css", "stage/overlays.css", "stage/rigs.css",
          "stage/conversation.css", "stage/duel.css", "stage/controls.css")


def scripts() -> list[Path]:
    """The script files, in loading order."""
    ground = [path for path in sorted((ASSETS / "panels").glob("*.js")) if path.stem not in PANELS]
    return [ASSETS / "stage" / "latest.js", ASSETS / "stage.js", ASSETS / "stage" / "decode.js", *ground,
            *(ASSETS / "panels" / f"{name}.js" for name in PANELS),
            *(ASSETS / "stage" / f"{name}.js" for name in SURROUNDINGS)]


def bundle() -> str:
    """Every script inside its own element, so that one that fails does not take the others along."""
    return "\n".join(element(path) for path in scripts())


def element(path: Path) -> str:
    """A script file as an element of the page."""
    return f"<script>\n{_whole(path)}\n//# sourceURL=canopy/{path.name}\n</script>"


def style() -> str:
    """The style sheets of the stage and of the panels."""
    sheets = [*(ASSETS / name for name in STYLES), *sorted((ASSETS / "panels").glob("*.css"))]
    return "\n".join(path.read_text("utf8") for path in sheets)


def _whole(path: Path) -> str:
    text = path.read_text("utf8")
    if "</script" in text.lower():
        raise ValueError(f"{path.name} contains a closing script tag, which would end it inside a page")
    return text
