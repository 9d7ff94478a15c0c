"""The page: what a decoding run looks like."""
