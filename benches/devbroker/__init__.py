"""The cost of the dev broker, measured with real clients."""
