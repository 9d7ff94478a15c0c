"""The prompt sets of the lab: those that ship with it, and those that people upload."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from engine.errors import RequestError
from engine.lab.planning import prompt_set, shipped_sets
from engine.requests.prompts import Prompt, prompts_from
from explorer.uploads import Uploads
from explorer.view import View

TITLES: Mapping[str, str] = MappingProxyType({
    "all": "All domains", "math": "Arithmetic word problems", "code": "Small Python functions",
    "explain": "Questions and answers", "mixed": "A word problem and its function", "bench": "Benchmark: math and code",
    "check": "Exactness check"})
LARGEST_UPLOAD = 8 * 2**20  # bytes of a prompt file
MOST_PROMPTS = 10_000  # of a file; a sweep takes a tenth of them
MOST_UPLOADS = 8  # files that are remembered; the oldest is forgotten first


class PromptSets:
    """Prompts by the name of their set."""

    def __init__(self) -> None:
        self._shipped = {name: prompt_set(name) for name in (*TITLES, *shipped_sets()) if name in shipped_sets()}
        self.uploads = Uploads(LARGEST_UPLOAD)
        self._uploaded: OrderedDict[str, tuple[str, tuple[Prompt, ...]]] = OrderedDict()

    def named(self, name: str) -> tuple[Prompt, ...]:
        """The prompts of a set; RequestError with the names there are."""
        if name in self._uploaded:
            return self._uploaded[name][1]
        if name not in self._shipped:
            raise RequestError(f"There is no prompt set {name[:40]!r}; choose one of {', '.join(self._shipped)}, "
                               "or upload a file.")
        return self._shipped[name]

    def origin(self, name: str) -> str:
        """The source of its prompts that a sweep records: the set's name, or that of the uploaded file."""
        return self._uploaded[name][0] if name in self._uploaded else name

    def view(self) -> list[View]:
        """What the page lists: name, title, count."""
        shown = [{"name": name, "title": TITLES.get(name, name), "count": len(each)}
                 for name, each in self._shipped.items()]
        return shown + [{"name": name, "title": title, "count": len(each)}
                        for name, (title, each) in self._uploaded.items()]

    def add(self, upload: Mapping[str, Any]) -> str:
        """Remember an uploaded file, {"name", "upload" or "data": see ``Uploads.whole``}; the new set's name.

        RequestError where it is not UTF-8, empty, or has a line that is no prompt: it says which.
        """
        title, raw = Path(str(upload.get("name") or "")).name[:80] or "prompts.jsonl", self.uploads.whole(upload)
        name = f"upload-{uuid4().hex[:8]}"
        prompts = tuple(prompts_from(raw, title))
        if len(prompts) > MOST_PROMPTS:
            raise RequestError(f"{title} has {len(prompts):,} prompts; at most {MOST_PROMPTS:,} are taken, so split "
                               "it.")
        self._uploaded[name] = title, prompts
        while len(self._uploaded) > MOST_UPLOADS:
            self._uploaded.popitem(last=False)
        return name
