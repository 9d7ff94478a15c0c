"""EAGLE-3 drafters: one layer over fused features of the target, a token at a time."""
