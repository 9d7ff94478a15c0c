"""Documents name what exists: tables render, links lead to files, commands name a module or a make target.

The flags of the commands are checked beside the command lines, which need torch."""

import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.house.reading import HOUSE

ELSEWHERE = {".git", ".venv", ".training", "node_modules"}
DATED = "LOG.md"  # describes the past: files that it names may have moved
DOCUMENTS = sorted(path for place in HOUSE.iterdir() if place.name not in ELSEWHERE
                   for path in ([place] if place.is_file() else place.rglob("*")) if path.suffix == ".md")


def outside_fences(text: str) -> list[str]:
    """Return the document's lines, with empty ones in place of code."""
    fenced, lines = False, []
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        lines.append("" if fenced or line.startswith("```") else line)
    return lines


def cells(row: str) -> int:
    """Return the number of cells of a table row; bars in code or after a backslash separate nothing."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row.strip()))) - 1


def broken_tables(text: str) -> list[str]:
    """Return the first row of every table without a line of dashes below its head or with rows of unequal length."""
    broken = []
    for is_row, lines in groupby(outside_fences(text), lambda line: line.lstrip().startswith("|")):
        rows = list(lines)
        headed = len(rows) > 1 and re.fullmatch(r"[|\s:-]+", rows[1])
        if is_row and (not headed or len({cells(row) for row in rows}) > 1):
            broken.append(rows[0])
    return broken


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every command, fenced or inline, up to a pipe or a comment."""
    fences = [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
              if language in ("", "sh", "bash")]
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", re.sub(r"(?ms)^```.*?^```", "", text))]
    for line in [*"\n".join(fences).replace("\\\n", " ").splitlines(), *spans]:
        if re.match(r"\s*(python|make|canopy) \S", line):
            words = shlex.split(line, comments=True)
            yield words[:words.index("|")] if "|" in words else words


def missing(words: list[str]) -> str:
    """Return what the command names but does not exist, or ""."""
    if words[:2] == ["python", "-m"]:
        path, ours = HOUSE.joinpath(*words[2].split(".")), ("engine", "explorer", "recipes", "tests")
        there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        return "" if there or words[2].split(".")[0] not in ours else words[2]
    if words[0] == "python":
        return "" if (HOUSE / words[1]).exists() else words[1]
    makefile = (HOUSE / "Makefile").read_text(encoding="utf8")
    target = words[0] != "make" or re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE)
    return "" if target else words[1]


def broken_links(document: Path, text: str) -> list[str]:
    """Return the links to files that do not exist."""
    return [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (document.parent / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_document_renders_and_names_only_what_exists(document: Path) -> None:
    text = document.read_text(encoding="utf8")
    assert broken_tables(text) == []
    assert broken_links(document, text) == []
    if document.name != DATED:
        assert [" ".join(words) for words in commands(text) if missing(words)] == []


def test_the_checks_find_faults_and_accept_correct_documents() -> None:
    assert broken_tables("| a | b |\n|---|---|\n| 1 |\n") == ["| a | b |"]
    assert list(commands("```\nmake run A=\"b c\"  # why\n```\n`python -m engine.no x` and `make`")) == [
        ["make", "run", "A=b c"], ["python", "-m", "engine.no", "x"]]
    assert missing(["python", "-m", "engine.no"]) == "engine.no" and missing(["make", "tea"]) == "tea"
    assert not missing(["make", "run"]) and not missing(["python", "-m", "engine", "generate"])
    assert broken_links(HOUSE / "README.md", "[a](engine/no.py), [b](engine/README.md#glossary), [c](engine)") == [
        "engine/no.py"]
