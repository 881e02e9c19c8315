"""Consumers that acknowledge in transactions, and reconnect after each restart.

They use the binary protocol, because the official Python client has no transactions.

A broker that lost an acknowledgment delivers the entry again. If `rescue end` then restores the
acknowledgment, the consumer still has the entry. The broker refuses its acknowledgment in a transaction with
`TRANSACTION_CONFLICT`. The consumer aborts this transaction, and reconnects to receive the others again.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

from ackwell.errors import ErrorCode
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar.live.client import Client, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackwell import Position
    from tests.pulsar.cluster import Cluster

CONSUMER = 1
MANY = 1_000_000
ERRORS = (OSError, RefusedError, TimeoutError)
POLL_S = 0.05


class TransactionalConsumer:
    """One consumer of a Shared subscription."""

    def __init__(self, topic: str, subscription: str) -> None:
        self.name = topic, subscription
        self.acked: set[Position] = set()
        self.perhaps: set[Position] = set()
        """Entries of a commit or of an acknowledgment without an answer."""
        self.lost: set[Position] = set()
        """Acknowledged entries that were delivered again; a rescue may restore their acknowledgments."""
        self.again: list[tuple[float, Position]] = []
        """Each delivery of an acknowledged entry, with its time."""
        self.conflicts = 0
        """Transactions that the broker refused because a restored entry was in them."""
        self.errors: list[str] = []
        self.delivered: dict[Position, None] = {}
        """The entries that the consumer has and did not acknowledge, in order."""
        self._open: list[tuple[tuple[int, int], list[Position]]] = []
        self._chance = random.Random(crc32(topic.encode()))
        self._transactions = 0
        self._client: Client | None = None

    def poll(self, cluster: Cluster) -> bool:
        """Receive, and connect if it is not connected; return whether something was delivered."""
        if self._client is None:
            for broker in cluster.brokers:
                with suppress(*ERRORS):
                    self._client = self._connected(broker.ports.binary)
                    break
        if self._client is None:
            return False
        try:
            taken = self._client.take()
            if self._client.closed:
                raise ConnectionError("the broker closed the consumer")
        except ERRORS:
            self.close()
            return False
        now_s = time.monotonic()
        for each in taken:
            if each.position in self.acked:
                self.again.append((now_s, each.position))
                self.acked.remove(each.position)
                self.lost.add(each.position)
            self.delivered[each.position] = None
        return bool(taken)

    def _connected(self, port: int) -> Client:
        topic, subscription = self.name
        client = Client(port, topic, subscription)
        try:
            client.look_up()
            client.subscribe(CONSUMER, "transactions", SubscriptionType.SHARED)
            client.flow(CONSUMER, MANY)
        except ERRORS:
            client.close()
            raise
        self.delivered.clear()
        return client

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def chooses(self, entry: Position) -> bool:
        """Return whether the consumer acknowledges an entry: half of them."""
        return bool(crc32(f"{self.name}{entry}".encode()) % 2)

    def act(self) -> None:
        """Acknowledge half of the entries; commit, abort, or leave a transaction open until the next call."""
        if self._client is None:
            return
        try:
            self._act()
        except ERRORS as error:
            self.errors.append(repr(error))

    def _act(self) -> None:
        assert self._client is not None
        while self._open:
            self._end(*self._open.pop(), commit=True)
        wanted = list(filter(self.chooses, self.delivered))
        while wanted:
            size = self._chance.randint(1, 20)
            positions, wanted = wanted[:size], wanted[size:]
            self._transactions += 1
            transaction = crc32("".join(self.name).encode()), self._transactions
            self.perhaps |= {*positions}
            try:
                self._client.ack(CONSUMER, [(each, (), 0) for each in positions], transaction=transaction)
            except RefusedError as error:
                # Only a lost acknowledgment can be restored. Every other conflict is an error.
                if error.code is not ErrorCode.TRANSACTION_CONFLICT or not self.lost & {*positions}:
                    raise
                self.conflicts += 1
                self._end(transaction, positions, commit=False)
                # The broker removed the entries from the consumer, and delivers them to the next one.
                self.close()
                return
            if self._chance.random() < 0.1:
                self._open.append((transaction, positions))
            else:
                self._end(transaction, positions, commit=self._chance.random() < 0.9)

    def _end(self, transaction: tuple[int, int], positions: list[Position], *, commit: bool) -> None:
        assert self._client is not None
        self._client.end_transaction(transaction, commit=commit)
        self.perhaps -= {*positions}
        if commit:
            self.acked |= {*positions}
            self.lost -= {*positions}
        for each in positions:
            self.delivered.pop(each, None)


class TransactionalConsumers:
    """Polls its consumers in one thread; `act` runs in that of the caller."""

    def __init__(
        self, cluster: Cluster, names: Sequence[tuple[str, str]], on_delivery: Callable[[], None]
    ) -> None:
        self.consumers = [TransactionalConsumer(*name) for name in names]
        self._cluster = cluster
        self._on_delivery = on_delivery
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def act(self) -> None:
        """Acknowledge in transactions."""
        for each in self.consumers:
            with self._lock:
                each.act()

    def conflicts(self) -> int:
        """Return the number of transactions that were aborted because of a conflict."""
        return sum(each.conflicts for each in self.consumers)

    def close(self) -> None:
        """Stop the thread, and close every connection."""
        self._is_closed.set()
        self._thread.join()
        for each in self.consumers:
            each.close()

    def _run(self) -> None:
        while not self._is_closed.wait(POLL_S):
            for each in self.consumers:
                with self._lock:
                    if each.poll(self._cluster):
                        self._on_delivery()
