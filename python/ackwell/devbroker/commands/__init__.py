"""What the broker does with each command; `devbroker.handlers` is the table of them."""
