"""Training drafters on what their target itself answers."""
