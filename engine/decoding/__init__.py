"""The decoding loop: drafters and target in, rounds out. See ``plan.py`` (who takes part), then ``loop.py``."""
