"""The torch half of the engine: a target from transformers, its cache, and rigs of checkpoints."""
