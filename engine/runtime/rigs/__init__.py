"""Rigs: a target with its drafters, loaded and answering requests, and what its rounds cost."""
