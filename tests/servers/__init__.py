"""Real servers, driven by hand: see make test-servers."""
