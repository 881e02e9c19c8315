"""Receipts: the answers to acknowledgment commands, sent only after the acknowledgment is durable.

An acknowledgment changes the state in memory at once, so that no consumer gets the message again. Its receipt
waits here until a saved state includes the acknowledgment. If a save fails, the receipts wait for the next
save. A log may be trimmed only up to the durable position `mark_delete`. (apache/pulsar#25528: if a broker
answers and trims before it writes, a failed write loses acknowledgments.)
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
    """The answer to an acknowledgment command that has a request id."""

    consumer: ConsumerKey
    request_id: int


class StagedState(NamedTuple):
    """A state that the caller saves."""

    info: PositionInfo
    receipts_before: int
    """The number of receipts that are added before this state is staged, counted from the first receipt ever
    added. The save of the state makes these receipts durable."""


class Durability(EqualByState):
    """The durable mark-delete position, and the receipts that wait for a save."""

    def __init__(self, cursor: Cursor) -> None:
        self._waiting: list[Receipt | None] = []
        # A consumer's receipts become `None` when it leaves. They stay in the list, because staged states
        # count them.
        self._given = 0
        self.mark_delete: Position = cursor.mark_delete_position
        """The mark-delete position of the last durable state."""

    def add(self, receipt: Receipt) -> None:
        """Add a receipt. It can be sent when the next staged state has been saved."""
        self._waiting.append(receipt)

    def forget(self, consumer: ConsumerKey) -> None:
        """Drop the receipts of a consumer that left, because a later consumer can have the same key."""
        self._waiting = [
            None if receipt is not None and receipt.consumer == consumer else receipt
            for receipt in self._waiting
        ]

    def stage(self, info: PositionInfo) -> StagedState:
        """Return the state `info` together with the number of receipts that its save makes durable."""
        return StagedState(info, self.waiting_now())

    def waiting_now(self) -> int:
        """Return the number of all receipts added so far, including those already returned.

        A state that is staged now makes all of them durable.
        """
        return self._given + len(self._waiting)

    def confirm(self, staged: StagedState) -> list[Receipt]:
        """Record that a staged state is durable, and return the receipts to send.

        Confirm states in the order in which they were staged.
        """
        return self.record_save(Position(*staged.info.position), staged.receipts_before)

    def record_save(self, mark_delete: Position, receipts_before: int) -> list[Receipt]:
        """Record that a state is durable, and return the receipts to send.

        `mark_delete` is the mark-delete position of the state. `receipts_before` is the result of
        `waiting_now` at the time at which the state was taken.
        """
        due = max(receipts_before - self._given, 0)
        given, self._waiting = self._waiting[:due], self._waiting[due:]
        self._given += due
        self.mark_delete = mark_delete
        return [receipt for receipt in given if receipt is not None]

    @property
    def waiting(self) -> int:
        """The number of receipts that wait for a save."""
        return len(self._waiting)
