"""What an engine is: a module that has the structures under these names.

`ackwell._native` (the default) and `ackwell.reference` both satisfy `Engine`; the differential
tests hold them to the same results and the same errors.
"""
