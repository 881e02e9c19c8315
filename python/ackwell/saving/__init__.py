"""The persistence of a cursor: writing states as entries of a store, and reading them.

`delta` computes and applies the change between two states. `parts` writes a save as entries. `journal` saves
successive states, and `recovery` finds the newest one. `chunks` reads and writes the entries of PIP-381, a
broker's format; ackwell's stores use the format of `parts`.
"""
