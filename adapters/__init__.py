"""What one adds to another engine to record its rounds, and records of other tools as runs: see README.md."""
