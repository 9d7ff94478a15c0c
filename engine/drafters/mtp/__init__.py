"""The layer for multi-token prediction (MTP) that a target's own checkpoint carries, as a drafter."""

from engine.drafters.mtp.drafter import mtp as mtp
