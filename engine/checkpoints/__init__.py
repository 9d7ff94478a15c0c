"""Finding, checking and loading checkpoints: folders, the hub, GGUF files, memory, architectures, several GPUs."""

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this room imports torch
