"""Rigs: a target with its drafters, loaded, answering, one in another's place."""
