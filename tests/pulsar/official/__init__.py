"""Random sequences of the official Python client on a live broker, compared with our model.

The client decides when it grants permits and how it groups acknowledgments. It therefore connects through a
`tap`, which passes its commands to ackwell as well: `wire` decodes them, and `play` chooses the client's
operations.
"""
