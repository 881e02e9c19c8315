"""The coordinator of transactions: which are open, and which topics and subscriptions take part."""

from __future__ import annotations

from dataclasses import dataclass, field

from ackwell.devbroker.refusals import RefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol.command_ack import TransactionId


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that was not ended: the topics and subscriptions that take part."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


class Coordinator:
    """Opens transactions, and keeps what takes part in each until it ends."""

    def __init__(self) -> None:
        self.open: dict[TransactionId, OpenTransaction] = {}
        self._next = 0

    def begin(self, coordinator_id: int) -> TransactionId:
        """Open a transaction."""
        txn = TransactionId(coordinator_id, self._next)
        self._next += 1
        self.open[txn] = OpenTransaction()
        return txn

    def get(self, txn: TransactionId) -> OpenTransaction:
        """Return an open transaction; `RefusedError` for any other."""
        if txn not in self.open:
            raise RefusedError(ErrorCode.TRANSACTION_NOT_FOUND, f"transaction {txn} is not open")
        return self.open[txn]

    def take(self, txn: TransactionId) -> OpenTransaction:
        """Return an open transaction, which ends; `RefusedError` for any other."""
        found = self.get(txn)
        del self.open[txn]
        return found
