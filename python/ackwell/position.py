"""The position of an entry: its ledger id and its entry id."""

from __future__ import annotations

from typing import NamedTuple, Self

from ackwell.integers import is_int64


class Position(NamedTuple):
    """The position `(ledger_id, entry_id)` of an entry. Positions are ordered by ledger id, then by entry id.

    Both ids are int64 and at least 0. Entry id -1, in Pulsar's notation `3:-1`, is valid only as an exclusive
    lower bound. Functions that take a `Position` also accept a tuple of two integers.

    >>> Position(3, 15)
    Position(ledger_id=3, entry_id=15)
    >>> str(Position(3, -1))
    '3:-1'
    """

    ledger_id: int
    entry_id: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a position in Pulsar's notation, `ledger:entry`.

        Raises `ValueError` for other texts, and `TypeError` for other types.

        >>> Position.parse("3:15")
        Position(ledger_id=3, entry_id=15)
        """
        if not isinstance(text, str):
            raise TypeError(f"a position of type {type(text).__name__}; expected 'ledger:entry'")
        ledger_id, separator, entry_id = text.partition(":")
        try:
            if not separator:
                raise ValueError
            found = cls(int(ledger_id), int(entry_id))
        except ValueError:
            raise ValueError(f"not a position: {text!r}; expected 'ledger:entry'") from None
        if not all(map(is_int64, found)):
            raise ValueError(f"not a position: {text!r}; its numbers are int64")
        return found

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"
