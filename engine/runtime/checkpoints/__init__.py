"""Where checkpoints come from and what is read of them: folders, the hub, memory, architectures."""
