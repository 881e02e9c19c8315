"""The coordinator of transactions: which are open, and which topics and subscriptions take part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol.command_ack import TransactionId

if TYPE_CHECKING:
    from ackwell.devbroker.shared import Shared


class Coordinator:
    """Opens transactions, and keeps what takes part in each until it ends."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.open = PersistentMap[dict[str, Any]](shared.file, "transaction")
        """By transaction: its topics, its subscriptions and when it expires, `None` for never."""

    def begin(self, coordinator_id: int, expires_ms: int | None) -> TransactionId:
        """Open a transaction; its id was never given before."""
        transaction = TransactionId(coordinator_id, self._shared.next_number("transaction"))
        self.open[str(transaction)] = {"topics": [], "subscriptions": [], "expires_ms": expires_ms}
        return transaction

    def is_open(self, transaction: TransactionId) -> bool:
        """Return whether a transaction was begun and did not end."""
        return str(transaction) in self.open

    def check(self, transaction: TransactionId) -> dict[str, Any]:
        """Return an open transaction; `RefusedError` for any other."""
        found = self.open.get(str(transaction))
        if found is None:
            raise CommandRefusedError(
                ErrorCode.TRANSACTION_NOT_FOUND, f"transaction {transaction} is not open"
            )
        return found

    def add(self, transaction: TransactionId, part: str, names: Iterable[Any]) -> None:
        """Let topics or subscriptions take part."""
        found = self.check(transaction)
        self.open[str(transaction)] = found | {part: [*found[part], *names]}

    def end(self, transaction: TransactionId) -> dict[str, Any]:
        """Return an open transaction, which ends; `RefusedError` for any other."""
        found = self.check(transaction)
        del self.open[str(transaction)]
        return found
