"""Measurements on a rig: benchmarks of passes and rounds, what-ifs, and the doctor for low acceptance."""
