"""Drafts from phrases: what the target wrote after the last tokens, elsewhere and in this text."""
