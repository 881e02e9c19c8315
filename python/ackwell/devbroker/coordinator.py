"""The transaction coordinator. It stores the open transactions, their topics and their subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol.command_ack import TransactionId

if TYPE_CHECKING:
    from ackwell.devbroker.shared import SharedState


class Coordinator:
    """The open transactions, each with its topics and subscriptions."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self.open = PersistentMap[dict[str, Any]](shared.file, "transaction")
        """Maps the id of an open transaction to its topics, subscriptions, start time and timeout (0: none).

        The names of topics are those that the client sent. They may be short names.
        """

    def begin(self, coordinator_id: int, opened_ms: int, timeout_ms: int) -> TransactionId:
        """Open a transaction, and return its new id."""
        transaction = TransactionId(coordinator_id, self._shared.next_number("transaction"))
        self.open[str(transaction)] = {
            "topics": [],
            "subscriptions": [],
            "opened_ms": opened_ms,
            "timeout_ms": timeout_ms,
        }
        return transaction

    def is_open(self, transaction: TransactionId) -> bool:
        """Return whether a transaction is open."""
        return str(transaction) in self.open

    def check(self, transaction: TransactionId) -> dict[str, Any]:
        """Return the topics, subscriptions, start time and timeout of an open transaction.

        `CommandRefusedError` if the transaction is not open.
        """
        found = self.open.get(str(transaction))
        if found is None:
            raise CommandRefusedError(
                ErrorCode.TRANSACTION_NOT_FOUND, f"transaction {transaction} is not open"
            )
        return found

    def add(self, transaction: TransactionId, part: str, names: Iterable[Any]) -> None:
        """Add topics or subscriptions to a transaction; `part` is `topics` or `subscriptions`."""
        found = self.check(transaction)
        self.open[str(transaction)] = found | {part: [*found[part], *names]}

    def end(self, transaction: TransactionId) -> dict[str, Any]:
        """Remove an open transaction. Return its topics, subscriptions, start time and timeout.

        `CommandRefusedError` if the transaction is not open.
        """
        found = self.check(transaction)
        del self.open[str(transaction)]
        return found
