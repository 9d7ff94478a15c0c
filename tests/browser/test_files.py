"""Opening and saving files in the page."""

import base64
import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import pandas
import pytest

from engine.recorder import Recorder
from engine.trace import dumps, loads
from tests.browser.actions import RUN, STAGE, show_round, upload
from tests.browser.conftest import Watched
from tests.explorer.scripted import scripted_trace

pytestmark = pytest.mark.long

MERGED = scripted_trace("merged", 64)
DROP = """([name, data]) => {
    const given = new DataTransfer();
    given.items.add(new File([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], name));
    document.body.dispatchEvent(new DragEvent("dragover", { dataTransfer: given, bubbles: true, cancelable: true }));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
}"""
GOOD = dumps(scripted_trace("routed", 12))
BROKEN = {
    "cut.jsonl.gz": (gzip.compress(GOOD)[:900], "cut off"),
    "newer.jsonl": (json.dumps({"canopy_trace": 7}).encode() + b"\n{}\n", "version 7"),
    "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, "not a Canopy trace"),
    "huge.jsonl": (b"0" * (50 * 2**20), "50 MiB"),
}


def menu_item(page: Any, label: str, note: str) -> Any:
    """Open the Save menu and return one of its entries."""
    page.get_by_role("button", name="Save or share this run").click()
    return page.get_by_role("menuitem").filter(has=page.get_by_text(label, exact=True)).filter(has_text=note).first


def save(page: Any, label: str, note: str) -> tuple[str, bytes]:
    """Choose an entry of the Save menu; return the file's name and bytes."""
    entry = menu_item(page, label, note)
    with page.expect_download() as waiting:
        entry.click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def open_recording(watched: Watched, address: str, trace: str, number: int) -> Any:
    """Return the page on a round of a recording, once it is drawn."""
    page = watched.open(f"{address}#trace={trace}&mode=workbench&round={number}")
    page.wait_for_function(f"{RUN} === '{trace}' && {STAGE}.current === {number - 1} && Canopy.parts.frames.settled")
    return page


def test_a_broken_file_is_refused_by_name_and_a_valid_one_fills_the_bar(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    for name, (data, reason) in BROKEN.items():
        upload(page, name, data)
        sentence = page.locator(".cs-notice.is-error p").inner_text()
        assert name in sentence and reason in sentence and "\n" not in sentence
        assert page.evaluate(RUN) == "welcome" and page.evaluate(f"{STAGE}.rounds.length") > 0
    page.evaluate(DROP, ["mine.jsonl.gz", base64.b64encode(gzip.compress(GOOD)).decode()])
    page.wait_for_function(f"{STAGE}.header.method === 'routed' && {STAGE}.header.budget === 12")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '12'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'routed'")
    name, data = save(page, "Trace", "the whole run")
    assert name.endswith(".jsonl.gz") and dumps(loads(data)) == GOOD


def test_a_recording_with_gaps_shows_them_and_characters_of_several_tokens(
        watched: Watched, address: str, tmp_path: Path) -> None:
    page, first, second = watched.open(f"{address}#mode=workbench"), *(bytes([byte]) for byte in "τ".encode())
    texts = {1: "a", 2: first, 3: second, 4: "b", 5: " = ", 6: "<i>"}
    with Recorder(tmp_path / "run.jsonl", token_text=texts) as recorder:
        for tokens, bonus in (
                ((1, 2), 3), ((3, 5), 4), ((4, 4), -1), ((6, 2), 4), ((1, 1), -1), ((1, 1), -1), ((4, 4), 1)):
            recorder.round(tokens=tokens, parents=[0, 0], keep=[0, 1], bonus=bonus)
    upload(page, "run.jsonl", (tmp_path / "run.jsonl").read_bytes())
    page.wait_for_function(f"{STAGE}.rounds.length === 4")
    assert page.evaluate("document.querySelector('.cs-output').textContent") == "aτ = […]<i>\ufffd[…]bb"
    assert "3 rounds were refused" in page.evaluate(f"{STAGE}.about.remark")
    page.click(".cs-part:last-child .cs-token")
    page.wait_for_function(f"{STAGE}.current === 3")
    assert page.inner_text(".cs-place") == "round 7, 4 of 4 recorded"

    rows = GOOD.splitlines()
    rows[2] = b'{"round":7}'
    upload(page, "unsound.jsonl", b"\n".join(rows) + b"\n")
    page.wait_for_function(f"{STAGE}.rounds.length === {len(rows) - 3} && {STAGE}.header.budget === 12")
    page.wait_for_selector("text=line 3 cannot be read")
    assert page.locator(".cs-missing").count() == 1


def test_tables_trees_and_pictures_are_saved_as_files(watched: Watched, address: str) -> None:
    page = open_recording(watched, address, "merged", 4)
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    kept = [len(entry.round.acceptance.keep) for entry in MERGED.entries]
    name, data = save(page, "Table of rounds", "CSV")
    assert name.endswith(".csv") and pandas.read_csv(io.BytesIO(data))["tokens_kept"].tolist() == kept
    name, data = save(page, "Tree of this round", "GraphML")
    assert networkx.parse_graphml(data.decode()).number_of_nodes() == len(MERGED.entries[3].round.tree)
    prompt = page.evaluate(f"{STAGE}.header.prompt.slice(0, 20)")
    for title, min_width in (("Draft tree", 200), ("Marginals", 200), ("Ancestor mask", 200), ("Verifier walk", 200),
                             ("KV cache", 200), ("Text", 300), ("Whole view", 1300)):
        name, drawn = save(page, title, "SVG")
        root = ElementTree.fromstring(drawn)
        assert name.endswith("-round-4.svg") and len(list(root.iter())) > 10, title
        assert min_width == 200 or prompt in "".join(root.itertext()), title
        _, painted = save(page, title, "PNG")
        width, height = struct.unpack(">II", painted[16:24])
        assert painted.startswith(b"\x89PNG") and width > 2 * min_width and height > 150 and len(painted) > 2000, title
    words = " ".join(ElementTree.fromstring(save(page, "KV cache", "SVG")[1]).itertext())
    read = "['prompt', 'rig', 'recorded'].map((name) => Canopy.parts.stage.header[name].split(' ')[0])"
    prompt, rig, date = page.evaluate(read)
    assert all(fact in words for fact in (prompt, rig, date, "merged", "round 4 of")), "small print says what it shows"
    assert "Continue" not in words and "by time" not in drawn.decode(), "and no button"
    page.evaluate(f"{STAGE}.tryBudget(3)")
    page.wait_for_function(f"{STAGE}.budgetPreview.round")
    assert b"predicted: merged, 3 nodes" in save(page, "Draft tree", "SVG")[1]


def test_a_picture_saved_right_after_choosing_a_round_shows_that_round(watched: Watched, address: str) -> None:
    page = open_recording(watched, address, "merged", 4)
    entry = menu_item(page, "KV cache", "SVG")
    with page.expect_download() as waiting:
        entry.evaluate("(entry) => { Canopy.parts.stage.go(5); entry.click(); }")
    name, drawn = waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()
    page.wait_for_function("Canopy.parts.frames.settled")
    assert name.endswith("-round-6.svg") and (name, drawn) == save(page, "KV cache", "SVG")


def test_an_empty_panel_says_so(watched: Watched, address: str) -> None:
    page = open_recording(watched, address, "plain", 2)
    menu_item(page, "Marginals", "SVG").click()  # this run has no drafter
    page.wait_for_selector(".cs-toast >> text=nothing to draw")


def test_a_shared_page_opens_from_disk_at_its_view_without_requests(
        watched: Watched, address: str, tmp_path: Path) -> None:
    page = open_recording(watched, address, "merged", 3)
    menu_item(page, "Share …", "").click()
    page.get_by_label("Title").fill("<b>Mine</b>")
    page.get_by_label("Comment").fill("Look at this.")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as one file").click()
    file = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(file)
    page.goto("about:blank")
    page.goto(file.as_uri())
    page.wait_for_function(f"window.Canopy && Canopy.parts && {STAGE}.rounds.length === {len(MERGED.entries)}")
    assert page.evaluate(f"[{STAGE}.current, {STAGE}.mode]") == [2, "workbench"]
    assert page.locator(".cs-run-title").inner_text().startswith("<b>Mine</b>")
    page.evaluate(f"""() => {{
        {STAGE}.comparison = {{ state: "ended", text: {{}}, tracks: {{}}, speed: {{ withheld: "Busy." }} }};
        {STAGE}.emit("compared");
    }}""")
    assert page.locator(".cs-notice.is-note").inner_text().startswith("Look at this.")
    assert page.locator(".cs-notice.is-note").is_visible() and page.locator(".cs-plainly").is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(f"{STAGE}.setMode('story')")
    assert page.locator(".cs-notice.is-note").inner_text().startswith("Look at this."), "the story shows the note"
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length === "
                           f"{len(MERGED.entries[2].round.tree)}")
    page.keyboard.press("End")
    assert page.locator(".cs-part").count() == len(MERGED.entries)
    show_round(page, 1)
    name, picture = save(page, "Draft tree", "SVG")
    assert name == "tree-round-2.svg" and ElementTree.fromstring(picture).tag.endswith("svg")
    watched.foreign[:] = [url for url in watched.foreign if not url.startswith(file.as_uri())]


def test_a_shared_link_lasts_until_somebody_deletes_the_run(watched: Watched, neighbour: Watched, address: str) -> None:
    page = open_recording(watched, address, "merged", 3)
    menu_item(page, "Share …", "").click()
    page.get_by_label("Title").fill("For you")
    page.get_by_role("button", name="Copy a link that lasts").click()
    page.wait_for_function("document.querySelector('.cs-share input[readonly]').value")
    link = page.get_by_label("Link").input_value()
    other = neighbour.open(link)
    other.wait_for_function(f"{RUN}.startsWith('shared-') && {STAGE}.current === 2 && {STAGE}.mode === 'workbench'")
    assert other.locator(".cs-run-title").inner_text().startswith("For you")
    menu_item(other, "Delete shared run", "").click()
    other.get_by_role("button", name="Delete it").click()
    other.wait_for_selector(".cs-toast >> text=Deleted")
    page.goto("about:blank")
    watched.open(link).wait_for_selector(".cs-notice.is-error >> text=was deleted")
