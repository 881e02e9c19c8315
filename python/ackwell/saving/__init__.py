"""Saves the state of a cursor as entries of a store, and loads it.

`delta` computes and applies the change between two states. `parts` encodes one save as entries. `journal`
saves successive states, and `recovery` finds the newest state. `chunks` reads and writes the entries of
PIP-381, which is a format of brokers. ackwell's stores do not use it; they use the format of `parts`.
"""
