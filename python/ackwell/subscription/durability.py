"""Stage, persist, apply: an acknowledgment is never reported durable before it is.

An acknowledgment changes the state in memory at once, so that nobody gets the message again. Nobody is
*told*, though, and no log is trimmed, until a saved state holds it: receipts wait here, and
`mark_delete` is the durable one (apache/pulsar#25528: a broker that changes its memory first and then
fails to write has told and trimmed what a restart takes back). A save that fails leaves the receipts
waiting for the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

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


class Staged(NamedTuple):
    """A state frozen to be persisted."""

    info: PositionInfo
    receipts_before: int
    """How many receipts, of all that were ever owed, this state is the reason for."""


class Recovered(Protocol):
    """What a journal found."""

    @property
    def position_info(self) -> PositionInfo | None:
        """The newest state, or `None` where none was ever saved."""


class Journal(Protocol):
    """Where saved states go; `ackwell.saving.journal.Journal` is one over any store."""

    def save(self, state: PositionInfo, /) -> object:
        """Make a state durable; `StoreError` if that failed."""

    def load(self) -> Recovered:
        """Find the newest durable state."""


class Durability(EqualByState):
    """Which acknowledgments are durable, and whom to tell."""

    def __init__(self, cursor: Cursor) -> None:
        self._waiting: list[Receipt | None] = []
        # None where the consumer has left: a staged state counts it all the same.
        self._given = 0
        self.mark_delete: Position = cursor.mark_delete_position
        """Everything up to here is acknowledged, and durably so."""

    def owe(self, receipt: Receipt) -> None:
        """Let a receipt wait for the next state that is staged."""
        self._waiting.append(receipt)

    def forget(self, consumer: ConsumerKey) -> None:
        """Drop the receipts for a consumer that left; the next one of its name gets none of them."""
        self._waiting = [
            None if receipt is not None and receipt.consumer == consumer else receipt
            for receipt in self._waiting
        ]

    def stage(self, info: PositionInfo) -> Staged:
        """Tie the receipts that wait to this state, which holds what they are for."""
        return Staged(info, self._given + len(self._waiting))

    def confirm(self, staged: Staged) -> list[Receipt]:
        """Take note that a state is durable; give the receipts not given yet.

        States are confirmed in the order in which they were staged; one that a later one overtook
        gives nothing more.
        """
        due = max(staged.receipts_before - self._given, 0)
        given, self._waiting = self._waiting[:due], self._waiting[due:]
        self._given += due
        self.mark_delete = Position(staged.info.ledger_id, staged.info.entry_id)
        return [receipt for receipt in given if receipt is not None]

    @property
    def waiting(self) -> int:
        """Receipts that wait for a save."""
        return len(self._waiting)
