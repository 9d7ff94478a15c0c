"""Bundle scripts and style sheets into the HTML of the page, of replay files and of the first page.

A page that is opened from disk can neither import modules nor fetch files. So style sheets replace their ``@import``
lines, and each ES module of ``assets/`` becomes a function that runs once, after its imports, and returns its exports.
"""

import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
STAGE, LAB = "stage/mount.js", "lab/mount.js"  # entry points

# The film's first sentence, which stands in a page before its scripts. story.js reads it from there.
FIRST_SENTENCE = '<p class="cs-first" hidden>A language model writes one token a pass.</p>'
# Show that sentence, and the prompt, only if there is nothing to restore and this is not the login page, whose Gradio
# components name no recording; else the picture that the page before left.
_FROM_START = """<script>{
const parts = window.gradio_config?.components ?? [];
const prompt = PROMPT || parts.find(({ props }) => props.elem_id === "canopy-prompt")?.props.value || "";
const root = document.documentElement;
const handover = sessionStorage.getItem("canopy-reload");
const { still } = JSON.parse(handover ?? "{}");
root.style.setProperty("--still", still ? `url("data:image/svg+xml,${encodeURIComponent(still)}")` : "none");
root.classList.toggle("cs-from-start", !location.hash && !location.search && !handover
    && (!window.gradio_config || parts.some(({ props }) => props.props?.opening)));
root.style.setProperty("--first-prompt", JSON.stringify(prompt.replace(/\\s+/g, " ")));
}</script>"""

_IMPORT = re.compile(r'^import (?:\{ ([^}]*) \} from )?"(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_STYLE_IMPORT = re.compile(r'^@import "([^"]+)";\n', re.MULTILINE)


def script(*entries: str) -> str:
    """Return a script element with these modules of ``assets/`` and all that they import. ValueError for other forms of
    ``import`` or ``export`` than are used here."""
    modules = dict[Path, str]()
    for entry in entries:
        _add(ASSETS / entry, modules)
    code = "\n".join(modules.values())
    if "</script" in code.lower():
        raise ValueError("A script contains a closing script tag, which would end it inside a page.")
    return f'<script>\n(() => {{\n"use strict";\nconst modules = {{}};\n{code}}})();\n</script>'


def style(sheet: str) -> str:
    """Return a style sheet of ``assets/`` with its imports in their places."""
    path = ASSETS / sheet
    return _STYLE_IMPORT.sub(lambda line: style(str(path.parent.relative_to(ASSETS) / line[1])), path.read_text("utf8"))


def cover(prompt: str = "") -> str:
    """Return the beginning of a page's head, which shows something until its scripts have run. ``prompt``: the
    opening recording's, if Gradio's configuration does not hold it."""
    return f"<style>{style('stage/cover.css')}</style>{_FROM_START.replace('PROMPT', _escaped(json.dumps(prompt)))}"


def replay_page(title: str, lines: Iterable[bytes], view: str = "") -> str:
    """Make a page in one file that replays a run without a network. It opens at ``view`` (#…), unless its own address
    has one."""
    begin = f"Canopy.openReplay({_escaped(json.dumps(view))});"
    return _document(f"{title} · Canopy", lines, f"{script(STAGE)}\n<script>{begin}</script>")


def startup_page(lines: Iterable[bytes], root_path: str = "", prompt: str = "") -> str:
    """Make the page that is served until the real one is built: its first recording, and a field for a prompt.
    ``root_path``: see ``Listening``; ``prompt``: the recording's."""
    begin = f"<script>Canopy.openFirst({json.dumps(root_path)});</script>"
    return _document("Canopy", lines, f"{script(STAGE)}\n{begin}", cover(prompt))


def _document(title: str, lines: Iterable[bytes], code: str, head: str = "") -> str:
    data = _escaped(b"".join(lines).decode())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title, quote=False)}</title>\n{head}<style>{style('page.css')}</style></head>\n"
        f'<body class="canopy-replay">{FIRST_SENTENCE}<main class="canopy-page"><div id="canopy-header"></div>'
        '<div id="canopy-stage"></div></main>\n'
        f'<script type="application/x-ndjson" id="canopy-data">{data}</script>\n{code}</body></html>\n')


def _escaped(json_text: str) -> str:
    """Escape JSON so that it neither begins nor ends an element of a page."""
    return json_text.replace("<", "\\u003c")


def _add(path: Path, code: dict[Path, str]) -> None:
    """Add a module to ``code`` after those that it imports."""
    if path in code:
        return
    text = path.read_text("utf8")
    for line in _IMPORT.finditer(text):
        _add(_imported(path, line), code)
    body = _IMPORT.sub(lambda line: _destructured(path, line), text)
    exported = ", ".join(_EXPORT.findall(body))
    body = _EXPORT.sub("", body)
    if other := _OTHER.search(body):
        raise ValueError(f"{path.name}: {other[0]!r} is not understood; use import {{ name }} from \"./file.js\", "
                         "and export before a function, class or const.")
    code[path] = f"{_module_reference(path)} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _imported(path: Path, line: re.Match[str]) -> Path:
    return (path.parent / line[2]).resolve()


def _destructured(path: Path, line: re.Match[str]) -> str:
    if line[1] is None:
        return ""
    names = line[1].replace(" as ", ": ")
    return f"const {{ {names} }} = {_module_reference(_imported(path, line))};\n"


def _module_reference(path: Path) -> str:
    return f'modules["{path.relative_to(ASSETS).as_posix()}"]'
