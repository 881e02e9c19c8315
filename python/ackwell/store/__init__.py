"""Where the entries of a saved state live."""
