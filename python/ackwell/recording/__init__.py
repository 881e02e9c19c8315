"""Record what clients and a broker say to each other, as events that `ackwell replay` reads.

`watch` turns the frames of a connection into events, `proxy` runs between clients and a broker, and `files`
writes the events into files that rotate.
"""
