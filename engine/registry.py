"""Looks up code by name when it is needed: a module and what it holds are called the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Table(Mapping[str, Entry], Generic[Entry]):
    """A mapping from a name to the object of that name in the module of that name, imported on first use."""

    def __init__(self, package: str, *names: str) -> None:
        self.package, self.names = package, names

    def __getitem__(self, name: str) -> Entry:
        if name not in self.names:
            raise KeyError(f"{self.package} has no {name!r}; it has {', '.join(self.names)}")
        entry: Entry = getattr(import_module(f"{self.package}.{name}"), name)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
