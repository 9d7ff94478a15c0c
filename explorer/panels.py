"""The panels of the stage: a panel is one new file and one line here."""

from __future__ import annotations

# Each is assets/panels/<name>.js, which defines it. The folder's other files are what panels draw with.
PANELS = ("tree", "marginals", "mask", "verifier", "cache", "batch")
