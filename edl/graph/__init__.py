"""Landmark graphs, built from observed moves alone. Exploration (`frontier`) and walking distance share them.

`landmarks` builds the graph from the evidence of moves, `shortest_paths` searches it, and `weighted_graph` builds
graphs whose edges have lengths, for walking distance.
"""
