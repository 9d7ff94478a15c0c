"""Measurements on a rig: benchmarks of passes and rounds, what-ifs, and the doctor for low acceptance."""

from __future__ import annotations

from engine.machine.threads import settle

settle()  # before any file of this room imports torch
