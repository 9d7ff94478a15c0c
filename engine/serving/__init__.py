"""Rigs: a target with its drafters, loaded and answering requests, and what its rounds cost."""

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this room imports torch
