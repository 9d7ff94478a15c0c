"""The decoding loop, from drafters and target to rounds. Read ``protocols.py`` (who takes part), then ``loop.py``."""
