"""A plugin for runs that promise to be fast: torch is found but cannot be imported, in a test as in what it imports."""

from __future__ import annotations

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

HEAVY = frozenset({"torch", "transformers"})


class Refused(Loader):
    """Loads nothing, and says what to do."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """ImportError."""
        raise ImportError(f"{spec.name} has no place in `make quick`; mark the test slow, or move it to a torch room.")

    def exec_module(self, module: ModuleType) -> None:
        """Never reached."""


class NoTorch:
    """Asked before every other finder of modules."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """None, so that others look for the module; for torch and what rests on it, one that cannot be loaded."""
        return ModuleSpec(name, Refused()) if name.partition(".")[0] in HEAVY else None


sys.meta_path.insert(0, NoTorch)
