"""What the documents say is there: tables render, files exist, commands name a module or a make target that is there.

That the commands' flags are taken, too, is checked beside the command lines, which need torch.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.house.reading import HOUSE

ELSEWHERE = {".git", ".venv", ".training", "node_modules"}
DATED = "LOG.md"  # says what was, so the files it names may have moved since
SUFFIXES = (".py", ".js", ".css", ".json", ".jsonl", ".txt", ".md", ".toml", ".html", "Makefile", "Dockerfile", "/")
# Files of checkpoints and of those who run Canopy, named in the documents and no part of the repository.
OTHERS = {"config.json", "rig.json", "model.safetensors.index.json", "tokenizer.json", "run.jsonl", "training.json"}


def everything(folder: Path) -> Iterator[Path]:
    """Every file and folder of the repository below this one."""
    for path in sorted(folder.iterdir()):
        if path.name not in ELSEWHERE:
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from everything(path)


PLACES = list(everything(HOUSE))
DOCUMENTS = [path for path in PLACES if path.suffix == ".md"]


def outside_fences(text: str) -> list[str]:
    """The lines of a document, empty where they are code."""
    fenced, lines = False, []
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        lines.append("" if fenced or line.startswith("```") else line)
    return lines


def cells(row: str) -> int:
    """How many cells a row of a table has; a bar in code or with a backslash parts nothing."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row.strip()))) - 1


def broken_tables(text: str) -> list[str]:
    """The first row of every table that does not render: no line of dashes below its head, or rows of other lengths."""
    broken = []
    for is_row, lines in groupby(outside_fences(text), lambda line: line.lstrip().startswith("|")):
        rows = list(lines)
        headed = len(rows) > 1 and re.fullmatch(r"[|\s:-]+", rows[1])
        if is_row and (not headed or len({cells(row) for row in rows}) > 1):
            broken.append(rows[0])
    return broken


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command line, fenced or in a line of text, up to a pipe or a comment."""
    fences = [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
              if language in ("", "sh", "bash")]
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", re.sub(r"(?ms)^```.*?^```", "", text))]
    for line in [*"\n".join(fences).replace("\\\n", " ").splitlines(), *spans]:
        if re.match(r"\s*(python|make|canopy) \S", line):
            words = shlex.split(line, comments=True)
            yield words[:words.index("|")] if "|" in words else words


def missing(words: list[str]) -> str:
    """What a command names that is not there, or nothing."""
    if words[:2] == ["python", "-m"]:
        path, ours = HOUSE.joinpath(*words[2].split(".")), ("engine", "explorer", "recipes", "tests")
        there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        return "" if there or words[2].split(".")[0] not in ours else words[2]
    if words[0] == "python":
        return "" if (HOUSE / words[1]).exists() else words[1]
    makefile = (HOUSE / "Makefile").read_text(encoding="utf8")
    target = words[0] != "make" or re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE)
    return "" if target else words[1]


def is_there(document: Path, name: str) -> bool:
    """From the document's folder or one above it, or, where it is a bare name, anywhere below the document's folder."""
    pattern = name.rstrip("/")
    above = [folder for folder in document.parents if folder == HOUSE or HOUSE in folder.parents]
    return any(next(folder.glob(pattern), None) for folder in above) or (
        "/" not in pattern and any(path.match(pattern) for path in PLACES if document.parent in path.parents))


def files_named(text: str) -> set[str]:
    """What stands in code and looks like a file or a folder of the repository, and what is linked."""
    spans = re.findall(r"`([^`\n]+)`", "\n".join(outside_fences(text)))
    names = {re.sub(r"\b(RIG|NAME|KIND)\b", "*", span) for span in spans  # a word that stands for many
             if re.fullmatch(r"[\w./*-]+", span) and span.endswith(SUFFIXES)}
    return (names | set(re.findall(r"\]\(([^)#:]+)\)", text))) - OTHERS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_document_renders_and_names_what_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf8")
    assert broken_tables(text) == []
    if document.name != DATED:
        assert [" ".join(words) for words in commands(text) if missing(words)] == []
        assert sorted(name for name in files_named(text) if not is_there(document, name)) == []


def test_the_checks_see_what_they_should() -> None:
    assert broken_tables("| a | b |\n|---|---|\n| `x|y` | 1 |\n") == []
    assert broken_tables("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n") == ["| 3 | 4 |"]
    assert broken_tables("| a | b |\n|---|---|\n| 1 |\n") == ["| a | b |"]
    assert list(commands("```\nmake run A=\"b c\"  # why\n```\n`python -m engine.no x` and `make`")) == [
        ["make", "run", "A=b c"], ["python", "-m", "engine.no", "x"]]
    assert missing(["python", "-m", "engine.no"]) == "engine.no" and missing(["make", "tea"]) == "tea"
    assert not missing(["make", "run"]) and not missing(["python", "-m", "engine", "generate"])
    assert files_named("`a-RIG.json`, `READ.md`") == {"a-*.json", "READ.md"}
    assert files_named("`a/b.py`, `x == y`, `config.json`, [c](d/e.png)") == {"a/b.py", "d/e.png"}
    assert not is_there(HOUSE / "README.md", "engine/no.py") and is_there(HOUSE / "README.md", "engine/")
