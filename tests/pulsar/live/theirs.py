"""The broker's side: an action as frames and admin requests, and the state in the broker's memory."""

from __future__ import annotations

import time
import urllib.error
import uuid
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from ackwell.errors import ErrorCode
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar.live import actions
from tests.pulsar.live.client import Client, Delivered, RefusedError

if TYPE_CHECKING:
    from tests.pulsar import kit
    from tests.pulsar.live.actions import Action
    from tests.pulsar.live.operations import Sequence

SUBSCRIPTION = "billing"
REWIND_S = 0.3
PARTITIONS = 4
FORGED_LEDGER = 1 << 40


class Theirs:
    """A topic of the broker, with one subscription."""

    def __init__(self, broker: kit.Broker, sequence: Sequence) -> None:
        self._broker = broker
        self._sequence = sequence
        self._namespace = f"s{sequence.seed}-{uuid.uuid4().hex[:8]}"
        self._name = f"public/{self._namespace}/topic"
        if sequence.partition is not None:
            self._name += f"-partition-{sequence.partition}"
        self.topic = f"persistent://{self._name}"
        self._type = SubscriptionType(sequence.type)
        self._subscribed = False
        self.published: list[tuple[Any, int]] = []
        """Position and sequence id of each entry published since the last call."""

    def connect(self) -> None:
        """Connect anew, after a start of the broker."""
        if not self._subscribed:
            self._broker.create_namespace(self._namespace)
            if self._sequence.partition is not None:
                path = f"persistent/public/{self._namespace}/topic/partitions"
                self._broker.admin("PUT", path, PARTITIONS)
        self._broker.configure(**self._sequence.settings)
        self.client = Client(self._broker.ports.binary, self.topic, SUBSCRIPTION)
        self.client.open_producer()
        if not self._subscribed:
            self._admin("", {"ledgerId": -1, "entryId": -1}, method="PUT")
            self._subscribed = True

    def disconnect(self) -> None:
        """Close the connection without closing consumers first."""
        self.client.close()

    def apply(self, action: Action) -> ErrorCode | None:
        """Play an action; return the broker's error, if it answered one."""
        try:
            self._do(action)
            self.client.settle()
        except RefusedError as refused:
            return ErrorCode(refused.code)
        return None

    def state(self) -> dict[str, Any]:
        """Return the subscription as it is in the broker's memory."""
        return self._broker.subscription(self.topic, SUBSCRIPTION)

    def flush(self) -> None:
        """Write the cursor."""
        self._broker.flush(self.topic, SUBSCRIPTION)

    def taken(self) -> list[Delivered]:
        """Return the deliveries since the last call."""
        return self.client.take()

    def closed(self) -> list[int]:
        """Return the consumers that the broker closed since the previous call."""
        closed, self.client.closed = self.client.closed, []
        return closed

    def _admin(self, path: str, body: object = None, method: str = "POST") -> None:
        self._broker.admin(method, f"persistent/{self._name}/subscription/{SUBSCRIPTION}{path}", body)

    @singledispatchmethod
    def _do(self, action: Any) -> None:
        raise TypeError(f"no way to play {action!r}")

    @_do.register
    def _(self, action: actions.Publish) -> None:
        for number, (size, key) in enumerate(action.entries):
            chunk = (number, len(action.entries)) if action.chunked else None
            position = self.client.publish(size, key, deliver_at_ms=action.deliver_at_ms, chunk=chunk)
            self.published.append((position, self.client.sequence_id))

    @_do.register
    def _(self, action: actions.Subscribe) -> None:
        self.client.subscribe(action.consumer_id, action.name, self._type, priority=action.priority)

    @_do.register
    def _(self, action: actions.Close) -> None:
        self.client.close_consumer(action.consumer_id)

    @_do.register
    def _(self, action: actions.Flow) -> None:
        self.client.flow(action.consumer_id, action.permits)

    @_do.register
    def _(self, action: actions.Ack) -> None:
        self.client.ack(
            action.consumer_id,
            action.message_ids,
            transaction=action.transaction,
            properties=dict(action.properties),
        )

    @_do.register
    def _(self, action: actions.AckCumulative) -> None:
        ids = [(action.position, action.ack_set, 0)]
        self.client.ack(
            action.consumer_id,
            ids,
            cumulative=True,
            transaction=action.transaction,
            properties=dict(action.properties),
        )

    @_do.register
    def _(self, action: actions.EndTransaction) -> None:
        self.client.end_transaction(action.transaction, commit=action.commit)

    @_do.register
    def _(self, action: actions.Redeliver) -> None:
        self.client.redeliver(action.consumer_id, action.positions or ())
        if self._sequence.type in ("Exclusive", "Failover"):
            # Nothing answers, and it is done on another thread than a flow that comes after it.
            time.sleep(REWIND_S)

    @_do.register
    def _(self, action: actions.Nack) -> None:
        pass  # It is between the client and its application.

    @_do.register
    def _(self, action: actions.Seek) -> None:
        self.client.seek(action.consumer_id, action.position, action.ack_set)

    @_do.register
    def _(self, action: actions.Skip) -> None:
        self._admin(f"/skip/{action.entries}")

    @_do.register
    def _(self, action: actions.Clear) -> None:
        self._admin("/skip_all")

    @_do.register
    def _(self, action: actions.Expire) -> None:
        ledger_id, entry_id = action.position
        try:
            self._admin("/expireMessages", {"ledgerId": ledger_id, "entryId": entry_id, "isExcluded": False})
        except urllib.error.HTTPError as error:
            raise RefusedError(ErrorCode.NOT_ALLOWED_ERROR, error.read().decode()) from None

    @_do.register
    def _(self, action: actions.Wait) -> None:
        time.sleep(max(action.until_ms / 1_000 - time.time(), 0))

    @_do.register
    def _(self, action: actions.ChangeType) -> None:
        self._type = SubscriptionType(action.type)

    @_do.register
    def _(self, action: actions.Unsubscribe) -> None:
        self._admin("", method="DELETE")
        self._admin("", {"ledgerId": -1, "entryId": -1}, method="PUT")

    @_do.register
    def _(self, action: actions.Unload) -> None:
        self._broker.configure(**self._sequence.settings)
        if action.forged:
            self._broker.forge(self.topic, SUBSCRIPTION, FORGED_LEDGER)
        self._broker.admin("PUT", f"persistent/{self._name}/unload")
        self.client.open_producer()
