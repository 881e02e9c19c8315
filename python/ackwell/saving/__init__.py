"""The persistence of a cursor: states as entries of a store, and back.

`delta` finds and applies what changed between two states. `parts` writes a save as entries. `journal`
saves states one after another, and `recovery` finds the newest one. `chunks` reads and writes the entries
of PIP-381, which is a broker's format and not that of our stores.
"""
