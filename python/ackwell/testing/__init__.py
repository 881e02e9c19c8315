"""What proves a store of one's own: the conformance suite `stores`, and `crashes` at every byte of a save."""
