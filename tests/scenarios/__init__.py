"""Scripts of real clients, played on a real broker and on the dev broker: what they note must be the same."""
