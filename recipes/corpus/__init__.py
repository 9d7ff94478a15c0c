"""The demo rig's corpus, generated: every domain is a function from a random generator to an ``Item``."""
