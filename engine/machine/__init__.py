"""What a process uses of the machine that it runs on: cores and files."""
