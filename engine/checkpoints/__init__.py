"""Finding, checking and loading checkpoints: folders, the hub, GGUF files, memory, architectures, several GPUs."""

from engine.machine.threads import settle

settle()  # before any file of this room imports torch
