"""Cursor to bytes and back."""


class LossReport:
    """What a limit would cut."""
