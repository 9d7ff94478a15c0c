"""What the page asks of live rigs: to open one in another's place, and to measure with it."""
