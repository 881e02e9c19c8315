"""Scripts of real clients. Their notes must be equal on a real broker and on the dev broker."""
