"""What the dev broker costs, measured with real clients."""
