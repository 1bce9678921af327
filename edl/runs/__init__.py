"""Runs: what to do, doing it piece by piece, and the folder it leaves behind."""
