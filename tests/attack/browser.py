"""Hostile traces in a real browser: opened as a person opens a file, looked at from all sides. Nothing may run that the
trace brought, ask anybody, or leave the page unable to show the next one."""

import base64
from contextlib import ExitStack
from typing import Any

from hypothesis import strategies as st
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

from engine.errors import TraceError
from engine.trace import dumps, loads
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.traces import hostile
from tests.browser.conftest import CHROMIUM, PORT, served
from tests.explorer.scripted import scripted_trace

PATIENCE_MS = 60_000
OPEN = """async ([name, data]) => {
  const { stage, notices, recordings } = Canopy.parts;
  const opened = new Promise((done) => stage.on("opened", () => done("")));
  notices.error.say("");
  await recordings.give(new File([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], name));
  return Promise.race([opened, notices.error.box.innerText.replace(/\\s*Dismiss$/, "") || "nothing at all"]);
}"""
LOOK = """async ([mode, round]) => {
  const settled = () => new Promise((done) => setTimeout(done, 40));
  const stage = Canopy.parts.stage;
  stage.setMode(mode);
  await settled();
  Canopy.parts.player.go(Math.min(round, stage.rounds.length - 1), {});
  await settled();
  return stage.rounds.length;
}"""


def _readable(data: bytes) -> bool:
    try:
        loads(data, "run.jsonl")
    except TraceError:
        return False
    return True


class Attack(Area):
    cases = st.fixed_dictionaries({
        "trace": st.one_of([hostile().filter(_readable)] * 9 + [hostile()]).map(base64.b64encode).map(bytes.decode),
        "mode": st.sampled_from(("story", "workbench", "lab")), "round": st.integers(0, 3)})

    def __init__(self) -> None:
        self._all = ExitStack()
        self.address = self._all.enter_context(served("-m", "tests.browser.serve", PORT, "0.01"))
        playwright = self._all.enter_context(sync_playwright())
        self._browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self._all.callback(self._browser.close)
        self._sound = base64.b64encode(dumps(scripted_trace("ddtree", 4))).decode()
        self._complaints: list[str] = []
        self._page: Any = None

    def trial(self, case: Case) -> None:
        """Open it, look at it, then open a sound one."""
        page = self._opened()
        try:
            refused = page.evaluate(OPEN, ["run.jsonl", case["trace"]])
            if refused:
                check_sentence(refused)
                if "log has the details" in refused:
                    raise BrokenError(refused)
            else:
                page.evaluate(LOOK, [case["mode"], case["round"]])
            if page.evaluate(OPEN, ["sound.jsonl", self._sound]):
                raise BrokenError("A sound trace is not taken any more.")
            if not page.evaluate(LOOK, ["workbench", 1]):
                raise BrokenError("A sound trace is not shown any more.")
        except PlaywrightError as error:
            self._page = None
            raise BrokenError(f"The page: {str(error)[:300]}") from error
        if message := self._complaints[:1]:
            self._complaints.clear()
            page.close()
            self._page = None
            raise BrokenError(message[0])

    def close(self) -> None:
        self._all.close()

    def _dismiss(self, dialog: Any) -> None:
        self._complain(f"A dialog: {dialog.message}")
        dialog.dismiss()

    def _complain(self, sentence: str) -> None:
        self._complaints.append(sentence[:900])

    def _opened(self) -> Any:
        if self._page is None:
            context = self._browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
            page = self._page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.on("pageerror", lambda error: self._complain(f"An error of the page: {error} {error.stack}"))
            page.on("dialog", self._dismiss)
            page.on("request", lambda request: self._complain(f"Somebody else was asked: {request.url}")
                    if not request.url.startswith((self.address, "data:", "blob:", "about:")) else None)
            page.on("console", lambda message: self._complain(f"The console: {message.text}")
                    if message.type == "error" else None)
            page.goto(f"{self.address}#mode=workbench")
            page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.ready")
        return self._page
