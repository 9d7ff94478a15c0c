"""What the page asks of rigs: to open one that takes another's place, and to measure with it."""
