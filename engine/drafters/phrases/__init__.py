"""Drafts from phrases: what the target wrote after these tokens, elsewhere and in this text."""
