"""The torch half of the engine: a target from transformers, its cache, and rigs of checkpoints."""

from __future__ import annotations

from engine.machine.threads import settle

settle()  # before any file of this room imports torch
