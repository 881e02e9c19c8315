"""Stage, save, confirm: an acknowledgment is never reported durable before it is.

An acknowledgment changes the state in memory at once, so that no consumer gets the message again. Its receipt
waits here until a saved state holds it, and no log is trimmed beyond `mark_delete`, the durable position.
(apache/pulsar#25528: a broker that reports and trims before it writes loses that when the write fails.)
When a save fails, the receipts wait for the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ackwell.equality import EqualByState
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import PositionInfo
    from ackwell.cursor import Cursor
    from ackwell.subscription.consumer import ConsumerKey


class Receipt(NamedTuple):
    """The answer to an acknowledgment command that asked for one."""

    consumer: ConsumerKey
    request_id: int


class StagedState(NamedTuple):
    """A state to be saved."""

    info: PositionInfo
    receipts_before: int
    """How many receipts, of all that ever waited, this state is the reason for."""


class Durability(EqualByState):
    """Which acknowledgments are durable, and whose receipts wait."""

    def __init__(self, cursor: Cursor) -> None:
        self._waiting: list[Receipt | None] = []
        # None if the consumer has left: a staged state counts it all the same.
        self._given = 0
        self.mark_delete: Position = cursor.mark_delete_position
        """Everything up to here is acknowledged in a durable state."""

    def add(self, receipt: Receipt) -> None:
        """Add a receipt that waits for the next state that is staged."""
        self._waiting.append(receipt)

    def forget(self, consumer: ConsumerKey) -> None:
        """Drop the receipts for a consumer that left; the next one of its name gets none of them."""
        self._waiting = [
            None if receipt is not None and receipt.consumer == consumer else receipt
            for receipt in self._waiting
        ]

    def stage(self, info: PositionInfo) -> StagedState:
        """Return the state with the number of receipts whose acknowledgments it holds."""
        return StagedState(info, self.waiting_now())

    def waiting_now(self) -> int:
        """Return how many receipts, of all that ever waited, a state of this moment is the reason for."""
        return self._given + len(self._waiting)

    def confirm(self, staged: StagedState) -> list[Receipt]:
        """Note that a state is durable, and return the receipts that were not returned yet.

        States are confirmed in the order in which they were staged.
        """
        return self.saved(Position(*staged.info.position), staged.receipts_before)

    def saved(self, mark_delete: Position, receipts_before: int) -> list[Receipt]:
        """Do the same for a state with this mark-delete position, and `waiting_now` of its moment."""
        due = max(receipts_before - self._given, 0)
        given, self._waiting = self._waiting[:due], self._waiting[due:]
        self._given += due
        self.mark_delete = mark_delete
        return [receipt for receipt in given if receipt is not None]

    @property
    def waiting(self) -> int:
        """How many receipts wait for a save."""
        return len(self._waiting)
