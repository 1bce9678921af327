"""Runs: their settings, the stages as data, the driver that executes them, run folders, and sweeps."""
