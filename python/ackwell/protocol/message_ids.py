"""Converts between `MessageIdData`, which is the protocol's message id, and positions."""

from __future__ import annotations

from typing import Any

from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.wire import signed64


def position_of(message_id: Any) -> Position:
    """Return the position of a `MessageIdData`. Its ids may be negative, as in `earliest`.

    >>> position_of(message_id_of(Position(3, -1)))
    Position(ledger_id=3, entry_id=-1)
    """
    ledger_id, entry_id = message_id.ledgerId, message_id.entryId
    if (ledger_id | entry_id) >> 63:
        return Position(signed64(ledger_id), signed64(entry_id))
    return Position(ledger_id, entry_id)


def message_id_of(position: tuple[int, int], *, partition: int = -1) -> Any:
    """Return a `MessageIdData` for a position."""
    made = messages.MessageIdData(ledgerId=position[0] % 2**64, entryId=position[1] % 2**64)
    if partition >= 0:
        made.partition = partition
    return made
