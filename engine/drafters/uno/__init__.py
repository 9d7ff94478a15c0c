"""UNO: the target drafts for itself, by a low-rank adapter on rows of noise."""

from engine.drafters.uno.drafter import uno as uno
