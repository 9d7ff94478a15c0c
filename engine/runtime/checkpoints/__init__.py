"""Finding, checking and loading checkpoints: folders, the hub, GGUF files, memory, architectures, several GPUs."""
