"""The studio: a local web server to draw mazes, start runs and watch them (``edl studio``).

A run is an ordinary run folder made by a worker process, so nothing is lost if the server ends.
"""
