"""A standing attack on Canopy: see ``SECURITY.md`` and ``make attack``."""
