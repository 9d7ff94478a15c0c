"""Draft trees: depths, paths and masks from parents, rows of a pass, and the heap that finds the best nodes."""
