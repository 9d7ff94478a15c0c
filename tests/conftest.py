"""Property-based tests run the same examples every time, however busy the machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("canopy", deadline=None, derandomize=True, database=None)
settings.load_profile("canopy")
