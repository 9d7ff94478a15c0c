"""Drafters: what was committed in, a lattice of proposals out."""
