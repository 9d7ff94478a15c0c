"""Gradio, imported in two thirds of the time."""

from __future__ import annotations

import inspect
from importlib import import_module
from unittest.mock import patch


def import_quickly() -> None:
    """Import Gradio without the stubs for editors that it writes at every import.

    For these it parses the source of all its components (gradio 6.31, ``component_meta.py``): 1.1 of 3.1 s of
    processor time, measured on 2026-11-22. It leaves out a component that has no file, so no class has one
    meanwhile.
    """
    with patch.object(inspect, "getfile", side_effect=OSError("Gradio is being imported.")):
        import_module("gradio")
