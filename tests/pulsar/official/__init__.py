"""Random sequences of the official Python client on a live broker, compared with our model.

The client decides by itself when it grants permits, and how it groups acknowledgments. So it comes through
a `tap`, and ours is given the commands that passed: `wire` says what each means, `play` what the client is
told to do.
"""
