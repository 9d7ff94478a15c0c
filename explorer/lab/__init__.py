"""The lab of the page: sweeps, curves, races and reports. Never imports torch."""
