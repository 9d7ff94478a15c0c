"""Drafts from the text itself: what followed the last tokens earlier in it."""
