"""The decoding loop, from drafters and target to rounds. Read ``plan.py`` (who takes part), then ``loop.py``."""
