"""Drafters: each reads what was committed and proposes a lattice of what may follow."""
