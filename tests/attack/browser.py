"""Hostile traces in a real browser, opened as a person opens a file and shown in every view. No trace may run code,
send a request, or prevent the page from showing the next trace."""

import base64
from contextlib import ExitStack

from hypothesis import strategies as st
from playwright.sync_api import Dialog, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from engine.trace import dumps
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.traces import hostile_trace
from tests.browser.conftest import CHROMIUM, PORT, Watched, new_context, served, watch_page
from tests.explorer.scripted import scripted_trace

OPEN = """async ([name, data]) => {
  const { stage, notices, recordings } = Canopy.parts;
  const opened = new Promise((done) => stage.on("opened", () => done("")));
  notices.error.say("");
  await recordings.read(new File([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], name));
  return Promise.race([opened, notices.error.message || "nothing at all"]);
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


class Attack(Area):
    cases = st.fixed_dictionaries({
        "trace": hostile_trace().map(base64.b64encode).map(bytes.decode),
        "mode": st.sampled_from(("story", "workbench", "lab")), "round": st.integers(0, 3)})

    def __init__(self) -> None:
        self._all = ExitStack()
        self._address = self._all.enter_context(served("-m", "tests.browser.serve", PORT, "0.01"))
        playwright = self._all.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self._all.callback(browser.close)
        self._context = new_context(browser)
        self._sound = base64.b64encode(dumps(scripted_trace("ddtree", 4))).decode()
        self._watched: Watched | None = None

    def trial(self, case: Case) -> None:
        """Open the trace, show its views, then open a valid one."""
        watched = self._watched = self._watched or self._open_page()
        page = watched.page
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
            self._watched = None
            raise BrokenError(f"The page: {str(error)[:300]}") from error
        if complaints := [*watched.complaints, *watched.foreign]:
            self._watched = None
            page.close()
            raise BrokenError(complaints[0][:900])

    def close(self) -> None:
        self._all.close()

    def _open_page(self) -> Watched:
        def dismiss(dialog: Dialog) -> None:
            watched.complaints.append(f"A dialog: {dialog.message}")
            dialog.dismiss()

        watched = watch_page(self._context.new_page(), self._address)
        watched.page.on("dialog", dismiss)
        watched.open(f"{self._address}#mode=workbench")
        return watched
