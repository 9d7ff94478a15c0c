"""Measurements on a rig: benchmarks of passes and rounds, what-ifs, and the doctor for low acceptance."""

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this room imports torch
