"""A pytest plugin that makes every import of torch fail, for test runs that have to be fast."""

from __future__ import annotations

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

HEAVY = frozenset({"torch", "transformers"})


class Refused(Loader):
    """Refuse to load a module, and say what to do."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Raise ImportError."""
        raise ImportError(f"{spec.name} has no place in `make quick`; mark the test slow, or move it to a torch room.")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: this is never reached."""


class NoTorch:
    """Find modules before all other finders do."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return a spec that refuses to load for torch and packages that need it, and None for other modules."""
        return ModuleSpec(name, Refused()) if name.partition(".")[0] in HEAVY else None


sys.meta_path.insert(0, NoTorch)
