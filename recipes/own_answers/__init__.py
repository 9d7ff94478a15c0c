"""Trains drafters on their target's own answers."""
