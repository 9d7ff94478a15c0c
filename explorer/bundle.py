"""The browser's half of the page as text: it travels inside the page, so that nothing is fetched from anywhere.

The scripts in ``assets/`` are ES modules, the style sheets import each other. Neither can be imported by a page that is
opened from disk, so both are put together here: of a script every module becomes a function that runs once, after
those that it imports, and returns what it exports.
"""

from __future__ import annotations

import re
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
STAGE, LAB, OPENING = "stage/mount.js", "lab/mount.js", "stage/opening.js"  # the modules that a page begins with

_IMPORT = re.compile(r'^import (?:\{ ([^}]*) \} from )?"(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_STYLE_IMPORT = re.compile(r'^@import "([^"]+)";\n', re.MULTILINE)


def script(*entries: str) -> str:
    """A script element with these modules of ``assets/`` and all that they import. ValueError for modules that import
    each other in a circle, a name that no module exports, and forms of ``import`` and ``export`` not used here."""
    modules = Modules()
    for entry in entries:
        modules.add(ASSETS / entry)
    code = "\n".join(modules.code.values())
    if "</script" in code.lower():
        raise ValueError("A script contains a closing script tag, which would end it inside a page.")
    return f'<script>\n(() => {{\n"use strict";\nconst modules = {{}};\n{code}}})();\n</script>'


def style(sheet: str) -> str:
    """A style sheet of ``assets/`` with those that it imports in their places."""
    path = ASSETS / sheet
    return _STYLE_IMPORT.sub(lambda line: style(str(path.parent.relative_to(ASSETS) / line[1])), path.read_text("utf8"))


class Modules:
    """Modules as code, each after those that it imports."""

    def __init__(self) -> None:
        self.code: dict[Path, str] = {}
        self._exported: dict[Path, set[str]] = {}

    def add(self, path: Path, above: tuple[Path, ...] = ()) -> None:
        """Add a module; ``above`` are those that led to it."""
        if path in above:
            raise ValueError(f"{' imports '.join(step.name for step in (*above, path))}: a circle.")
        if path in self.code:
            return
        text = path.read_text("utf8")
        for line in _IMPORT.finditer(text):
            self.add(self._imported(path, line), (*above, path))
        body = _IMPORT.sub(lambda line: self._taken(path, line), text)
        exported = _EXPORT.findall(body)
        body = _EXPORT.sub("", body)
        if other := _OTHER.search(body):
            raise ValueError(f"{path.name}: {other[0]!r} is not understood; use import {{ name }} from \"./file.js\", "
                             "and export before a function, class or const.")
        self._exported[path] = set(exported)
        self.code[path] = f"{_place(path)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"

    @staticmethod
    def _imported(path: Path, line: re.Match[str]) -> Path:
        return (path.parent / line[2]).resolve()

    def _taken(self, path: Path, line: re.Match[str]) -> str:
        """An import as code."""
        if line[1] is None:
            return ""
        source, names = self._imported(path, line), [name.split(" as ") for name in line[1].split(", ")]
        if missing := [name for name, *_ in names if name not in self._exported[source]]:
            raise ValueError(f"{path.name} imports {', '.join(missing)}, which {source.name} does not export.")
        return f"const {{ {', '.join(map(': '.join, names))} }} = {_place(source)};\n"


def _place(path: Path) -> str:
    return f'modules["{path.relative_to(ASSETS).as_posix()}"]'
