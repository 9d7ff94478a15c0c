"""The lab: sweeps, races and the statistics of measured runs. Torch-free; see ``settings.py`` first."""
