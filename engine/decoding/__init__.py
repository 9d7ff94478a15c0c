"""The decoding loop: from target and drafters to rounds. Read ``protocols.py``, then ``loop.py``."""
