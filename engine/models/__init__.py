"""The target: its forward passes over prompts and trees, KV cache, layers, masks, sampling and self-test."""

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this room imports torch
