"""A cursor's state as entries of a store, and back.

`snapshot` cuts one state into entries and puts it together again; `delta` is what changed between two
states; `journal` saves one after another, and `recovery` finds the newest whole one.
"""
