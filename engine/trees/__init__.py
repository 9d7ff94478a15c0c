"""A draft tree: what its parents say, how it becomes rows of a pass, and the heap that its best nodes come from."""
