"""The command handlers of the broker; `devbroker.handlers` is their table."""
