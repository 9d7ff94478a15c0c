"""The live budget controller, and what rounds cost. Torch-free."""
