"""What a process takes from the machine it runs on: its cores, its files."""
