"""A run of many rounds: it arrives whole wherever it is opened."""

from dataclasses import replace

from engine.trace import dumps, recorded
from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, upload
from tests.explorer.scripted import scripted_trace

ROUNDS = 550


def long_file() -> bytes:
    """A trace of many small rounds, each with its own index."""
    sound = recorded(scripted_trace("ddtree", 4), "Long", "", "2026-11-20")
    entries = (sound.entries * ROUNDS)[:ROUNDS]
    return dumps(replace(sound, entries=tuple(
        replace(entry, round=replace(entry.round, index=index)) for index, entry in enumerate(entries))))


def test_a_long_run_arrives_whole_and_a_link_leads_to_any_of_its_rounds(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "long.jsonl", long_file())
    assert page.evaluate(f"{STAGE}.rounds.map((made) => made.index)") == list(range(ROUNDS))
    run = page.evaluate(RUN)
    page.goto("about:blank")
    page = watched.open(f"{address}#mode=workbench&trace={run}&round={ROUNDS - 3}")
    assert page.evaluate(f"[{STAGE}.rounds.length, {STAGE}.current]") == [ROUNDS, ROUNDS - 4]
