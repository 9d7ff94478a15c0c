"""Actions on the page as a person performs them: choose, run, wait for the end, download the trace."""

import base64
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.trace import Trace, loads

STAGE = "Canopy.parts.stage"
STATE = f"{STAGE}.state"
RUN = f"{STAGE}.value.run"


def choose(page: Any, elem_id: str, value: str) -> None:
    """Choose from one of the bar's lists."""
    page.click(f"#{elem_id} input")
    page.get_by_role("option", name=value, exact=True).click()


def fill_more(page: Any, elem_id: str, value: str) -> None:
    """Open More and fill one of its fields, after Gradio has reset them shortly after opening."""
    page.click("#canopy-more .label-wrap")
    field = page.locator(f"#{elem_id} input")
    while field.input_value() != value:
        field.fill(value)
        page.wait_for_timeout(500)


def ask(page: Any, prompt: str) -> None:
    """Type the prompt."""
    page.fill("#canopy-prompt textarea", prompt)


def press_run(page: Any) -> None:
    """Press Run, and wait for that run's first round, because until then the stage shows the previous run."""
    before = page.evaluate(RUN)
    page.click("#canopy-run")
    page.wait_for_function(f"{RUN} !== '{before}' && {STAGE}.rounds.length > 0")


def start(page: Any, method: str) -> None:
    """Choose a method, and press Run."""
    choose(page, "canopy-method", method)
    press_run(page)
    assert page.evaluate(f"{STAGE}.header.method") == method


def finish(page: Any) -> None:
    """Wait until the run has ended by itself."""
    page.wait_for_function(f"['done', 'error'].includes({STATE})")


def run(page: Any, method: str) -> None:
    """Run to the end."""
    start(page, method)
    finish(page)


def current_trace(page: Any) -> Trace:
    """Return the trace of the run on the stage, as the server has it now."""
    file = page.evaluate(f"{STAGE}.server.export({{kind: 'trace', run: {RUN}}})")
    return loads(base64.b64decode(file["data"]))


def upload(page: Any, name: str, data: bytes) -> None:
    """Open a file from disk, and wait until the page has read it."""
    with TemporaryDirectory() as folder:
        (file := Path(folder, name)).write_bytes(data)
        page.set_input_files("[aria-label='Trace file to open']", file)
        page.wait_for_function(f"Canopy.parts.recordings.opened === '{name}'")


def show_as(page: Any, run: str, /, header: Any = None, about: Any = None) -> None:
    """Reload the shown run as ``run``, with changed fields of its header and of its ``about`` line."""
    page.evaluate("""async ([run, header, about]) => {
        const { stage } = Canopy.parts;
        const text = await (await fetch(`canopy/runs/${stage.value.run}`)).text();
        const lines = text.trim().split("\\n").map((line) => JSON.parse(line));
        for (const line of lines) {
            if (line.state) line.run = run;
            if (line.header) Object.assign(line.header, header);
            if (line.about) line.about = { ...line.about, ...about };
        }
        stage.read(lines);
    }""", [run, header or {}, about or {}])


def show_round(page: Any, index: int) -> None:
    """Show a round, and wait until the panels have drawn it."""
    page.evaluate(f"Canopy.parts.player.go({index}, {{}})")
    page.wait_for_function(f"Canopy.parts.frames.settled && {STAGE}.current === {index}")
