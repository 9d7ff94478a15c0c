"""Rigs: a target with its drafters, loaded and answering requests, and what its rounds cost."""

from engine.machine.threads import settle

settle()  # before any file of this room imports torch
