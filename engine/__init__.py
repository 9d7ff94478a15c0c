"""The method: decoding with draft trees, and everything that measures it."""
